//! Content codings, and the client's preference among them: `Accept-Encoding` as defined by RFC 9110 section 12.5.3.
//!
//! A client never receives a coding that it refuses or did not ask for. A malformed list member is ignored, and names
//! are case-insensitive. Whether a body is worth compressing is decided elsewhere.

use super::quality::{member, quality};
use super::token::list;

/// A content coding that the server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Brotli, RFC 7932.
    Brotli,
    /// The gzip format, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878, with windows of at most 8 MiB (RFC 9659).
    Zstd,
}

/// The coding that a client prefers among those offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This coding.
    Coded(Coding),
    /// The body without a coding.
    Identity,
    /// None of those offered: the client refuses the uncoded body too. RFC 9110 allows a server to send it anyway,
    /// which is no worse for such a client than a 406.
    Nothing,
}

impl Coding {
    /// All codings, in the order of their names.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Gzip, Self::Zstd];

    /// Returns the registered name of the coding.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.token().as_bytes())
            || (self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// Chooses among `offered`, which is in the server's order of preference: among equal weights of the client, the first
/// one wins.
///
/// The uncoded body loses against a coding of the same weight and, if the client gives it no weight, against every
/// coding. A client that sends no `Accept-Encoding`, or an empty one, receives it.
pub fn choose<'a>(accept_encoding: impl IntoIterator<Item = &'a [u8]>, offered: &[Coding]) -> Choice {
    let weights = Weights::read(accept_encoding);
    let mut best: Option<(u16, Coding)> = None;
    for &coding in offered {
        let weight = weights.codings[coding as usize].or(weights.others).unwrap_or(0);
        if weight > best.map_or(0, |(best, _)| best) {
            best = Some((weight, coding));
        }
    }
    let identity = weights.identity.or(weights.others);
    match (best, identity) {
        (Some((weight, coding)), identity) if weight >= identity.unwrap_or(0) => Choice::Coded(coding),
        (None, Some(0)) => Choice::Nothing,
        _ => Choice::Identity,
    }
}

/// The client's weight of each coding, in thousandths. A coding that is named twice has its higher weight.
#[derive(Default)]
struct Weights {
    codings: [Option<u16>; Coding::ALL.len()],
    identity: Option<u16>,
    /// The weight of `*`, for codings that are not named.
    others: Option<u16>,
}

impl Weights {
    fn read<'a>(accept_encoding: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut weights = Self::default();
        for text in accept_encoding.into_iter().flat_map(list) {
            let (name, parameters) = member(text);
            let Some(weight) = quality(parameters) else { continue };
            if let Some(place) = weights.place(name) {
                *place = (*place).max(Some(weight));
            }
        }
        weights
    }

    fn place(&mut self, name: &[u8]) -> Option<&mut Option<u16>> {
        if name == b"*" {
            return Some(&mut self.others);
        }
        if name.eq_ignore_ascii_case(b"identity") {
            return Some(&mut self.identity);
        }
        let coding = Coding::ALL.into_iter().find(|coding| coding.is_named(name))?;
        Some(&mut self.codings[coding as usize])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Choice::{Coded, Identity, Nothing};
    use super::Coding::{Brotli, Gzip, Zstd};
    use super::*;

    /// In the server's order of preference for pages.
    const ALL: &[Coding] = &[Zstd, Brotli, Gzip];

    #[test]
    fn the_table_of_rfc_9110() {
        for (accept_encoding, offered, expected) in [
            // The client does not ask for a coding.
            ("", ALL, Identity),
            (" ", ALL, Identity),
            (", ,", ALL, Identity),
            ("identity", ALL, Identity),
            ("deflate", ALL, Identity),
            ("compress, deflate", ALL, Identity),
            ("gzip", &[], Identity),
            // The client asks for one coding.
            ("br", ALL, Coded(Brotli)),
            ("gzip", ALL, Coded(Gzip)),
            ("zstd", ALL, Coded(Zstd)),
            ("x-gzip", ALL, Coded(Gzip)),
            ("BR", ALL, Coded(Brotli)),
            ("X-GZip", ALL, Coded(Gzip)),
            ("gzip", &[Zstd, Brotli], Identity),
            ("deflate, gzip;q=0.5", ALL, Coded(Gzip)),
            ("gzip;q=0.001", ALL, Coded(Gzip)),
            ("  gzip\t;\tq=1.0  ", ALL, Coded(Gzip)),
            // With equal weights, the order of the server decides, not that of the client.
            ("gzip, deflate, br, zstd", ALL, Coded(Zstd)),
            ("gzip, deflate, br", ALL, Coded(Brotli)),
            ("zstd, gzip", &[Gzip, Zstd], Coded(Gzip)),
            ("gzip;q=0.8, br;q=0.8", ALL, Coded(Brotli)),
            // Weights take precedence over the order.
            ("zstd;q=0.5, br;q=0.6, gzip;q=0.7", ALL, Coded(Gzip)),
            ("zstd;q=0.999, gzip", ALL, Coded(Gzip)),
            ("gzip;q=1.0, br;q=0.8, *;q=0.1", ALL, Coded(Gzip)),
            // A refused coding is not chosen.
            ("br;q=0", ALL, Identity),
            ("br;q=0.000", ALL, Identity),
            ("br;q=0, gzip", ALL, Coded(Gzip)),
            ("zstd;q=0, *", ALL, Coded(Brotli)),
            ("gzip;q=0, x-gzip;q=0, *;q=0.5", &[Gzip], Identity),
            // The wildcard covers everything that is not named, including identity.
            ("*", ALL, Coded(Zstd)),
            ("*;q=0.5, gzip", ALL, Coded(Gzip)),
            ("gzip;q=0.1, *;q=0.5", &[Gzip], Identity),
            ("*;q=0", ALL, Nothing),
            ("*;q=0, identity", ALL, Identity),
            ("*;q=0, gzip", ALL, Coded(Gzip)),
            // Identity can have a weight and can be refused.
            ("identity, gzip;q=0.9", ALL, Identity),
            ("identity, gzip", ALL, Coded(Gzip)),
            ("identity;q=0.5, gzip;q=0.5", ALL, Coded(Gzip)),
            ("identity;q=0.5, gzip;q=0.4", ALL, Identity),
            ("identity;q=0", ALL, Nothing),
            ("identity;q=0, br", &[Gzip], Nothing),
            ("identity;q=0, br;q=0.1", ALL, Coded(Brotli)),
            ("identity;q=0, *;q=0.1", ALL, Coded(Zstd)),
            ("identity;q=0, *;q=0", ALL, Nothing),
            // A malformed member is ignored.
            ("gzip;q=2", ALL, Identity),
            ("gzip;q=1.001", ALL, Identity),
            ("gzip;q=0.0001", ALL, Identity),
            ("gzip;q=-1, br", ALL, Coded(Brotli)),
            ("gzip;q=", ALL, Identity),
            ("gzip;q", ALL, Identity),
            ("gzip;q=a, gzip;q=0.1", ALL, Coded(Gzip)),
            ("gzip br", ALL, Identity),
            ("gzip/1", ALL, Identity),
            ("\"gzip\"", ALL, Identity),
            ("gzipped, notgzip, brotli, zst", ALL, Identity),
            ("gz\u{131}p", ALL, Identity),
            (";q=1, =, ;;, *x", ALL, Identity),
            // The higher of two weights applies.
            ("gzip;q=0, gzip", ALL, Coded(Gzip)),
            ("br;q=0.1, gzip;q=0.2, br;q=0.3", ALL, Coded(Brotli)),
        ] {
            assert_eq!(choose([accept_encoding.as_bytes()], offered), expected, "{accept_encoding:?}");
        }
    }

    #[test]
    fn a_missing_field_asks_for_nothing_and_several_are_one() {
        assert_eq!(choose([], ALL), Identity);
        assert_eq!(choose([&b"deflate"[..], b"", b"br;q=0.5", b"gzip;q=0.6"], ALL), Coded(Gzip));
        assert_eq!(choose([&b"gzip"[..], b"identity;q=0"], &[]), Nothing);
    }

    proptest! {
        #[test]
        fn refused_and_unnamed_codings_are_never_sent(
            members in prop::collection::vec(
                (prop::sample::select(vec!["br", "gzip", "zstd", "identity", "deflate"]), 0_u16..=3), 0..6),
        ) {
            let text: Vec<_> = members.iter().map(|(name, weight)| format!("{name};q=0.{weight}")).collect();
            if let Coded(coding) = choose([text.join(",").as_bytes()], ALL) {
                prop_assert!(members.iter().any(|(name, weight)| *name == coding.token() && *weight > 0));
            }
        }
    }
}
