//! Clients that keep to the protocol, but send requests that gdb seldom does; and clients over TCP.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use relive_tests::command;
use relive_tests::gdb_client::{Client, packet};

use crate::server::{Server, recording};

#[test]
fn legal_packets_have_answers_and_the_connection_stays() {
    let mut server = Server::of("1000");
    let mut client = Client::connect(&server.path).expect("the server answers");
    let stands = client.ask("?").expect("an answer");
    for (asked, answer) in [
        (
            "qSupported:multiprocess+;xmlRegisters=i386;;",
            "PacketSize=",
        ),
        ("vMustReplyEmpty", ""),
        ("qOffsets", ""),
        ("QNonStop:0", ""),
        ("qSymbol::", ""),
        ("qTStatus", ""),
        ("qXfer:threads:read::0,1000", ""),
        ("qXfer:libraries-svr4:read::0,1000", ""),
        ("qXfer:auxv:read::0,8", "m"),
        ("qXfer:features:read:target.xml:0,5", "m<"),
        ("qXfer:features:read:nothing.xml:0,5", "E"),
        ("jThreadsInfo", ""),
        ("qHostInfo", "triple:"),
        ("qProcessInfo", "pid:"),
        ("qAttached", "1"),
        ("qC", "QC"),
        ("vCont?", "vCont;"),
        ("vFile:setfs:0", "F"),
        ("vFile:open:6e6f7468696e67,0,0", "F-1"),
        ("vFile:unlink:61", ""),
        ("QPassSignals:e;10", ""),
        ("QProgramSignals:0;1", ""),
        ("vStopped", ""),
        ("vCtrlC", ""),
        ("qThreadExtraInfo,1", ""),
        ("T1", "E"),
        // Not quite legal any more, and answered with an error.
        ("Tp1.-1", "E"),
        ("m", "E"),
        ("m1", "E"),
        ("mzz,4", "E"),
        ("M1000,4:zz", "E"),
        ("G00", "E"),
        ("pfff", "E"),
        ("P10", "E"),
        ("Hq1", "E"),
        ("Z0", "E"),
        ("Z9,0,1", ""),
        ("vCont;x", "E"),
        ("vFile:pread:zz", "E"),
        ("qXfer:auxv:read::", "E"),
    ] {
        let said = client.ask(asked);
        let said = said.unwrap_or_else(|e| panic!("{asked}: {e}"));
        let fits = match answer {
            "" => said.is_empty() || said.starts_with('E'),
            start => said.starts_with(start),
        };
        assert!(fits, "{asked}: {said}");
        server.lives(asked);
        assert_eq!(client.ask("?").expect("an answer"), stands, "after {asked}");
    }
    // Features agreed on before still hold: processes are named.
    assert!(stands.contains("thread:p"), "{stands}");
    // A client that names no features has none.
    for bare in ["qSupported", "qSupported:"] {
        let said = client.ask(bare).expect("an answer");
        assert!(said.starts_with("PacketSize="), "{bare}: {said}");
        let stands = client.ask("?").expect("an answer");
        assert!(!stands.contains("thread:p"), "{stands}");
    }
    assert_eq!(client.ask("D").expect("it lets go"), "OK");
    server.end();
}

#[test]
fn a_packet_that_was_not_understood_is_sent_again() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let server = Server::of("1000");
    let mut stream = UnixStream::connect(&server.path).expect("the server listens");
    let mut say = |bytes: &[u8], expected: &[u8]| {
        stream.write_all(bytes).expect("the server reads");
        let mut said = vec![0; expected.len()];
        stream.read_exact(&mut said).expect("the server answers");
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(said, String::from_utf8_lossy(expected));
    };
    let nothing = packet(b"");
    let acknowledged = [b"+", &nothing[..]].concat();
    say(&packet(b"vMustReplyEmpty"), &acknowledged);
    say(b"-", &acknowledged);
    // A wrong sum, and the same once more with a right one.
    say(b"$vMustReplyEmpty#00", b"-");
    say(&packet(b"vMustReplyEmpty"), &acknowledged);
    drop(stream);
    server.end();
}

/// A server over TCP: its process, and the address where it listens.
fn over_tcp(address: &[&str]) -> (Child, String) {
    let mut child = Command::new(command::relive().expect("the relive command"))
        .arg("debug")
        .arg(recording("1000"))
        .arg("--serve")
        .args(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let lines = BufReader::new(child.stderr.take().expect("its standard error"));
    let line = lines.lines().next().expect("a line").expect("text");
    let (_, told) = line.rsplit_once(' ').expect("an address");
    (child, told.to_owned())
}

#[test]
fn clients_over_tcp_come_one_after_the_other() {
    for address in [&["0"][..], &["127.0.0.1:0"], &["localhost:0"]] {
        let (mut child, told) = over_tcp(address);
        let bound: SocketAddr = told.parse().expect("an address");
        assert!(bound.ip().is_loopback(), "{address:?}: {bound}");
        let mut first = Client::connect_tcp(&told).expect("the server answers");
        first.monitor("goto 60").expect("an event");
        let here = first.monitor("position").expect("a position");
        // The second client waits until the first has gone, in any way.
        let waiting = TcpStream::connect(&told).expect("the server listens");
        drop(first);
        drop(waiting);
        let mut second = Client::connect_tcp(&told).expect("the server answers");
        assert_eq!(second.monitor("position").expect("a position"), here);
        assert_eq!(second.ask("D").expect("it lets go"), "OK");
        drop(second);
        let mut third = Client::connect_tcp(&told).expect("the server answers");
        assert_eq!(third.monitor("position").expect("a position"), here);
        third.send(&packet(b"k")).expect("the server reads");
        assert!(child.wait().expect("its state").success());
    }
}

#[test]
fn other_interfaces_are_listened_on_if_one_says_so() {
    let (mut child, told) = over_tcp(&["0.0.0.0:0"]);
    let bound: SocketAddr = told.parse().expect("an address");
    assert!(bound.ip().is_unspecified(), "{bound}");
    let near = format!("127.0.0.1:{}", bound.port());
    let mut client = Client::connect_tcp(&near).expect("the server answers");
    client.send(&packet(b"k")).expect("the server reads");
    assert!(child.wait().expect("its state").success());
}
