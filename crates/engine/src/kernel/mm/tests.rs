//! The calls of this folder without a process: plans from registers, and the requests to the mode.

use std::os::fd::AsRawFd;

use libc::{SYS_brk, SYS_mmap, SYS_mremap, SYS_munmap};

use crate::failure::FailureClass;
use crate::memory::Source;
use crate::memory::content::ContentName;
use crate::testing::{Guest, ModeQuery, machine};

const AT: u64 = 0x1000_2000_0000;
const PRIVATE: u64 = libc::MAP_PRIVATE as u64;
const SHARED: u64 = libc::MAP_SHARED as u64;
const ANON: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const NOTHING: u64 = u64::MAX;

fn refused(errno: i32) -> Option<i64> {
    Some(-i64::from(errno))
}

fn name(identity: u64, path: &str) -> Vec<u8> {
    let mut extra = Vec::new();
    ContentName::note(&mut extra, None, identity, path);
    extra
}

fn mapped(at: u64) -> Option<(u64, u64, u64, String)> {
    let memory = machine().memory();
    let region = memory.space.at(at)?;
    let name = region.name.to_string();
    Some((region.start, region.end, region.inode, name))
}

#[test]
fn wrong_arguments_of_mmap_need_no_kernel() {
    let mut guest = Guest::new();
    for (args, errno) in [
        ([0, 0, 3, ANON, NOTHING, 0], libc::EINVAL),
        ([0, u64::MAX - 5, 3, ANON, NOTHING, 0], libc::ENOMEM),
        ([0, 4096, 3, ANON, NOTHING, 12], libc::EINVAL),
        ([0, 4096, 3, ANON & !PRIVATE, NOTHING, 0], libc::EINVAL),
        ([0, 4096, 3, ANON | 3, NOTHING, 0], libc::EINVAL),
        ([0, 4096, 3, PRIVATE, NOTHING, 0], libc::EBADF),
        ([AT + 1, 4096, 3, ANON | 0x10, NOTHING, 0], libc::EINVAL),
        ([4096, 4096, 3, ANON | 0x10, NOTHING, 0], libc::EPERM),
    ] {
        let result = guest.live(SYS_mmap, &args).ok();
        assert_eq!(result, refused(errno), "{args:x?}");
    }
    assert_eq!(guest.asked(), []);
}

#[test]
fn a_map_is_made_where_it_was_told_and_shows_what_it_names() {
    let mut guest = Guest::new();
    let args = [0, 5000, 1, SHARED, 7, 0x3000];
    let result = guest.told(SYS_mmap, &args, AT as i64, &name(42, "/a/file"));
    assert_eq!(result.ok(), Some(AT as i64));
    let expected = ModeQuery::Content {
        shared: true,
        named: Some((42, "/a/file".to_owned())),
        offset: 0x3000,
        len: Some(0x2000),
        opened: false,
    };
    assert_eq!(guest.asked(), [expected]);
    let region = (AT, AT + 0x2000, 42, "/a/file".to_owned());
    assert_eq!(mapped(AT), Some(region));
}

#[test]
fn a_live_map_of_a_file_is_noted_for_the_tape() {
    let mut guest = Guest::new();
    let file = std::fs::File::open("/proc/self/exe").expect("a program has a file");
    let args = [AT, 4096, 1, PRIVATE | 0x10, file.as_raw_fd() as u64, 0];
    assert_eq!(guest.live(SYS_mmap, &args).ok(), Some(AT as i64));
    let extra = guest.task.log.extra.clone();
    let named = ContentName::of(&extra)
        .expect("it is whole")
        .expect("it is one");
    let (start, _, identity, path) = mapped(AT).expect("it is mapped");
    assert_eq!((start, identity), (AT, named.identity()));
    assert_eq!(path, named.path());
    match &guest.asked()[..] {
        [
            ModeQuery::Content {
                opened: true,
                shared: false,
                ..
            },
        ] => {}
        asked => panic!("{asked:?}"),
    }
}

#[test]
fn a_map_that_the_kernel_refuses_has_its_errno_and_is_no_map_of_a_replay() {
    let mut guest = Guest::new();
    let file = std::fs::File::open("/proc/self/exe").expect("a program has a file");
    guest.mode().brings(Source::File(-1, 0));
    let args = [AT, 4096, 1, PRIVATE | 0x10, file.as_raw_fd() as u64, 0];
    assert_eq!(guest.live(SYS_mmap, &args).ok(), refused(libc::EBADF));
    assert!(guest.task.log.extra.is_empty(), "a refusal has no data");
    let result = guest.told(SYS_mmap, &args, AT as i64, &name(1, "/a"));
    assert!(
        matches!(&result, Err(failure) if failure.class() == FailureClass::Setup),
        "{result:?}"
    );
}

#[test]
fn what_a_tape_tells_must_be_possible() {
    let mut guest = Guest::new();
    let host = 0x5500_0000;
    let args = [0, 4096, 3, ANON, NOTHING, 0];
    let result = guest.told(SYS_mmap, &args, host, &[]);
    assert!(
        matches!(&result, Err(failure) if failure.class() == FailureClass::Divergence),
        "{result:?}"
    );
    let result = guest.told(SYS_mmap, &args, i64::MAX, &[]);
    assert!(
        matches!(&result, Err(failure) if failure.class() == FailureClass::Divergence),
        "{result:?}"
    );
    let cut = guest.told(SYS_mmap, &[0, 4096, 1, PRIVATE, 3, 0], AT as i64, &[1; 39]);
    assert!(
        matches!(&cut, Err(failure) if failure.class() == FailureClass::Setup),
        "{cut:?}"
    );
    guest.map(AT, 0x1000);
    let args = [AT, 0x1000, 0x2000, 1];
    let result = guest.told(SYS_mremap, &args, host, &[]);
    assert!(
        matches!(&result, Err(failure) if failure.class() == FailureClass::Divergence),
        "{result:?}"
    );
    let error = guest.told(SYS_mremap, &[AT, 0x1000, 0x2000, 1], -12, &[]);
    assert_eq!(error.ok(), Some(-12));
}

#[test]
fn wrong_arguments_of_mremap_need_no_kernel() {
    let mut guest = Guest::new();
    guest.map(AT, 0x2000);
    for (args, errno) in [
        ([AT, 0x1000, 0, 1, 0], libc::EINVAL),
        ([AT, 0, 0x1000, 0, 0], libc::EINVAL),
        ([AT + 1, 0x1000, 0x1000, 1, 0], libc::EINVAL),
        ([AT, 0x1000, 0x1000, 8, 0], libc::EINVAL),
        ([AT, 0x1000, 0x1000, 4, 0], libc::EINVAL),
        ([AT, 0x1000, 0x2000, 5, 0], libc::EINVAL),
        ([AT, 0x1000, 0x1000, 2, AT + 0x10000], libc::EINVAL),
        ([AT, 0x1000, 0x2000, 3, AT - 0x1000], libc::EINVAL),
        ([AT, 0, 0x1000, 1, 0], libc::EINVAL),
        ([AT, 0x1000, 0x2000, 0, 0], libc::ENOMEM),
        ([AT, 0x4000, 0x5000, 1, 0], libc::EFAULT),
        ([AT - 0x1000, 0x1000, 0x2000, 1, 0], libc::EFAULT),
    ] {
        let result = guest.live(SYS_mremap, &args).ok();
        assert_eq!(result, refused(errno), "{args:x?}");
    }
    assert_eq!(guest.asked(), []);
}

#[test]
fn a_shared_map_that_grows_asks_for_more_of_its_file() {
    let mut guest = Guest::new();
    let args = [0, 0x3000, 3, SHARED, 7, 0x5000];
    let result = guest.told(SYS_mmap, &args, AT as i64, &name(42, "/a"));
    assert_eq!(result.ok(), Some(AT as i64));
    guest.asked();
    let moved = AT + 0x10_0000;
    let args = [AT + 0x1000, 0x2000, 0x6000, 1];
    let result = guest.told(SYS_mremap, &args, moved as i64, &[]);
    assert_eq!(result.ok(), Some(moved as i64));
    assert_eq!(guest.asked(), [ModeQuery::ShowsFile(42, 0xc000)]);
    let end = |at: u64| mapped(at).map(|(start, end, ..)| (start, end));
    assert_eq!(end(AT), Some((AT, AT + 0x1000)));
    assert_eq!(end(moved), Some((moved, moved + 0x6000)));
}

#[test]
fn a_chosen_place_is_free_and_a_map_that_shrinks_stays() {
    let mut guest = Guest::new();
    let args = [0, 0x4000, 3, ANON, NOTHING, 0];
    let first = guest.live(SYS_mmap, &args).expect("there is room") as u64;
    let second = guest.live(SYS_mmap, &args).expect("there is room") as u64;
    assert!(second >= first + 0x4000 || first >= second + 0x4000);
    let result = guest.live(SYS_mremap, &[first, 0x4000, 0x1000, 0]);
    assert_eq!(result.ok(), Some(first as i64));
    assert_eq!(mapped(first).map(|r| r.1), Some(first + 0x1000));
    assert_eq!(guest.live(SYS_munmap, &[second, 1]).ok(), Some(0));
    assert_eq!(mapped(second), None);
    assert!(mapped(second + 0x1000).is_some_and(|r| r.0 == second + 0x1000));
}

#[test]
fn the_heap_grows_where_nothing_else_is() {
    let mut guest = Guest::new();
    machine().memory().space.brk = (AT, AT);
    guest.map(AT + 0x10_0000, 0x1000);
    let heap = |guest: &mut Guest, end: u64| guest.live(SYS_brk, &[end]).ok();
    assert_eq!(heap(&mut guest, 0), Some(AT as i64));
    assert_eq!(heap(&mut guest, AT + 10), Some(AT as i64 + 10));
    assert_eq!(heap(&mut guest, AT + 0x20_0000), Some(AT as i64 + 10));
    assert_eq!(
        mapped(AT).map(|r| (r.1, r.3)),
        Some((AT + 0x1000, "[heap]".to_owned()))
    );
    // As the tape has it, even where there would be room.
    let refused = guest.told(SYS_brk, &[AT + 0x3000], AT as i64 + 10, &[]);
    assert_eq!(refused.ok(), Some(AT as i64 + 10));
    assert_eq!(heap(&mut guest, AT), Some(AT as i64));
    assert_eq!(mapped(AT), None);
}
