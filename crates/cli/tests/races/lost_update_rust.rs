// A counter that two threads load and then store: one update is lost where both load first.
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::thread;

static COUNTER: AtomicI32 = AtomicI32::new(0);

fn main() {
    let add = || {
        let seen = COUNTER.load(SeqCst);
        COUNTER.store(seen + 1, SeqCst);
    };
    let threads = [thread::spawn(add), thread::spawn(add)];
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(COUNTER.load(SeqCst), 2);
}
