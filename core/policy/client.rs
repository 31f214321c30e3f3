//! Identifies peers and the clients behind them, and decides which pages a peer may see.
//!
//! A proxy in front of the server describes its clients in header fields. Clients can send the same fields, so only
//! those written by trusted proxies count: the walk starts at the peer of the connection and continues to the left
//! while the hop is trusted.
//!
//! ```text
//!   X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2        peer 10.0.0.1
//!                    claimed  the client   trusted         trusted
//! ```
//!
//! An IPv4 peer on an IPv6 socket is treated as an IPv4 peer. An entry that cannot be parsed ends the walk at the last
//! valid address. Fields from untrusted peers are ignored, and no address is trusted implicitly: a list without
//! loopback excludes loopback.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::http::Head;
use crate::http::forwarded::{self, ForwardedElement, Hop, Lines};

/// The client of a request, as reported by trusted proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The address; the port is 0 if no proxy reports it.
    pub addr: SocketAddr,
    /// Whether the client used HTTPS.
    pub https: bool,
    /// The requested host, with its port if it had one, if a proxy reports it.
    pub host: Option<Vec<u8>>,
    /// The port that the client connected to, if a proxy reports it.
    pub port: Option<u16>,
}

/// The trusted proxies.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl Client {
    /// Returns the peer of a connection without a proxy as the client.
    pub fn direct(peer: SocketAddr, https: bool) -> Self {
        Self { addr: peer, https, host: None, port: None }
    }
}

impl TrustedProxies {
    /// Creates the list from networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Returns whether this address is a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns whether to trust the trace context of this peer: a trusted proxy, or any peer if no proxy is configured.
    pub fn trusts_traces_of(&self, address: IpAddr) -> bool {
        self.0.is_empty() || self.trusts(address)
    }

    /// Determines the client of a request received from `peer`.
    pub fn client(&self, peer: SocketAddr, https: bool, head: &Head) -> Client {
        if self.0.is_empty() || !self.trusts(peer.ip()) {
            return Client::direct(peer, https);
        }
        let lines = |name: &'static str| -> Lines<'_> { head.header_values(name).collect() };
        let standard = lines("forwarded");
        let (addr, element) = if standard.is_empty() {
            let addresses = lines("x-forwarded-for");
            let (addr, element, place) = self.walk(peer, forwarded::x_forwarded_for(&addresses));
            let beside = |name| forwarded::beside(&lines(name), place);
            let https = beside("x-forwarded-proto").and_then(forwarded::scheme);
            let host = beside("x-forwarded-host").and_then(forwarded::host).map(<[u8]>::to_vec);
            let port = beside("x-forwarded-port").and_then(forwarded::port);
            (addr, ForwardedElement { https, host, port, ..element })
        } else {
            let (addr, element, _) = self.walk(peer, forwarded::forwarded(&standard));
            (addr, ForwardedElement { port: None, ..element })
        };
        let port = element.port.or_else(|| port_asked(&element, https, head));
        Client { addr, https: element.https.unwrap_or(https), host: element.host, port }
    }

    /// Walks the hops while they are trusted. Returns the client's address, the entry that describes its request, and
    /// the position of that entry from the right.
    fn walk(
        &self,
        peer: SocketAddr,
        hops: impl Iterator<Item = Hop>,
    ) -> (SocketAddr, ForwardedElement, usize) {
        let (mut client, mut entry, mut place) = (peer, ForwardedElement::default(), 0);
        for (at, hop) in hops.enumerate() {
            let Hop::Known(element) = hop else { break };
            let hop = element.address.map(|address| SocketAddr::new(address, element.port.unwrap_or(0)));
            // The author of this entry is trusted: it describes how the request arrived, even if it hides the address.
            (entry, place) = (element, at);
            let Some(hop) = hop else { break };
            client = hop;
            if !self.trusts(hop.ip()) {
                break;
            }
        }
        (client, entry, place)
    }
}

/// Returns the port that a client connected to if no proxy reports it: that of the host, or the default port of the
/// scheme. `None` if proxies report neither.
fn port_asked(element: &ForwardedElement, https: bool, head: &Head) -> Option<u16> {
    let usual = if element.https.unwrap_or(https) { 443 } else { 80 };
    match (&element.host, element.https) {
        (Some(host), _) => Some(port_of(host).unwrap_or(usual)),
        (None, Some(_)) => Some(head.host().and_then(port_of).unwrap_or(usual)),
        (None, None) => None,
    }
}

/// Returns the port of a host, which may be an address in brackets.
fn port_of(host: &[u8]) -> Option<u16> {
    let colon = host.iter().rposition(|&byte| byte == b':')?;
    forwarded::port(&host[colon + 1..])
}

/// The peers that may read restricted pages.
#[derive(Clone, Debug, Default)]
pub struct AllowList(Option<Vec<IpNet>>);

impl AllowList {
    /// Allows these networks; `None` allows all peers.
    pub fn new(networks: Option<Vec<IpNet>>) -> Self {
        Self(networks)
    }

    /// Returns whether the list allows this peer.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.as_ref().is_none_or(|networks| networks.iter().any(|network| network.contains(&peer)))
    }

    /// Returns whether all peers are allowed because there is no list.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }
}

/// Returns whether a listener with this address is reachable from other hosts.
pub fn is_exposed(listener: IpAddr) -> bool {
    !listener.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    fn head(fields: &str) -> Head {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        match parse(text.as_bytes(), HeadLimits::main_port()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    /// Shows the client behind `peer` as `address https host port`.
    fn seen(peer: &str, fields: &str) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8:aaaa::/48"].map(|network| network.parse().unwrap());
        let proxies = TrustedProxies::new(trusted.to_vec());
        let peer = SocketAddr::new(ip(peer), 999);
        let client = proxies.client(peer, false, &head(fields));
        let host = client.host.map_or("-".into(), |host| String::from_utf8(host).unwrap());
        let port = client.port.map_or("-".into(), |port| port.to_string());
        format!("{} {} {host} {port}", client.addr, if client.https { "https" } else { "http" })
    }

    #[test]
    fn the_rightmost_untrusted_hop_is_the_client() {
        for (peer, fields, client) in [
            ("10.0.0.1", "X-Forwarded-For: 203.0.113.9\r\n", "203.0.113.9:0 http - -"),
            ("10.0.0.1", "X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2\r\n", "203.0.113.9:0 http - -"),
            (
                "10.0.0.1",
                "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 203.0.113.9:77\r\n",
                "203.0.113.9:77 http - -",
            ),
            ("::ffff:10.0.0.1", "X-Forwarded-For: ::ffff:203.0.113.9\r\n", "203.0.113.9:0 http - -"),
            (
                "2001:db8:aaaa::1",
                "X-Forwarded-For: 2001:db8::7, 2001:db8:aaaa::2\r\n",
                "[2001:db8::7]:0 http - -",
            ),
            (
                "10.0.0.1",
                "Forwarded: for=6.6.6.6, for=\"203.0.113.9:80\", for=10.0.0.2\r\n",
                "203.0.113.9:80 http - -",
            ),
            // All hops are trusted: the request came from inside.
            ("10.0.0.1", "X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3:0 http - -"),
        ] {
            assert_eq!(seen(peer, fields), client, "{fields}");
        }
    }

    #[test]
    fn fields_of_an_untrusted_peer_are_ignored() {
        let fields = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\
                      X-Forwarded-Port: 1\r\nForwarded: for=1.1.1.1;proto=https;host=evil\r\n";
        assert_eq!(seen("203.0.113.9", fields), "203.0.113.9:999 http - -");
        let nobody = TrustedProxies::default().client("10.0.0.1:1".parse().unwrap(), true, &head(fields));
        assert_eq!(nobody, Client::direct("10.0.0.1:1".parse().unwrap(), true));
    }

    #[test]
    fn an_unreadable_hop_ends_the_walk_at_the_last_good_address() {
        for (fields, client) in [
            ("X-Forwarded-For: 6.6.6.6, garbage\r\n", "10.0.0.1:999 http - -"),
            ("X-Forwarded-For: 6.6.6.6, garbage, 10.0.0.2\r\n", "10.0.0.2:0 http - -"),
            ("X-Forwarded-For: 6.6.6.6,, 10.0.0.2\r\n", "10.0.0.2:0 http - -"),
            ("X-Forwarded-For:\r\n", "10.0.0.1:999 http - -"),
            ("Forwarded: for=6.6.6.6, for=1.2.3, for=10.0.0.2\r\n", "10.0.0.2:0 http - -"),
            ("Forwarded: for=6.6.6.6, for=\", for=10.0.0.2;proto=https\r\n", "10.0.0.2:0 https - 443"),
            // An obfuscated address ends the walk, but its proxy still describes how the request arrived.
            ("Forwarded: for=6.6.6.6, for=_hidden;proto=https\r\n", "10.0.0.1:999 https - 443"),
            ("Forwarded: for=6.6.6.6, proto=https;host=a\r\n", "10.0.0.1:999 https a 443"),
        ] {
            assert_eq!(seen("10.0.0.1", fields), client, "{fields}");
        }
    }

    #[test]
    fn scheme_and_host_are_those_of_the_same_hop() {
        for (fields, client) in [
            (
                "Forwarded: for=6.6.6.6;proto=http;host=evil, for=1.1.1.1;proto=https;host=\"a:8443\", for=10.0.0.2;proto=http;host=b\r\n",
                "1.1.1.1:0 https a:8443 8443",
            ),
            ("Forwarded: for=1.1.1.1, for=10.0.0.2;proto=https;host=b\r\n", "1.1.1.1:0 http - -"),
            (
                "Forwarded: for=1.1.1.1;proto=https\r\nX-Forwarded-For: 2.2.2.2\r\nX-Forwarded-Host: x\r\n",
                "1.1.1.1:0 https - 443",
            ),
            (
                "X-Forwarded-For: 6.6.6.6, 1.1.1.1, 10.0.0.2\r\nX-Forwarded-Proto: http, https, http\r\n\
                 X-Forwarded-Host: evil, a, b\r\nX-Forwarded-Port: 1, 8443, 3\r\n",
                "1.1.1.1:0 https a 8443",
            ),
            // A single entry, set by the outermost proxy and not changed by the others.
            (
                "X-Forwarded-For: 1.1.1.1, 10.0.0.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n",
                "1.1.1.1:0 https - 443",
            ),
            ("X-Forwarded-Proto: https\r\nX-Forwarded-Host: a\r\n", "10.0.0.1:999 https a 443"),
            (
                "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: ftp\r\nX-Forwarded-Host: a b\r\nX-Forwarded-Port: 0\r\n",
                "1.1.1.1:0 http - -",
            ),
        ] {
            assert_eq!(seen("10.0.0.1", fields), client, "{fields}");
        }
    }

    fn list(networks: &[&str]) -> AllowList {
        AllowList::new(Some(networks.iter().map(|network| network.parse().unwrap()).collect()))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn without_a_list_all_are_admitted_and_with_an_empty_one_none() {
        assert!(AllowList::default().allows(ip("203.0.113.9")));
        assert!(AllowList::default().is_open());
        assert!(!list(&[]).allows(ip("127.0.0.1")));
        assert!(!list(&[]).is_open());
    }

    #[test]
    fn only_listed_addresses_are_admitted_and_loopback_is_not_implied() {
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
