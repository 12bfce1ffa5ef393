//! `relive dap`: a debug adapter for editors, over standard input and output or one connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use relive_engine::Failure;
use relive_engine::supervisor::Status;

use crate::args::DapArgs;
use crate::output;

/// The running executable, whatever has become of its file.
const MYSELF: &str = "/proc/self/exe";

/// Serves one editor to its end.
///
/// # Errors
/// The editor does not speak the protocol, or cannot be reached.
pub fn execute(args: &DapArgs) -> Result<Status, Failure> {
    // An editor that is gone is noticed where it is written to.
    // SAFETY: a disposition of this process; children get the default back.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let served = match args.port {
        None => relive_dap::serve(
            Path::new(MYSELF),
            Box::new(io::stdin()),
            Box::new(io::stdout()),
        ),
        Some(port) => {
            let stream = accept(port).map_err(Failure::setup)?;
            let other = stream.try_clone().map_err(Failure::setup)?;
            relive_dap::serve(Path::new(MYSELF), Box::new(stream), Box::new(other))
        }
    };
    served.map_err(Failure::setup)?;
    Ok(Status::Code(0))
}

/// Waits for one client on the loopback interface that belongs to the same user: whoever is
/// served here may start programs.
fn accept(port: u16) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let at = listener.local_addr()?;
    output::complain(&format!("waiting for an editor at {at}"));
    loop {
        let (stream, from) = listener.accept()?;
        let sockets = std::fs::read_to_string("/proc/net/tcp")?;
        let own = rustix::process::geteuid().as_raw();
        if owner(&sockets, from, at) == Some(own) {
            // Messages are small and each waits for its answer. It works without, but slowly.
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
        output::complain(&format!("{from} belongs to another user and is not served"));
    }
}

/// The user of a connection's other end, from the kernel's table (proc(5), `/proc/net/tcp`).
fn owner(sockets: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let name = |at: SocketAddr| match at.ip() {
        // The address is shown as the number that its bytes in memory are.
        std::net::IpAddr::V4(ip) => {
            format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), at.port())
        }
        std::net::IpAddr::V6(_) => String::new(),
    };
    let (from, to) = (name(from), name(to));
    sockets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1) == Some(&from.as_str()) && fields.get(2) == Some(&to.as_str());
        is_it.then(|| fields.get(7)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_has_an_owner() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let client = TcpStream::connect(at).unwrap();
        let (_stream, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(owner(&sockets, from, at), Some(own));
        assert_eq!(owner(&sockets, at, at), None);
    }
}
