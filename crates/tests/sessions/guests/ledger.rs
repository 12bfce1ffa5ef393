use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Debug, Clone, Copy)]
struct Entry {
    account: u32,
    amount: i64,
}

struct Ledger {
    entries: Vec<Entry>,
    balance: i64,
}

#[inline(never)]
fn book(ledger: &mut Ledger, entry: Entry) -> i64 {
    ledger.entries.push(entry);
    ledger.balance += entry.amount;
    ledger.balance
}

fn main() {
    let ledger = Arc::new(Mutex::new(Ledger { entries: Vec::new(), balance: 100 }));
    let threads: Vec<_> = (0..2u32)
        .map(|account| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                for i in 0..10 {
                    let mut guard = ledger.lock().unwrap();
                    book(&mut guard, Entry { account, amount: i - 3 });
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    let ledger = ledger.lock().unwrap();
    println!("{} {}", ledger.balance, ledger.entries.len());
}
