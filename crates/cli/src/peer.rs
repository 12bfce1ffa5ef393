//! The owner of the other end of a TCP connection. Every user of a machine reaches its loopback
//! interface, and a client that is served may read the recorded program and start programs.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

use crate::output;

/// A client's owner.
#[derive(Debug, PartialEq)]
enum Peer {
    /// May be served.
    Own,
    /// Belongs to another user.
    Stranger(SocketAddr),
    /// Has closed its end already.
    Gone,
}

/// Whether a client may be served; one of another user is reported.
pub fn admit(stream: &TcpStream) -> bool {
    match judge(stream) {
        Ok(Peer::Own) => return true,
        Ok(Peer::Gone) => {}
        Ok(Peer::Stranger(from)) => {
            output::complain(&format!("{from} belongs to another user and is not served"));
        }
        Err(e) => {
            output::complain(&format!(
                "a client is not served, as it cannot be told whose it is: {e}"
            ));
        }
    }
    false
}

fn judge(stream: &TcpStream) -> io::Result<Peer> {
    let from = match stream.peer_addr() {
        Err(e) if e.kind() == io::ErrorKind::NotConnected => return Ok(Peer::Gone),
        from => from?,
    };
    let at = stream.local_addr()?;
    let own = rustix::process::geteuid().as_raw();
    Ok(match find(from, at)? {
        Some(owner) if owner == own => Peer::Own,
        Some(_) => Peer::Stranger(from),
        // Another machine's client comes only where the user has named an address that other
        // machines reach. A local one that is not in the tables has closed its end already.
        None if from.ip().to_canonical().is_loopback() || from.ip() == at.ip() => Peer::Gone,
        None => Peer::Own,
    })
}

/// The owner of a connection's other end. A socket of IPv6 can have connected to an address of
/// IPv4, and then is in the other table.
fn find(from: SocketAddr, at: SocketAddr) -> io::Result<Option<u32>> {
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let sockets = match std::fs::read_to_string(table) {
            Ok(sockets) => sockets,
            // A kernel without IPv6 has no such table.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        if let Some(owner) = owner(&sockets, from, at) {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}

/// The user of a connection's other end, from one of the kernel's tables (proc(5),
/// `/proc/net/tcp`).
fn owner(sockets: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (names(from), names(to));
    sockets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let has = |at: usize, names: &[String; 2]| {
            let field = fields.get(at);
            field.is_some_and(|field| names.iter().any(|name| name == field))
        };
        // A socket that is closed has no inode, and in the table it is root's.
        let is_it = has(1, &from) && has(2, &to) && fields.get(9) != Some(&"0");
        is_it.then(|| fields.get(7)?.parse().ok()).flatten()
    })
}

/// An address as the tables of IPv4 and IPv6 show it: each word of its bytes as the number that
/// it is in memory.
fn names(at: SocketAddr) -> [String; 2] {
    let hex = |bytes: &[u8]| -> String {
        let words = bytes.as_chunks().0;
        words
            .iter()
            .map(|word| format!("{:08X}", u32::from_ne_bytes(*word)))
            .collect()
    };
    let port = at.port();
    match at.ip().to_canonical() {
        IpAddr::V4(ip) => [
            format!("{}:{port:04X}", hex(&ip.octets())),
            format!("{}:{port:04X}", hex(&ip.to_ipv6_mapped().octets())),
        ],
        IpAddr::V6(ip) => [String::new(), format!("{}:{port:04X}", hex(&ip.octets()))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_other_end_has_an_owner() {
        let own = rustix::process::geteuid().as_raw();
        for (listens, connects) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("127.0.0.1:0", "[::ffff:127.0.0.1]"),
            ("[::1]:0", "[::1]"),
            ("[::]:0", "127.0.0.1"),
        ] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(listens) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect(format!("{connects}:{port}")).unwrap();
            let (stream, from) = listener.accept().unwrap();
            let at = stream.local_addr().unwrap();
            assert_eq!(find(from, at).unwrap(), Some(own), "{listens} {connects}");
            assert_eq!(find(at, at).unwrap(), None);
            assert_eq!(judge(&stream).unwrap(), Peer::Own);
            drop(client);
            assert_eq!(judge(&stream).unwrap(), Peer::Gone);
        }
    }
}
