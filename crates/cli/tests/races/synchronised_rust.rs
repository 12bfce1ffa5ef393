//! Mutexes, channels, once cells, barriers, condition variables, atomics by plain moves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, OnceLock, RwLock};
use std::thread;
static ONCE: OnceLock<String> = OnceLock::new();
static mut DATA: u32 = 0;
static READY: AtomicBool = AtomicBool::new(false);
fn main() {
    let total = Arc::new(Mutex::new(0));
    let map = Arc::new(RwLock::new(HashMap::new()));
    let count = Arc::new(AtomicUsize::new(0));
    let (tx, rx) = mpsc::channel::<String>();
    let (stx, srx) = mpsc::sync_channel::<Vec<u8>>(8);
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let barrier = Arc::new(Barrier::new(4));
    let hs: Vec<_> = (0..4)
        .map(|i| {
            let (total, map, count, tx, stx, pair, barrier) = (
                total.clone(),
                map.clone(),
                count.clone(),
                tx.clone(),
                stx.clone(),
                pair.clone(),
                barrier.clone(),
            );
            thread::spawn(move || {
                for j in 0..100 {
                    *total.lock().unwrap() += j;
                    count.fetch_add(1, Ordering::Relaxed);
                    if j % 10 == 0 {
                        map.write().unwrap().insert(i * 100 + j, format!("{j}"));
                    } else {
                        let _ = map.read().unwrap().get(&j).cloned();
                    }
                    tx.send(format!("from {i} {j}")).unwrap();
                }
                stx.send(vec![i as u8; 10]).unwrap();
                ONCE.get_or_init(|| "once".to_string());
                barrier.wait();
                if i == 0 {
                    *pair.0.lock().unwrap() = true;
                    pair.1.notify_all();
                } else {
                    let mut g = pair.0.lock().unwrap();
                    while !*g {
                        g = pair.1.wait(g).unwrap();
                    }
                }
            })
        })
        .collect();
    drop(tx);
    drop(stx);
    let n: usize = rx.iter().map(|s| s.len()).sum();
    let m: usize = srx.iter().map(|v| v.len()).sum();
    for h in hs {
        h.join().unwrap();
    }
    let h = thread::spawn(|| {
        unsafe {
            DATA = 5;
        }
        READY.store(true, Ordering::Release);
    });
    while !READY.load(Ordering::Acquire) {
        thread::yield_now();
    }
    println!("{n} {m} {} {}", total.lock().unwrap(), unsafe { DATA });
    h.join().unwrap();
}
