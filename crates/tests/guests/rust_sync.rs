// relive: threads=yes link=pie,static
//! Rust threads: channels, scoped threads, Mutex, RwLock, Condvar, Barrier, Once, atomics,
//! park and unpark, thread-locals.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::Duration;

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(0) };
}

fn channels() {
    let (sender, receiver) = mpsc::channel();
    let (bounded, from_bounded) = mpsc::sync_channel(2);
    for id in 0..3u64 {
        let (sender, bounded) = (sender.clone(), bounded.clone());
        thread::spawn(move || {
            for i in 0..200 {
                sender.send(id * 1000 + i).unwrap();
                if i % 10 == 0 {
                    bounded.send(id).unwrap();
                }
            }
        });
    }
    drop((sender, bounded));
    let from_bounded = thread::spawn(move || from_bounded.iter().count());
    let mut last = [None; 3];
    let mut count = 0;
    for value in receiver {
        let id = (value / 1000) as usize;
        assert!(last[id] < Some(value), "one sender's messages keep their order");
        last[id] = Some(value);
        count += 1;
    }
    assert_eq!((count, from_bounded.join().unwrap()), (600, 60));
    let (sender, receiver) = mpsc::channel::<()>();
    assert!(receiver.recv_timeout(Duration::from_millis(1)).is_err());
    drop(receiver);
    assert!(sender.send(()).is_err());
}

fn scoped() {
    let words: Vec<String> = (0..400).map(|i| format!("w{}", i % 37)).collect();
    let counts = Mutex::new(HashMap::<&str, usize>::new());
    let read_mostly = RwLock::new(0usize);
    let barrier = Barrier::new(4);
    let leaders = AtomicUsize::new(0);
    thread::scope(|scope| {
        for part in words.chunks(100) {
            let (counts, read_mostly, barrier, leaders) = (&counts, &read_mostly, &barrier, &leaders);
            scope.spawn(move || {
                for word in part {
                    *counts.lock().unwrap().entry(word).or_default() += 1;
                    MINE.set(MINE.get() + 1);
                }
                assert_eq!(MINE.get(), 100);
                if barrier.wait().is_leader() {
                    leaders.fetch_add(1, Ordering::Relaxed);
                }
                *read_mostly.write().unwrap() += 1;
                barrier.wait();
                assert_eq!(*read_mostly.read().unwrap(), 4);
            });
        }
    });
    assert_eq!(counts.into_inner().unwrap().values().sum::<usize>(), 400);
    assert_eq!((leaders.into_inner(), MINE.get()), (1, 0));
}

fn waiting() {
    let pair = Arc::new((Mutex::new(0u32), Condvar::new()));
    let threads: Vec<_> = (0..4u32)
        .map(|me| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let (turn, changed) = &*pair;
                for _ in 0..50 {
                    let mut turn = changed.wait_while(turn.lock().unwrap(), |t| *t % 4 != me).unwrap();
                    *turn += 1;
                    changed.notify_all();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*pair.0.lock().unwrap(), 200);

    let flag = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&flag);
    let parked = thread::spawn(move || {
        for want in 1..=100 {
            while seen.load(Ordering::Acquire) < want {
                thread::park();
            }
        }
    });
    for n in 1..=100 {
        flag.store(n, Ordering::Release);
        parked.thread().unpark();
    }
    parked.join().unwrap();
}

fn main() {
    channels();
    scoped();
    waiting();
    static ONCE: Once = Once::new();
    static CELL: OnceLock<u64> = OnceLock::new();
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                ONCE.call_once(|| {
                    RUNS.fetch_add(1, Ordering::Relaxed);
                });
                *CELL.get_or_init(|| 42)
            })
        })
        .collect();
    assert!(threads.into_iter().all(|t| t.join().unwrap() == 42));
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
    let poisoned = Arc::new(Mutex::new(1));
    let held = Arc::clone(&poisoned);
    let died = thread::Builder::new().name("doomed".into()).spawn(move || {
        let _guard = held.lock().unwrap();
        std::panic::resume_unwind(Box::new("quiet"));
    });
    assert!(died.unwrap().join().is_err() && poisoned.is_poisoned());
    println!("ok");
}
