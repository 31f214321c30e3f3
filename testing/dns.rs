//! A DNS server that answers when a test lets it, and a server under test that queries it.
//!
//! glibc queries only the servers in `/etc/resolv.conf`, on port 53. The DNS server therefore listens on a private address
//! in 127.0.0.0/8, and svc starts in a private mount namespace with another `resolv.conf` and `nsswitch.conf`. Both need
//! root; without it, the tests that resolve names are skipped.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;

use crate::Svc;
use crate::gate::Gate;
use crate::skip::skipped;
use crate::socket::{Listener, Socket};

/// A running server.
#[derive(Debug)]
pub struct DnsServer {
    addr: SocketAddr,
    tcp: Arc<Listener>,
    shared: Arc<Shared>,
    folder: TempDir,
}

#[derive(Debug, Default)]
struct Shared {
    gate: Gate,
    zone: Mutex<Zone>,
}

#[derive(Debug, Default)]
struct Zone {
    records: HashMap<String, Vec<Record>>,
    manners: HashMap<String, Manner>,
    /// Questions in order of arrival: name, type, and whether the question came over TCP.
    asked: Vec<(String, u16, bool)>,
}

/// The records of a name.
#[derive(Clone, Debug)]
pub enum Record {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Mx(u16, &'static str),
    Txt(&'static str),
}

/// How questions for a name are answered; immediately by default.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// SERVFAIL.
    Fail,
    /// After the gate opens.
    Hold,
    /// After a delay.
    Pause(Duration),
    /// Never.
    Silent,
    /// Truncated over UDP, complete over TCP.
    Truncate,
}

/// One question, and the message that contains it.
struct Question<'a> {
    message: &'a [u8],
    /// The offset of its end in the message.
    end: usize,
    name: String,
    kind: u16,
}

const HEADER_LEN: usize = 12;
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const NAME_ERROR: u8 = 3;

impl DnsServer {
    /// Starts a server; returns `None` without the rights to do so. Names without records do not exist.
    pub fn start(names: &[(&str, &[Record])]) -> Option<Self> {
        let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
        if !may_mount.is_ok_and(|status| status.success()) {
            skipped("a mount namespace, which names are looked up in, needs root");
            return None;
        }
        let Some((udp, tcp)) = listen() else {
            skipped("no address in 127.0.0.0/8 has a free port 53 for this process: it needs root");
            return None;
        };
        let (addr, shared) = (udp.local_addr().unwrap(), Arc::new(Shared::default()));
        let records = names.iter().map(|(name, records)| ((*name).to_owned(), records.to_vec()));
        shared.zone.lock().unwrap().records = records.collect();
        let tcp = Arc::new(Listener::Tcp(tcp));
        let (listener, for_tcp) = (Arc::clone(&tcp), Arc::clone(&shared));
        std::thread::spawn(move || {
            while let Some(socket) = listener.accept() {
                let shared = Arc::clone(&for_tcp);
                std::thread::spawn(move || shared.serve_connection(socket));
            }
        });
        let for_udp = Arc::clone(&shared);
        std::thread::spawn(move || for_udp.serve_datagrams(&udp));
        Some(Self { addr, tcp, shared, folder: tempfile::tempdir().unwrap() })
    }

    /// Adds the records of a name.
    pub fn add(&self, name: &str, records: &[Record]) {
        self.shared.zone.lock().unwrap().records.insert(name.to_owned(), records.to_vec());
    }

    /// Sets how questions for a name are answered.
    pub fn answer(&self, name: &str, manner: Manner) {
        self.shared.zone.lock().unwrap().manners.insert(name.to_owned(), manner);
    }

    /// Returns the gate at which questions are held.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Returns how often a name was asked for, over UDP or over TCP.
    pub fn asked(&self, name: &str, over_tcp: bool) -> usize {
        let zone = self.shared.zone.lock().unwrap();
        zone.asked.iter().filter(|(asked, _, tcp)| asked == name && *tcp == over_tcp).count()
    }

    /// Starts a server under test that queries this server, with these options of `resolv.conf(5)`.
    pub fn svc(&self, options: &str, files: &[(&str, &str)], settings: &[(&str, &str)]) -> Svc {
        let file = |name: &str| self.folder.path().join(name);
        let conf = format!("nameserver {}\noptions {options}\n", self.addr.ip());
        fs::write(file("resolv.conf"), conf).unwrap();
        fs::write(file("nsswitch.conf"), "hosts: files dns\n").unwrap();
        let folder = self.folder.path().display();
        let wrapper = format!(
            "#!/bin/sh\nexec unshare --mount -- /bin/sh -c '\n\
             for file in resolv.conf nsswitch.conf; do mount --bind \"$0/$file\" \"/etc/$file\" || exit; done\n\
             exec \"$@\"' '{folder}' \"$@\"\n"
        );
        fs::write(file("wrapper"), wrapper).unwrap();
        fs::set_permissions(file("wrapper"), fs::Permissions::from_mode(0o755)).unwrap();
        Svc::start_under(&file("wrapper"), files, settings, &[])
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.shared.gate.end();
        self.tcp.shut_down();
        // The thread that reads questions ends at an empty datagram.
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            let _ = socket.send_to(&[], self.addr);
        }
    }
}

impl Shared {
    fn serve_datagrams(self: &Arc<Self>, socket: &UdpSocket) {
        let mut bytes = [0; 1024];
        while let Ok((count, client)) = socket.recv_from(&mut bytes) {
            if count == 0 {
                return;
            }
            let (message, shared) = (bytes[..count].to_vec(), Arc::clone(self));
            let socket = socket.try_clone().unwrap();
            std::thread::spawn(move || {
                if let Some(answer) = shared.answer(&message, false) {
                    // The client may have given up.
                    let _ = socket.send_to(&answer, client);
                }
            });
        }
    }

    fn serve_connection(&self, mut stream: Socket) -> io::Result<()> {
        loop {
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            let mut message = vec![0; u16::from_be_bytes(length).into()];
            stream.read_exact(&mut message)?;
            let Some(answer) = self.answer(&message, true) else { continue };
            let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
            stream.write_all(&[&length, &answer[..]].concat())?;
        }
    }

    fn answer(&self, message: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
        let question = Question::parse(message)?;
        let (manner, records) = {
            let mut zone = self.zone.lock().unwrap();
            zone.asked.push((question.name.clone(), question.kind, over_tcp));
            (zone.manners.get(&question.name).copied(), zone.records.get(&question.name).cloned())
        };
        match manner {
            Some(Manner::Fail) => return Some(question.answer(SERVER_FAILURE, false, &[])),
            Some(Manner::Hold) => self.gate.hold().then_some(())?,
            Some(Manner::Pause(time)) => self.gate.pause(time).then_some(())?,
            Some(Manner::Silent) => return None,
            Some(Manner::Truncate) if !over_tcp => return Some(question.answer(NO_ERROR, true, &[])),
            Some(Manner::Truncate) | None => {}
        }
        Some(match records {
            Some(records) => question.answer(NO_ERROR, false, &records),
            None => question.answer(NAME_ERROR, false, &[]),
        })
    }
}

impl<'a> Question<'a> {
    fn parse(message: &'a [u8]) -> Option<Self> {
        let (mut labels, mut at) = (Vec::new(), HEADER_LEN);
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(message.get(at..at + length)?).to_ascii_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?);
        Some(Self { message, end: at + 4, name: labels.join("."), kind })
    }

    /// Returns the answer with the records that match the question.
    fn answer(&self, code: u8, is_truncated: bool, records: &[Record]) -> Vec<u8> {
        let records: Vec<_> = records.iter().filter(|record| record.kind() == self.kind).collect();
        let mut bytes = self.message[..2].to_vec();
        // Response flags: QR, AA and RD; RA in the second byte.
        bytes.extend([0x85 | u8::from(is_truncated) << 1, 0x80 | code]);
        for count in [1, records.len(), 0, 0] {
            bytes.extend(u16::try_from(count).unwrap().to_be_bytes());
        }
        bytes.extend(&self.message[HEADER_LEN..self.end]);
        for record in records {
            // The name is a pointer to the name in the question.
            bytes.extend([0xc0, HEADER_LEN as u8]);
            bytes.extend(self.kind.to_be_bytes());
            bytes.extend([0, 1, 0, 0, 0, 60]);
            let data = record.data();
            bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            bytes.extend(data);
        }
        bytes
    }
}

impl Record {
    fn kind(&self) -> u16 {
        match self {
            Self::A(_) => 1,
            Self::Mx(..) => 15,
            Self::Txt(_) => 16,
            Self::Aaaa(_) => 28,
        }
    }

    fn data(&self) -> Vec<u8> {
        match self {
            Self::A(addr) => addr.octets().to_vec(),
            Self::Aaaa(addr) => addr.octets().to_vec(),
            Self::Txt(text) => labelled([*text]),
            Self::Mx(preference, name) => {
                let name = labelled(name.split('.'));
                [&preference.to_be_bytes()[..], &name, &[0]].concat()
            }
        }
    }
}

/// Returns texts, each preceded by its length.
fn labelled<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let with_length = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    texts.into_iter().flat_map(with_length).collect()
}

/// Binds port 53 of an unused loopback address.
fn listen() -> Option<(UdpSocket, TcpListener)> {
    let [.., high, low] = std::process::id().to_be_bytes();
    (53..=90).find_map(|second| {
        let addr = SocketAddr::from((Ipv4Addr::new(127, second, high, low.max(1)), 53));
        Some((UdpSocket::bind(addr).ok()?, TcpListener::bind(addr).ok()?))
    })
}
