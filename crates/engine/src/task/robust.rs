//! The robust futex list of a thread that ends (get_robust_list(2), and the kernel's
//! Documentation/locking/robust-futexes.rst): locks that it still holds are marked.

use crate::failure::{Result, answered};
use crate::task::Task;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;
/// As the kernel: a list longer than this is taken for a loop.
const LIMIT: usize = 2048;

/// Whether a list has a lock, or a pending entry.
pub fn holds(task: &Task, head: u64) -> bool {
    let word = |at: u64| task.read_u64(at).unwrap_or(0);
    head != 0 && (word(head) & !1 != head || word(head + 16) != 0)
}

/// The locks that a thread holds. Nobody else changes whose they are.
pub fn held(task: &Task, head: u64, tid: u32) -> Vec<u64> {
    let is_held = |at: &u64| {
        let word = task.read(*at).map(u32::from_le_bytes);
        word.is_ok_and(|word| word & TID_MASK == tid)
    };
    locks(task, head).into_iter().filter(is_held).collect()
}

/// Marks the locks that a thread holds and returns the addresses of those with waiters to
/// wake.
///
/// # Errors
/// A page cannot be opened.
pub fn release(task: &Task, head: u64, tid: u32) -> Result<Vec<u64>> {
    let mut wake = Vec::new();
    for at in locks(task, head) {
        if !mark(task, tid, at, &mut wake)? {
            break;
        }
    }
    Ok(wake)
}

/// The words of the locks in a list, and that of its pending entry.
fn locks(task: &Task, head: u64) -> Vec<u64> {
    let mut locks = Vec::new();
    if head == 0 {
        return locks;
    }
    let word = |at: u64| task.read_u64(at);
    let (Ok(mut entry), Ok(offset), Ok(pending)) = (word(head), word(head + 8), word(head + 16))
    else {
        return locks;
    };
    for _ in 0..LIMIT {
        if entry & !1 == head {
            break;
        }
        let at = entry & !1;
        if at != pending & !1 {
            locks.push(at.wrapping_add(offset));
        }
        match word(at) {
            Ok(next) => entry = next,
            // As the kernel: what comes behind is lost, the pending entry too.
            Err(_) => return locks,
        }
    }
    if pending != 0 {
        locks.push((pending & !1).wrapping_add(offset));
    }
    locks
}

fn mark(task: &Task, tid: u32, at: u64, wake: &mut Vec<u64>) -> Result<bool> {
    let is_held = |word: u32| word & TID_MASK == tid;
    let died = |word| is_held(word).then_some((word & WAITERS) | OWNER_DIED);
    match answered(task.change_word(at, died))? {
        // Waiters of a priority-inheriting lock sleep as others do, see `futex`.
        Ok(word) if is_held(word) && word & WAITERS != 0 => wake.push(at),
        Ok(_) => {}
        Err(_) => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use relive_host::{GuestAddr, copy};

    use super::*;
    use crate::testing::Guest;

    const AT: u64 = 0x1000_3000_0000;
    const TID: u32 = 7;

    fn word(at: u64) -> u32 {
        u32::from_le_bytes(copy::read_array(GuestAddr(at)).expect("it is mapped"))
    }

    #[test]
    fn a_lock_that_is_held_is_marked_and_no_other() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        let locks = [
            (TID | WAITERS, OWNER_DIED | WAITERS),
            (TID, OWNER_DIED),
            (8, 8),
            (0, 0),
        ];
        let mut wake = Vec::new();
        for (i, (before, after)) in (0..).zip(locks) {
            let at = AT + 8 * i;
            copy::write(GuestAddr(at), &before.to_le_bytes()).expect("it is mapped");
            assert_eq!(mark(&guest.task, TID, at, &mut wake), Ok(true));
            assert_eq!(word(at), after, "{before:#x}");
        }
        assert_eq!(wake, [AT]);
        assert_eq!(mark(&guest.task, TID, 0x5500_0000, &mut wake), Ok(false));
    }

    #[test]
    fn the_locks_of_a_list_and_the_pending_one_are_held() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        let [head, one, two, pending] = [AT, AT + 0x100, AT + 0x200, AT + 0x300];
        let put = |at: u64, value: u64| {
            copy::write(GuestAddr(at), &value.to_le_bytes()).expect("it is mapped");
        };
        // Each lock's word lies 8 bytes behind its entry.
        for (at, value) in [(head, one), (head + 8, 8), (head + 16, pending)] {
            put(at, value);
        }
        for (entry, next) in [(one, two), (two, head)] {
            put(entry, next);
        }
        put(one + 8, u64::from(TID | WAITERS));
        put(two + 8, 9);
        put(pending + 8, u64::from(TID));
        assert_eq!(held(&guest.task, head, TID), [one + 8, pending + 8]);
        assert_eq!(release(&guest.task, head, TID), Ok(vec![one + 8]));
        assert_eq!(held(&guest.task, head, TID), [0; 0]);
        assert_eq!(word(pending + 8), OWNER_DIED);
        // Without a list; with one that leads out of memory.
        assert_eq!(held(&guest.task, 0, TID), [0; 0]);
        put(pending + 8, u64::from(TID));
        put(two, 0x5500_0000);
        assert_eq!(release(&guest.task, head, TID), Ok(vec![]));
        assert_eq!(word(pending + 8), TID);
    }

    #[test]
    fn a_word_changes_by_what_is_there() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        assert_eq!(guest.task.change_word(AT, |word| Some(word + 3)), Ok(0));
        assert_eq!(guest.task.change_word(AT, |_| None), Ok(3));
        assert_eq!(word(AT), 3);
        let bad = libc::EFAULT.into();
        assert_eq!(guest.task.change_word(0x5500_0000, Some), Err(bad));
    }
}
