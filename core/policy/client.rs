//! Who a peer is, as far as the network tells, and what it may see.
//!
//! Promises: an IPv4 peer on an IPv6 socket is the IPv4 peer it is. Refuses: it believes no header, and it implies
//! nothing: a list that does not name loopback keeps loopback out.

use std::net::IpAddr;

use ipnet::IpNet;

/// The peers that may read what an operator restricts.
#[derive(Clone, Debug, Default)]
pub struct AllowList(Option<Vec<IpNet>>);

impl AllowList {
    /// Allows these networks; `None` allows everybody.
    pub fn new(networks: Option<Vec<IpNet>>) -> Self {
        Self(networks)
    }

    /// Whether the list lets this peer in.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.as_ref().is_none_or(|networks| networks.iter().any(|network| network.contains(&peer)))
    }

    /// Whether everybody is let in because nobody made a list.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }
}

/// Whether peers of other hosts can reach a listener with this address.
pub fn is_exposed(listener: IpAddr) -> bool {
    !listener.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(networks: &[&str]) -> AllowList {
        AllowList::new(Some(networks.iter().map(|network| network.parse().unwrap()).collect()))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn no_list_lets_everybody_in_and_an_empty_one_nobody() {
        assert!(AllowList::default().allows(ip("203.0.113.9")));
        assert!(AllowList::default().is_open());
        assert!(!list(&[]).allows(ip("127.0.0.1")));
        assert!(!list(&[]).is_open());
    }

    #[test]
    fn only_what_is_listed_gets_in_and_loopback_is_not_implied() {
        let list = list(&["10.0.0.0/8", "2001:db8::/32"]);
        assert!(list.allows(ip("10.255.0.1")));
        assert!(list.allows(ip("2001:db8::7")));
        assert!(!list.allows(ip("11.0.0.1")));
        assert!(!list.allows(ip("127.0.0.1")));
        assert!(!list.allows(ip("::1")));
    }

    #[test]
    fn a_mapped_peer_is_the_ipv4_peer_it_is() {
        assert!(list(&["10.0.0.0/8"]).allows(ip("::ffff:10.1.2.3")));
        assert!(!list(&["10.0.0.0/8"]).allows(ip("::ffff:11.1.2.3")));
    }

    #[test]
    fn a_listener_is_exposed_unless_it_is_on_loopback() {
        for (address, exposed) in [
            ("127.0.0.1", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("0.0.0.0", true),
            ("::", true),
        ] {
            assert_eq!(is_exposed(ip(address)), exposed, "{address}");
        }
    }
}
