//! The validity period of a certificate.
//!
//! The TLS library checks the dates of the peer's certificates, but does not expose those of the server's own. Any
//! content other than a certificate has no dates. Nothing is verified here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::x509::{CertificateParts, element};

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The beginning of the period.
    pub not_before: SystemTime,
    /// The end of the period.
    pub not_after: SystemTime,
}

/// The state of a certificate at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidityStatus {
    /// It is not yet valid.
    NotYetValid,
    /// It is valid.
    Valid,
    /// It has expired.
    Expired,
}

impl Validity {
    /// Parses the dates of a DER certificate; `None` if they are not at the expected position.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let dates = CertificateParts::of(certificate)?.validity;
        let (not_before, dates) = date(dates)?;
        let (not_after, _) = date(dates)?;
        Some(Self { not_before, not_after })
    }

    /// Returns the state of the certificate at `now`.
    pub fn status(&self, now: SystemTime) -> ValidityStatus {
        if now < self.not_before {
            ValidityStatus::NotYetValid
        } else if now > self.not_after {
            ValidityStatus::Expired
        } else {
            ValidityStatus::Valid
        }
    }
}

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Parses a date in either of its forms, both of which end in `Z`.
fn date(bytes: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (year, text, rest) = if let Some((text, rest)) = element(bytes, UTC_TIME) {
        let (year, text) = text.split_at_checked(2)?;
        let year = number(year)?;
        // The two digits stand for the years 1950 to 2049.
        (if year < 50 { 2000 + year } else { 1900 + year }, text, rest)
    } else {
        let (text, rest) = element(bytes, GENERALIZED_TIME)?;
        let (year, text) = text.split_at_checked(4)?;
        (number(year)?, text, rest)
    };
    let [mo @ .., b'Z'] = text else { return None };
    let parts: Vec<u64> = mo.chunks(2).map(number).collect::<Option<_>>()?;
    let [month @ 1..=12, day @ 1..=31, hour @ 0..=23, minute @ 0..=59, second @ 0..=60] = parts[..] else {
        return None;
    };
    let seconds = days_since_1970(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second;
    Some((UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?, rest))
}

fn number(digits: &[u8]) -> Option<u64> {
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Counts days in a calendar whose years begin in March, so that the leap day comes last. Years before 1970 count as
/// 1970, because it only matters that they are past.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some(days.saturating_sub(DAYS_TO_1970))
}

/// From the first of March of the year 0 to the first of January 1970.
const DAYS_TO_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn time(tag: u8, text: &str) -> Option<SystemTime> {
        let mut bytes = vec![tag, u8::try_from(text.len()).unwrap()];
        bytes.extend_from_slice(text.as_bytes());
        date(&bytes).map(|(time, rest)| {
            assert!(rest.is_empty());
            time
        })
    }

    #[test]
    fn both_forms_of_a_date_are_read() {
        assert_eq!(time(UTC_TIME, "700101000000Z"), Some(at(0)));
        assert_eq!(time(UTC_TIME, "240229235959Z"), Some(at(1_709_251_199)));
        assert_eq!(time(UTC_TIME, "500101000000Z"), Some(at(0)));
        assert_eq!(time(GENERALIZED_TIME, "20500101000000Z"), Some(at(2_524_608_000)));
        assert_eq!(time(GENERALIZED_TIME, "99991231235959Z"), Some(at(253_402_300_799)));
        for wrong in
            ["", "Z", "2401010000Z", "241301000000Z", "24010100000xZ", "240101000000+0100", "240101000000"]
        {
            assert_eq!(time(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_dates_of_a_certificate_are_found() {
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 2, 29);
        params.not_after = rcgen::date_time_ymd(2050, 1, 2);
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let validity = Validity::of(certificate.der()).unwrap();
        assert_eq!(validity, Validity { not_before: at(1_582_934_400), not_after: at(2_524_694_400) });
        assert_eq!(validity.status(at(1_582_934_399)), ValidityStatus::NotYetValid);
        assert_eq!(validity.status(at(1_582_934_400)), ValidityStatus::Valid);
        assert_eq!(validity.status(at(2_524_694_401)), ValidityStatus::Expired);
        for length in 0..certificate.der().len() {
            // Every truncated form has the same dates or none, and never panics.
            let _ = Validity::of(&certificate.der()[..length]);
        }
    }
}
