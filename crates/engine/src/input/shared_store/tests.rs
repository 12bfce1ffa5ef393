use super::*;
use crate::sharing::lock::LockGuard;
use crate::task::cursors::Cursors;

const ME: u32 = 1;

fn store() -> (InputStore, tempfile::NamedTempFile) {
    crate::sections::place();
    let (shm, _) = Shm::create().unwrap();
    let shm: &'static Shm = Box::leak(Box::new(shm));
    let file = tempfile::NamedTempFile::new().unwrap();
    (
        InputStore::over(shm, file.reopen().unwrap(), 3).unwrap(),
        file,
    )
}

fn bytes(seed: u8, n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251) as u8 ^ seed).collect()
}

#[test]
fn what_was_appended_is_found_and_taken_once() {
    let (store, _file) = store();
    let (a, b) = (bytes(1, 5000), bytes(2, PIECE_MAX + 1));
    assert_eq!(store.append(ME, &a), Some(0));
    assert_eq!(store.append(ME, &b), Some(5000));
    let end = (a.len() + b.len()) as u64;
    assert_eq!(store.at(0, a.len()), a);
    assert_eq!(store.at(5000, b.len()), b);
    assert_eq!(store.at(end - 3, 10).len(), 3);
    assert!(store.at(end, 1).is_empty() && store.at(u64::MAX, 1).is_empty());

    let ends = |pieces: Vec<Piece>| pieces.iter().map(|p| p.end).collect::<Vec<_>>();
    let taken = store.shared().take();
    assert_eq!(taken[0].sum, input_sum(&a));
    assert_eq!(ends(taken), [5000, 5000 + PIECE_MAX as u64, end]);
    assert!(store.shared().take().is_empty());
    store.append(ME, &a).unwrap();
    assert_eq!(ends(store.shared().take()), [end + 5000]);
}

#[test]
fn cursors_find_what_follows_and_what_was_seen() {
    let (store, _file) = store();
    let mut cursors = Cursors::default();
    let all = bytes(3, 40_000);
    for part in all.chunks(10_000) {
        assert_eq!(cursors.whole(&store, part), None);
        store.append(ME, part).unwrap();
    }
    assert_eq!(cursors.whole(&store, &all[..4096]), Some(0));
    assert_eq!(cursors.whole(&store, &all[4096..30_000]), Some(4096));
    assert_eq!(cursors.whole(&store, &all[20_000..30_000]), Some(20_000));
    let mut mixed = all[10_000..25_000].to_vec();
    mixed.extend(bytes(9, 600));
    assert_eq!(cursors.whole(&store, &mixed), None);
    assert_eq!(cursors.beginning(&store, &mixed), Some((10_000, 15_000)));
    assert_eq!(
        cursors.beginning(&store, &all[25_000..]),
        Some((25_000, 15_000))
    );
}

#[test]
fn nobody_waits_for_the_lock_and_a_dead_owner_loses_it() {
    let (store, _file) = store();
    let shared = store.shared();
    let alive: LockGuard<'_> = shared.lock.try_take(relive_host::sys::gettid()).unwrap();
    assert_eq!(store.append(ME, &bytes(1, 600)), None);
    drop(alive);
    // No thread has this number.
    std::mem::forget(shared.lock.try_take(0x3fff_ffff).unwrap());
    assert_eq!(store.append(ME, &bytes(1, 600)), Some(0));
}

#[test]
fn a_list_that_nobody_takes_fills_up() {
    let (store, _file) = store();
    let part = bytes(5, 256);
    let kept = (0..WAITING + 10).filter(|_| store.append(ME, &part).is_some());
    assert_eq!(kept.count(), WAITING - 1);
    assert_eq!(store.shared().take().len(), WAITING - 1);
    assert_eq!(store.append(ME, &part), Some(256 * (WAITING as u64 - 1)));
}

#[test]
fn nothing_below_the_floor_is_found() {
    let (store, _file) = store();
    let (a, b) = (bytes(1, 5000), bytes(2, 5000));
    store.append(ME, &a).unwrap();
    store.shared().raise_floor(5001);
    assert_eq!(store.at(0, a.len()), a, "it was not worth it");
    store.shared().raise_floor(5000);
    assert!(store.at(0, 1).is_empty() && store.at(4999, 1).is_empty());
    store.append(ME, &b).unwrap();
    assert_eq!(store.at(5000, b.len()), b);
    assert_eq!(store.shared().floor(), 5000);
}
