//! The server with clients that do as they should, and with others.

use std::io::Write;
use std::os::fd::OwnedFd;

use relive_trace::FileStore;

use super::wire::*;
use super::*;

/// A trace folder with a copy of this text.
fn trace(text: &[u8]) -> (tempfile::TempDir, [u8; 32]) {
    let base = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(base.path().join("files")).expect("a folder");
    let source = base.path().join("source");
    std::fs::write(&source, text).expect("a file");
    let source = std::fs::File::open(source).expect("it is there");
    let id = FileStore::new(base.path())
        .add(&source)
        .expect("it is kept");
    (base, id.0)
}

/// A server, and a client's end of its socket beside the one that it gives away.
fn served(trace: &std::path::Path) -> (Broker, OwnedFd) {
    let mut broker = Broker::new().expect("a server");
    let end = broker.end_for_tests();
    broker.serve(trace).expect("a thread");
    (broker, end)
}

fn ask(end: &OwnedFd, bytes: &[u8]) {
    let mut end = std::fs::File::from(end.try_clone().expect("a descriptor"));
    end.write_all(bytes).expect("the server listens");
}

fn answer(end: &OwnedFd) -> (BrokerOutcome, i32, u64, Option<OwnedFd>) {
    let mut bytes = [0; ANSWER];
    let mut message = socket::receive(end, &mut bytes).expect("an answer");
    assert_eq!(message.len, ANSWER);
    let (outcome, errno, number) = decode_answer(&bytes).expect("it makes sense");
    (outcome, errno, number, message.descriptors.pop())
}

#[test]
fn requests_and_answers_are_read_as_they_were_written() {
    let sum = Sum {
        process: 3,
        thread: u32::MAX,
        event: 1 << 40,
        tick: u64::MAX,
        memory: 0x0123_4567_89ab_cdef,
    };
    for request in [
        BrokerRequest::Copy([7; 32]),
        BrokerRequest::Translations(u128::MAX - 5),
        BrokerRequest::Pagemap,
        BrokerRequest::Maps,
        BrokerRequest::Known(7),
        BrokerRequest::Sum(sum),
    ] {
        let bytes = request.encode(99);
        assert_eq!(BrokerRequest::decode(&bytes), Some((request, 99)));
        assert_eq!(BrokerRequest::decode(&bytes[1..]), None);
    }
    assert_eq!(BrokerRequest::decode(&[0; REQUEST]), None);
    assert_eq!(BrokerRequest::decode(&[0xff; REQUEST]), None);
    for outcome in [
        BrokerOutcome::Here,
        BrokerOutcome::Checked,
        BrokerOutcome::Missing,
        BrokerOutcome::Damaged,
        BrokerOutcome::Unreadable,
    ] {
        let bytes = encode_answer(outcome, -7, 1 << 63);
        assert_eq!(decode_answer(&bytes), Some((outcome, -7, 1 << 63)));
    }
    assert_eq!(decode_answer(&[0xff; ANSWER]), None);
}

#[test]
fn content_is_handed_out_for_reading() {
    let (base, id) = trace(b"content");
    let (broker, end) = served(base.path());
    ask(&end, &BrokerRequest::Copy(id).encode(5));
    let (outcome, _, number, file) = answer(&end);
    assert_eq!((outcome, number), (BrokerOutcome::Here, 5));
    let mut file = std::fs::File::from(file.expect("a descriptor"));
    assert!(file.write_all(b"x").is_err(), "for reading only");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut file, &mut text).expect("it is open");
    assert_eq!(text, "content");
    ask(&end, &BrokerRequest::Copy([1; 32]).encode(6));
    let (outcome, _, number, file) = answer(&end);
    assert_eq!((outcome, number), (BrokerOutcome::Missing, 6));
    assert!(file.is_none());
    drop(broker);
}

#[test]
fn the_senders_own_files_and_no_others() {
    let (base, _) = trace(b"content");
    let (_broker, end) = served(base.path());
    // This process has its end at another number: to the server it is a stranger.
    ask(&end, &BrokerRequest::Maps.encode(1));
    let (outcome, _, _, file) = answer(&end);
    assert_eq!(outcome, BrokerOutcome::Missing);
    assert!(file.is_none());
}

#[test]
fn nonsense_is_not_answered_and_stops_nothing() {
    let (base, id) = trace(b"content");
    let (_broker, end) = served(base.path());
    for nonsense in [&[0; REQUEST][..], &[1; 3], &[0xff; 4 * REQUEST]] {
        ask(&end, nonsense);
    }
    ask(&end, &BrokerRequest::Copy(id).encode(9));
    assert_eq!(answer(&end).2, 9);
}

#[test]
fn a_client_that_never_listens_does_not_stop_the_server() {
    let (base, id) = trace(b"content");
    let (broker, end) = served(base.path());
    for number in 0..2000 {
        ask(&end, &BrokerRequest::Copy(id).encode(number));
    }
    // Reached only if the server takes requests all the time.
    broker.finish().expect("nothing was too much");
}

#[test]
fn reports_are_there_at_the_end() {
    let (base, _) = trace(b"content");
    let (broker, end) = served(base.path());
    let sum = |event| Sum {
        process: 1,
        thread: 2,
        event,
        tick: 3,
        memory: 4,
    };
    for event in 0..1000 {
        ask(&end, &BrokerRequest::Sum(sum(event)).encode(0));
    }
    let gathered = broker.finish().expect("there is room");
    let sums = &gathered.sums[&1];
    assert_eq!(sums.len(), 1000);
    assert!(sums.iter().zip(0..).all(|(s, event)| *s == sum(event)));
}
