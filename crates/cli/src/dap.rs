//! `relive dap`: a debug adapter for editors, over standard input and output or one connection.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;

use crate::args::DapArgs;
use crate::{output, peer};

/// The running executable, even if its file was replaced or removed.
const MYSELF: &str = "/proc/self/exe";

/// Serves one editor to its end.
///
/// # Errors
/// The editor does not speak the protocol, or cannot be reached.
pub fn execute(args: &DapArgs) -> Result<EndStatus, Failure> {
    // A write error tells that the editor is gone.
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
    Ok(EndStatus::Code(0))
}

/// Waits for one client on the loopback interface that belongs to the same user: a client may start
/// programs.
fn accept(port: u16) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let at = listener.local_addr()?;
    output::complain(&format!("waiting for an editor at {at}"));
    loop {
        let (stream, _) = listener.accept()?;
        if peer::admit(&stream) {
            // Messages are small and each waits for its answer. It works without, but slowly.
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
    }
}
