//! Addresses as text.
//!
//! The result is the same as that of the standard library, but faster; an IPv4-mapped IPv6 address is written as the
//! IPv4 address. Parses nothing.

use std::net::IpAddr;

/// Formats an address. IPv4 addresses are formatted by hand: the standard formatting would take a quarter of the time
/// of all variables of a script.
pub fn ip_text(address: IpAddr) -> String {
    let IpAddr::V4(address) = address.to_canonical() else { return address.to_string() };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            text.push('.');
        }
        if octet >= 100 {
            text.push(char::from(b'0' + octet / 100));
        }
        if octet >= 10 {
            text.push(char::from(b'0' + octet / 10 % 10));
        }
        text.push(char::from(b'0' + octet % 10));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_standard_library_does() {
        for text in ["0.0.0.0", "1.20.255.9", "127.0.0.1", "99.100.109.110", "::1", "2001:db8::7"] {
            assert_eq!(ip_text(text.parse().unwrap()), text);
        }
        assert_eq!(ip_text("::ffff:192.0.2.7".parse().unwrap()), "192.0.2.7");
    }
}
