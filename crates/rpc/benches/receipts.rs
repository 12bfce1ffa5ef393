//! The cost of a receipt and of a primitive: nanoseconds, the median of rounds by turns with off, and bytes on
//! the tape. `cargo bench -p relive-rpc`.

#![allow(missing_docs)]

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use relive_rpc::{
    Content, EntryPoint, Header, Keep, NameId, Origin, Path, RequestId, Session, TaskId, call,
    nondet,
};

const COUNT: u64 = 20_000;
const ROUNDS: usize = 101;

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nobody is waited for"),
    }
}

/// The requests of a client whose handlers send one request each.
fn header(number: u64) -> Header {
    let task = TaskId {
        process: NameId::of("client"),
        origin: Origin::Gate(NameId::of("entry"), number),
        path: Path::default(),
    };
    Header {
        id: RequestId { task, number: 1 },
        content: Some(Content(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        epoch: number / 10_000,
        known: None,
    }
}

fn receipts(entry: &EntryPoint, from: u64) {
    for number in from..from + COUNT {
        let header = header(number);
        ready(entry.serve(Some(black_box(&header)), None, async { black_box(number) })).unwrap();
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Nanoseconds that this thread has run for: others on the machine do not count.
fn on_cpu() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of each of `COUNT`.
fn time(work: impl FnOnce()) -> f64 {
    let start = on_cpu();
    work();
    (on_cpu() - start) as f64 / COUNT as f64
}

fn rounds(mut work: impl FnMut()) -> f64 {
    let times = (0..ROUNDS).map(|_| time(|| (0..COUNT).for_each(|_| work())));
    median(times.collect())
}

fn show(name: &str, open: impl Fn(&Session) -> EntryPoint) {
    let folder = tempfile::tempdir().unwrap();
    let off = open(&Session::off("server").unwrap());
    let session = Session::record(folder.path(), "server", Keep::Order).unwrap();
    let recorded = open(&session);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 {
        without.push(time(|| receipts(&off, 0)));
        with.push(time(|| receipts(&recorded, round * COUNT)));
    }
    session.finish().unwrap();
    let tape = std::fs::metadata(folder.path().join("server.tape"))
        .unwrap()
        .len();
    let bytes = tape as f64 / (COUNT * ROUNDS as u64) as f64;
    let (without, with) = (median(without), median(with));
    println!("{name:30} off {without:6.1} ns   recorded {with:6.1} ns   {bytes:5.2} bytes");
}

fn main() {
    show("receipt", |session| session.entry_point("entry").unwrap());
    show("receipt, exclusive", |session| {
        session.exclusive("entry").unwrap()
    });

    let text = header(123_456).to_text();
    let parse = rounds(|| {
        black_box(Header::parse(black_box(text.as_bytes())).unwrap());
    });
    println!("{:30} {parse:6.1} ns", "header, read");

    let folder = tempfile::tempdir().unwrap();
    let session = Session::record(folder.path(), "client", Keep::Order).unwrap();
    let root = session.root("main").unwrap().unwrap();
    root.clone().run(|| {
        let sent = rounds(|| {
            let send =
                |header: Option<Header>| async move { header.map(|header| header.to_text()) };
            black_box(ready(call(Some(Content(1)), send)).unwrap());
        });
        println!("{:30} {sent:6.1} ns", "request, sent with its header");
        let primitive = rounds(|| {
            black_box(nondet("at", || 1u64));
        });
        println!("{:30} {primitive:6.1} ns", "primitive");
    });
    session.finish().unwrap();
}
