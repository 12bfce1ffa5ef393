//! Tapes that earlier versions wrote replay as ever.

use std::sync::Arc;
use std::time::Duration;

use crate::executor::block_on;
use relive_rpc::{Content, Header, Outcome, Session, Tape, call, depend, nondet};

/// Two processes: a client's root and a server whose handler asks the client again.
fn run(client: &Session, server: &Session, fee: u64) -> u64 {
    let (entry, back) = (
        server.exclusive("entry").unwrap(),
        client.entry_point("back").unwrap(),
    );
    let total = Arc::new(std::sync::Mutex::new(0));
    let work = async {
        for _ in 0..3 {
            let sent = async |header: Option<Header>| {
                let handler = async {
                    let fee: u64 = nondet("fee", || fee);
                    let asked = async |header: Option<Header>| {
                        back.serve(header.as_ref(), None, async { fee + 1 }).await
                    };
                    let answer = call(None, asked).await.unwrap().unwrap();
                    client.mark().into_iter().for_each(depend);
                    *total.lock().unwrap() += answer;
                };
                entry.serve(header.as_ref(), None, handler).await.unwrap();
                server.mark().into_iter().for_each(depend);
            };
            call(Some(Content(7)), sent).await.unwrap();
        }
    };
    block_on(client.run("main", work)).unwrap();
    *total.lock().unwrap()
}

/// As this test's program was recorded when names had numbers of 64 bits.
const TAPES: [&str; 2] = [
    "52454c49565250430100010006636c69656e747e687d0b4aea8647000000002c0000000841c61397cfb0980001046261636b209a\
     2e1a0511f6b19601099a2e1a0511f6b196016ea5c2d889d44a8a01110002011100020101000000070000000a3d3d12d8bebb6800\
     00046d61696effffffff000000000492b11a5c9615c0",
    "52454c49565250430100010006736572766572a316c213dad3fe3f0000000058000000de74da6171961de5000205656e74727920\
     efe801dd4b85409c0129efe801dd4b85409c00e55ef57acb89de4900070000000000000002000003666565010321000207000000\
     000000001202000001032100040700000000000000120200000103ffffffff00000000ac6433a88da825d1",
];

fn bytes(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

#[test]
fn names_of_64_bits() {
    let tapes = || TAPES.map(|text| Tape::parse(&bytes(text)).unwrap()).into();
    let open = |name| {
        let limit = Some(Duration::from_secs(10));
        Session::replay_tapes(tapes(), name, limit).unwrap()
    };
    let sessions = [open("client"), open("server")];
    // The fee is that of the recording.
    assert_eq!(run(&sessions[0], &sessions[1], 1000), 12);
    assert_eq!(
        sessions.map(|session| session.outcome()),
        [Outcome::Over, Outcome::Over]
    );
}
