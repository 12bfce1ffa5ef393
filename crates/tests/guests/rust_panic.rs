// relive: link=pie,static
//! Panics: caught, nested in drops, across closures; overflow and bounds checks; a hook.

use std::panic::{self, AssertUnwindSafe, catch_unwind};

struct Note<'a>(&'a mut Vec<u32>, u32);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.0.push(self.1);
    }
}

#[inline(never)]
fn dive(depth: u32, table: &[u32]) -> u32 {
    if depth == 0 { table[table.len() + std::hint::black_box(3)] } else { dive(depth - 1, table) + 1 }
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    for round in 0..100 {
        let mut dropped = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _note = Note(&mut dropped, round);
            dive(20, &[1, 2, 3])
        }));
        assert!(result.is_err());
        assert_eq!(dropped, [round]);
    }
    let caught = catch_unwind(|| panic!("number {}", std::hint::black_box(7))).unwrap_err();
    assert_eq!(caught.downcast_ref::<String>().unwrap(), "number 7");
    let zero = std::hint::black_box(0);
    assert!(catch_unwind(|| 5 / zero).is_err());
    assert!(catch_unwind(|| std::hint::black_box(i32::MAX).checked_add(1).expect("too large")).is_err());
    let inner = catch_unwind(|| catch_unwind(|| panic!("inner")).is_err()).unwrap();
    assert!(inner);
    let joined = std::thread::spawn(|| panic!("in a thread")).join();
    assert_eq!(*joined.unwrap_err().downcast_ref::<&str>().unwrap(), "in a thread");
    println!("ok");
}
