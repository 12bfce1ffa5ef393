//! Any bytes from a client, to a server that runs: `RELIVE_SOCKET` names the socket file of
//! `relive debug --serve unix:PATH`. The server must live: each input is a connection of its
//! own, followed by a question that every client may ask.

#![no_main]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;

fn connect() -> UnixStream {
    let path = std::env::var("RELIVE_SOCKET").expect("RELIVE_SOCKET names the server's socket");
    let stream = UnixStream::connect(path).expect("the server listens");
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).expect("a time limit");
    stream.set_write_timeout(limit).expect("a time limit");
    stream
}

fuzz_target!(|bytes: &[u8]| {
    // `k` asks the server to end, which is no fault.
    if bytes.windows(2).any(|w| w == b"$k") || bytes.windows(6).any(|w| w == b"$vKill") {
        return;
    }
    let mut client = connect();
    // The server may hang up on an invalid client.
    let _ = client.write_all(bytes);
    drop(client);
    let mut client = connect();
    client.write_all(b"$qSupported:a+#fd").expect("the server reads");
    let mut answer = [0; 2];
    client.read_exact(&mut answer).expect("the server answers");
});
