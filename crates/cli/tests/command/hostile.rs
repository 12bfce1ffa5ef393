//! Clients of `relive debug --serve` that are no debuggers: for all their input, and all ways to
//! disconnect, the next one is served.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use relive_sched::Rng;

use crate::sandbox::{Sandbox, finish, wait};

/// A server on a recording of a small program.
struct Server {
    child: Child,
    socket: PathBuf,
    _sandbox: Sandbox,
}

impl Server {
    fn start() -> Self {
        let sandbox = Sandbox::new();
        sandbox.relive(&["record", "sh", "-c", "exit 3"]);
        let socket = sandbox.path("socket");
        let address = format!("unix:{}", socket.display());
        let child = sandbox
            .command(&["debug", "--serve", &address])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self {
            child,
            socket,
            _sandbox: sandbox,
        };
        server.connect();
        server
    }

    fn connect(&mut self) -> UnixStream {
        let started = Instant::now();
        loop {
            assert_eq!(self.child.try_wait().unwrap(), None, "the server has ended");
            if let Ok(stream) = UnixStream::connect(&self.socket) {
                let limit = Some(Duration::from_secs(60));
                stream.set_read_timeout(limit).unwrap();
                stream.set_write_timeout(limit).unwrap();
                return stream;
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "nobody listens"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether a well-behaved client gets its answers.
    #[track_caller]
    fn works(&mut self) {
        let mut client = self.connect();
        let answer = ask(&mut client, "qSupported:multiprocess+");
        assert!(answer.contains("PacketSize="), "{answer}");
        let answer = ask(&mut client, "?");
        assert!(answer.starts_with(['T', 'S']), "{answer}");
        assert_eq!(ask(&mut client, "bs").get(..1), Some("T"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        wait(&mut self.child);
    }
}

fn packet(body: &str) -> Vec<u8> {
    let sum = body.bytes().fold(0u8, u8::wrapping_add);
    format!("${body}#{sum:02x}").into_bytes()
}

/// Sends a packet and returns the answer's body.
fn ask(client: &mut (impl Read + Write), body: &str) -> String {
    client.write_all(&packet(body)).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    loop {
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
        if answer.len() > 3 && answer[answer.len() - 3] == b'#' {
            break;
        }
    }
    client.write_all(b"+").unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    let start = text.find('$').unwrap() + 1;
    text[start..text.len() - 3].to_owned()
}

#[test]
fn no_client_takes_the_server_down() {
    let mut server = Server::start();
    server.works();
    let long = "A".repeat(100_000);
    let nested = "$".repeat(5000);
    let bodies = [
        "",
        "$",
        "#",
        "m",
        "mffffffffffffffff,ffffffffffffffff",
        "m0,0",
        "m1000,-1",
        "M0,8:0000",
        "M10000000,4:zz",
        "X10000000,ffffffff:a",
        "Z0",
        "Z0,",
        "Z0,zz,1",
        "Z9,0,1",
        "Z2,0,0",
        "Z2,ffffffffffffffff,ffffffffffffffff",
        "z0,1,1",
        "G",
        "G00",
        "P",
        "P0=",
        "Pffffffff=00",
        "P10=ff",
        "p",
        "pffffffffffffffff",
        "g1",
        "Hg",
        "Hgp0.0",
        "Hcp-1.-1",
        "Hc-1",
        "Hg999999999999999999999",
        "T0",
        "Tp1.1",
        "vCont",
        "vCont;",
        "vCont;x",
        "vCont;s",
        "vCont;s:p1.1;c",
        "vCont;r0,0:1",
        "vCont;C99",
        "vFile:",
        "vFile:open:",
        "vFile:open:2f6574632f706173737764,0,0",
        "vFile:pread:0,ffffffff,ffffffffffffffff",
        "vFile:pread:ffffffff,1,0",
        "vFile:close:-1",
        "vFile:fstat:7",
        "vFile:unlink:2f",
        "vFile:readlink:2f70726f632f73656c662f657865",
        "vRun;",
        "vAttach;0",
        "vKill;1",
        "D;0",
        "qXfer:features:read:target.xml:ffffffff,ffffffff",
        "qXfer:features:read::0,0",
        "qXfer:exec-file:read::0,ffffffff",
        "qXfer:auxv:read::fffffffffffffff0,10",
        "qXfer:threads:read::0,100",
        "qRcmd,",
        "qRcmd,zz",
        "qRcmd,676f746f20",
        "qThreadExtraInfo,",
        "qThreadExtraInfo,p0.0",
        "qC",
        "qAttached:0",
        "bc",
        "bs",
        "bs;1",
        "R00",
        "!",
        "k0",
        "t",
        "QStartNoAckMode",
        "\u{3}",
        "}",
        "qSupported:;;;=+-?",
        &long,
        &nested,
    ];
    for body in bodies {
        let mut client = server.connect();
        // The server may hang up in the middle; that is its right.
        let _ = client.write_all(&packet(body));
        let _ = client.write_all(&packet("g"));
        drop(client);
    }
    server.works();
    // Not even packets, wrong sums, and connections that are cut anywhere.
    let mut numbers = Rng::new(0x9e37_79b9_7f4a_7c15);
    let alphabet = b"$#+-*}\x03%0123456789abcdefgGmMpPvVzZHTqQ;:,=.RXDkscCbt\x00\xff ";
    for round in 0..60 {
        let mut client = server.connect();
        let n = numbers.word() % 400;
        let bytes: Vec<u8> = (0..n)
            .map(|_| alphabet[(numbers.word() % alphabet.len() as u64) as usize])
            .filter(|b| *b != b'k')
            .collect();
        let _ = client.write_all(&bytes);
        let whole = packet("vCont;s:p1.1;c:p1.-1");
        let cut = (numbers.word() % whole.len() as u64) as usize;
        let _ = client.write_all(&whole[..cut]);
        if round % 3 == 0 {
            let _ = client.shutdown(std::net::Shutdown::Write);
        }
    }
    server.works();
    // Cut while it runs.
    for body in ["vCont;c", "bc", "vCont;c"] {
        let mut client = server.connect();
        let _ = client.write_all(&packet(body));
    }
    server.works();
}

#[test]
fn a_client_reads_the_recordings_files_and_no_others() {
    let mut server = Server::start();
    let mut client = server.connect();
    let hex = |path: &str| -> String { path.bytes().map(|b| format!("{b:02x}")).collect() };
    ask(&mut client, "qSupported:multiprocess+");
    for path in ["/etc/passwd", "/proc/self/mem", "/", "../../etc/passwd"] {
        let answer = ask(&mut client, &format!("vFile:open:{},0,0", hex(path)));
        assert!(answer.starts_with("F-1"), "{path}: {answer}");
    }
    let program = std::fs::canonicalize("/bin/sh").unwrap();
    let open = |flags: &str| format!("vFile:open:{},{flags},0", hex(program.to_str().unwrap()));
    let answer = ask(&mut client, &open("0"));
    assert_eq!(answer, "F00", "{}", program.display());
    assert!(ask(&mut client, "vFile:pread:0,4,0").contains("ELF"));
    for flags in ["1", "2", "201"] {
        assert!(ask(&mut client, &open(flags)).starts_with("F-1"));
    }
}

#[test]
fn the_socket_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start();
    let mode = std::fs::metadata(&server.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}

/// Any user of a machine reaches the loopback interface.
#[test]
fn another_user_is_not_served_over_tcp() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a client as another user");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "sh", "-c", "exit 3"]);
    for host in ["127.0.0.1", "[::1]", "0.0.0.0"] {
        let address = format!("{host}:0");
        if std::net::TcpListener::bind(&address).is_err() {
            eprintln!("skipped: {host} is no address of this machine");
            continue;
        }
        let mut server = sandbox
            .command(&["debug", "--serve", &address])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(server.stderr.take().unwrap()).lines();
        let line = said.next().unwrap().unwrap();
        let port = line.rsplit(':').next().unwrap();
        let host = if host == "0.0.0.0" { "127.0.0.1" } else { host };
        let request = String::from_utf8(packet("qSupported:multiprocess+")).unwrap();
        let script = format!(
            "exec 3<>/dev/tcp/{}/{port}; printf '%s' '{request}' >&3; head -c 1 <&3",
            host.trim_matches(['[', ']'])
        );
        let mut stranger = Command::new("bash");
        stranger.args(["-c", &script]).current_dir("/").uid(NOBODY);
        stranger.stdin(Stdio::null());
        let answer = finish(stranger).stdout;
        // The next one is served.
        let mut client = TcpStream::connect(format!("{host}:{port}")).unwrap();
        let limit = Some(Duration::from_secs(60));
        client.set_read_timeout(limit).unwrap();
        let own = ask(&mut client, "qSupported:multiprocess+");
        drop(client);
        let _ = server.kill();
        wait(&mut server);
        assert_eq!(answer, "", "{host}");
        assert!(own.contains("PacketSize="), "{own}");
        let said: Vec<String> = said.map(Result::unwrap).collect();
        assert!(
            matches!(&said[..], [word] if word.contains("belongs to another user")),
            "{said:?}"
        );
    }
}
