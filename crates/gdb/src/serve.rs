//! Waiting for clients, and the conversation with one.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use relive_engine::Failure;
use relive_engine::timeline::Follow;

use crate::at::At;
use crate::conversation::{Ended, converse};
use crate::debuggee::Debuggee;
use crate::family::Family;
use crate::stream::{Stream, has_input};
use crate::thread_locals::Locate;

/// The address that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// On a port, of the loopback interface unless another address is named.
    Tcp(SocketAddr),
    /// On a socket file, which only its owner may use.
    Unix(PathBuf),
}

impl Default for Address {
    fn default() -> Self {
        Self::Tcp(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 0))
    }
}

/// A text that names no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address: PORT, ADDRESS:PORT or unix:PATH")]
pub struct NoAddress(String);

impl std::str::FromStr for Address {
    type Err = NoAddress;

    /// `unix:PATH`, `PORT`, `:PORT` or `ADDRESS:PORT`.
    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        if let Ok(port) = text.trim_start_matches(':').parse() {
            return Ok(Self::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
        }
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        text.parse().map(Self::Tcp).map_err(|_| NoAddress(text))
    }
}

/// Options of a server.
pub struct Options<'a> {
    /// The trace's folder.
    pub trace: &'a std::path::Path,
    /// The process.
    pub follow: Follow,
    /// The place to begin at.
    pub at: At,
    /// Finds thread-local variables.
    pub locate: Locate,
}

/// Whether a client over TCP may be served; reports why not. A socket file needs no such check: its
/// mode decides.
pub type Admit = fn(&TcpStream) -> bool;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Whether a client waits to connect; waits for a while.
    fn has_client(&self) -> bool {
        match self {
            Self::Tcp(l) => has_input(l, 50),
            Self::Unix(l, _) => has_input(l, 50),
        }
    }
}

/// Serves one recording to one client after the other.
pub struct Server {
    listener: Listener,
    admit: Admit,
    session: Session,
}

/// The conversation with a client, and its timeline, which keeps its position for the next client.
pub struct Session {
    family: Family,
}

impl Session {
    /// Opens a recording.
    ///
    /// # Errors
    /// The trace is damaged, or has no such process.
    pub fn open(options: &Options<'_>) -> Result<Self, Failure> {
        let debuggee = Debuggee::open(options.trace, &options.follow, options.at)?;
        let family = Family::of(debuggee, options.trace.to_owned(), options.locate);
        Ok(Self { family })
    }

    /// Messages for the time before a client connects.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.family.first().news)
    }

    /// Talks to a client until it disconnects. `false`: it has asked to end the program. A client's
    /// errors end this conversation only.
    ///
    /// # Errors
    /// The replay itself cannot go on.
    pub fn converse(&mut self, stream: Stream) -> Result<bool, Failure> {
        let ended = converse(&mut self.family, stream);
        self.family.forget_client();
        let ended = ended?;
        self.family.first().look()?;
        Ok(matches!(ended, Ended::Gone))
    }

    /// One end of a connection to this session.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn pair() -> io::Result<(UnixStream, Stream)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((theirs, Stream::Unix(ours)))
    }
}

impl Server {
    /// Opens a recording and listens. The socket file of a server that has ended is replaced.
    ///
    /// # Errors
    /// The trace, or the address.
    pub fn start(options: &Options<'_>, address: &Address, admit: Admit) -> Result<Self, Failure> {
        let session = Session::open(options)?;
        let told = |e: io::Error| Failure::setup(format!("cannot listen: {e}"));
        let listener = match address {
            Address::Tcp(at) => Listener::Tcp(TcpListener::bind(at).map_err(told)?),
            Address::Unix(path) => {
                let old = std::fs::symlink_metadata(path);
                if old.is_ok_and(|m| m.file_type().is_socket())
                    && UnixStream::connect(path).is_err()
                {
                    std::fs::remove_file(path).map_err(told)?;
                }
                let listener = bind_private(path).map_err(told)?;
                Listener::Unix(listener, path.clone())
            }
        };
        Ok(Self {
            listener,
            admit,
            session,
        })
    }

    /// The address for clients, in gdb's syntax.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.listener {
            Listener::Tcp(l) => l
                .local_addr()
                .map_or_else(|e| e.to_string(), |a| a.to_string()),
            Listener::Unix(_, path) => path.display().to_string(),
        }
    }

    /// Messages for the time before a client connects.
    pub fn take_news(&mut self) -> Vec<String> {
        self.session.take_news()
    }

    /// Serves clients one after the other, until one asks for the end (`kill`).
    ///
    /// # Errors
    /// The replay itself cannot go on, or no more clients can come.
    pub fn serve(&mut self) -> Result<(), Failure> {
        self.serve_while(&mut || true)
    }

    /// As [`Server::serve`], as long as `wanted` returns true between two clients.
    ///
    /// # Errors
    /// As [`Server::serve`].
    pub fn serve_while(&mut self, wanted: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
        loop {
            while !self.listener.has_client() {
                if !wanted() {
                    return Ok(());
                }
            }
            let stream = match &self.listener {
                Listener::Tcp(l) => l.accept().map(|(s, _)| Stream::Tcp(s)),
                Listener::Unix(l, _) => l.accept().map(|(s, _)| Stream::Unix(s)),
            };
            let stream = match stream {
                Ok(s) => s,
                Err(e) if is_clients(&e) => continue,
                Err(e) => return Err(Failure::setup(format!("cannot accept a client: {e}"))),
            };
            if let Stream::Tcp(s) = &stream
                && !(self.admit)(s)
            {
                continue;
            }
            if !self.session.converse(stream)? {
                return Ok(());
            }
        }
    }
}

/// Whether accepting failed because of the client, which may have gone before it was accepted, or
/// of the network (accept(2) passes its errors on), or was interrupted.
fn is_clients(e: &io::Error) -> bool {
    const OF_THE_NETWORK: [i32; 9] = [
        libc::ENETDOWN,
        libc::EPROTO,
        libc::ENOPROTOOPT,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EHOSTUNREACH,
        libc::EOPNOTSUPP,
        libc::ENETUNREACH,
        libc::EPERM,
    ];
    use io::ErrorKind::{ConnectionAborted, Interrupted};
    matches!(e.kind(), ConnectionAborted | Interrupted)
        || e.raw_os_error()
            .is_some_and(|n| OF_THE_NETWORK.contains(&n))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &self.listener {
            // A leftover file does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds a socket file that only its owner may connect to. The file gets its name after the socket
/// listens, so that a client that sees it can connect.
fn bind_private(path: &std::path::Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    // Not by umask(2), which all threads share: another thread could reset it too early.
    let folder = path.with_file_name(format!(".relive-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let hidden = folder.join("s");
    let bound = UnixListener::bind(&hidden).and_then(|listener| {
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
        std::fs::hard_link(&hidden, path)?;
        Ok(listener)
    });
    // The first error is the one reported.
    let _ = std::fs::remove_file(&hidden);
    let removed = std::fs::remove_dir(&folder);
    bound.and_then(|listener| removed.map(|()| listener))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn whoever_sees_the_socket_may_connect() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..1000 {
            let path = folder.path().join(round.to_string());
            let seen = path.clone();
            let client = std::thread::spawn(move || {
                while !seen.exists() {
                    std::hint::spin_loop();
                }
                UnixStream::connect(&seen).map(drop)
            });
            let _listener = bind_private(&path).unwrap();
            client.join().unwrap().unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1000);
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine");
        std::fs::write(&path, "mine").unwrap();
        let refused = bind_private(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
