//! The written lengths of the rows, in bytes, for calls as programs make them.

use proptest::prelude::*;
use relive_kabi::{Arg, Dir, Len, Row, TABLE, Written, row};

/// Guest memory that holds one word, repeated, at every address but NULL.
fn memory(word: u32) -> impl FnMut(u64, &mut [u8]) -> bool {
    move |address, bytes| {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = word.to_ne_bytes()[at % 4];
        }
        address != 0
    }
}

fn named(name: &str) -> &'static Row {
    TABLE.iter().find(|row| row.name == name).expect(name)
}

/// Room and bytes written for the buffer in that argument.
fn sizes(name: &str, index: usize, args: [u64; 6], ret: i64, word: u32) -> (u64, u64) {
    let row = named(name);
    let Arg::Buf { dir, cap, out, .. } = row.args[index] else {
        panic!("{name}: no buffer")
    };
    assert!(dir.written());
    let size = |len| row.bytes(len, &args, ret, memory(word)).expect("readable");
    (size(cap), size(out))
}

#[test]
fn lengths_follow_the_arguments_and_the_result() {
    assert_eq!(sizes("read", 1, [3, 8, 100, 0, 0, 0], 7, 0), (100, 7));
    assert_eq!(sizes("read", 1, [3, 8, 100, 0, 0, 0], -4, 0), (100, 0));
    assert_eq!(
        sizes("getdents64", 1, [3, 8, 32768, 0, 0, 0], 480, 0),
        (32768, 480)
    );
    assert_eq!(sizes("epoll_wait", 1, [3, 8, 64, 0, 0, 0], 2, 0), (768, 24));
    assert_eq!(sizes("poll", 0, [8, 3, 0, 0, 0, 0], 1, 0), (24, 24));
    assert_eq!(sizes("getgroups", 1, [0, 8, 0, 0, 0, 0], 5, 0), (0, 20));
    assert_eq!(sizes("accept", 1, [3, 8, 8, 0, 0, 0], 4, 16), (16, 16));
    assert_eq!(sizes("msgrcv", 1, [1, 8, 50, 0, 0, 0], 9, 0), (58, 17));
    assert_eq!(sizes("msgrcv", 1, [1, 8, 50, 0, 0, 0], -4, 0), (58, 0));
    assert_eq!(
        sizes("sched_getaffinity", 2, [0, 128, 8, 0, 0, 0], 8, 0),
        (128, 8)
    );
}

#[test]
fn special_lengths_follow_their_rules() {
    for (nfds, bytes) in [(0, 0), (1, 8), (64, 8), (65, 16), (1024, 128)] {
        assert_eq!(
            sizes("select", 1, [nfds, 8, 0, 0, 0, 0], 0, 0).0,
            bytes,
            "{nfds}"
        );
    }
    for (length, pages) in [(0, 0), (1, 1), (4096, 1), (4097, 2)] {
        assert_eq!(
            sizes("mincore", 2, [4096, length, 8, 0, 0, 0], 0, 0).0,
            pages,
            "{length}"
        );
    }
    for (bits, bytes) in [(0, 0), (1, 0), (2, 8), (65, 8), (66, 16)] {
        assert_eq!(
            sizes("get_mempolicy", 1, [8, 8, bits, 0, 0, 0], 0, 0).0,
            bytes,
            "{bits}"
        );
    }
    assert_eq!(
        sizes("name_to_handle_at", 2, [0, 0, 8, 8, 0, 0], 0, 12).0,
        20
    );
    assert_eq!(sizes("name_to_handle_at", 3, [0, 0, 8, 8, 0, 0], 0, 0).1, 4);
    assert_eq!(
        sizes("name_to_handle_at", 3, [0, 0, 8, 8, 0x1001, 0], 0, 0).1,
        8
    );
    for (version, bytes) in [
        (0x1998_0330, 12),
        (0x2007_1026, 24),
        (0x2008_0522, 24),
        (7, 0),
    ] {
        assert_eq!(
            sizes("capget", 1, [8, 8, 0, 0, 0, 0], 0, version).1,
            bytes,
            "{version:#x}"
        );
    }
}

#[test]
fn narrow_parameters_ignore_the_upper_half_of_the_register() {
    let garbage = 0xdead_beef_0000_0000;
    assert_eq!(sizes("poll", 0, [8, garbage | 3, 0, 0, 0, 0], 0, 0).0, 24);
    assert_eq!(
        sizes("readlink", 1, [8, 8, garbage | 64, 0, 0, 0], 5, 0).0,
        64
    );
    assert_eq!(
        sizes(
            "getgroups",
            1,
            [garbage | 0xffff_ffff, 8, 0, 0, 0, 0],
            -22,
            0
        )
        .0,
        0
    );
    assert_eq!(sizes("read", 1, [3, 8, garbage, 0, 0, 0], 0, 0).0, garbage);
}

#[test]
fn an_unreadable_length_is_none() {
    let accept = named("accept");
    assert_eq!(
        accept.bytes(Len::Deref32(2), &[3, 8, 0, 0, 0, 0], 0, memory(16)),
        None
    );
    assert_eq!(
        accept.bytes(Len::Deref64(2), &[3, 8, 0, 0, 0, 0], 0, memory(16)),
        None
    );
    let eight = 16 << 32 | 16;
    assert_eq!(
        accept.bytes(Len::Deref64(2), &[3, 8, 8, 0, 0, 0], 0, memory(16)),
        Some(eight)
    );
}

/// Every structure of fixed size that the kernel writes, by call and argument.
#[test]
fn written_structures_have_their_sizes() {
    for (name, index, bytes) in [
        ("stat", 1, 144),
        ("statx", 4, 256),
        ("statfs", 1, 120),
        ("clock_gettime", 1, 16),
        ("gettimeofday", 0, 16),
        ("gettimeofday", 1, 8),
        ("timer_gettime", 1, 32),
        ("getitimer", 1, 32),
        ("wait4", 1, 4),
        ("wait4", 3, 144),
        ("waitid", 2, 28),
        ("waitid", 4, 144),
        ("rt_sigtimedwait", 1, 128),
        ("uname", 0, 390),
        ("sysinfo", 0, 112),
        ("getcpu", 0, 4),
        ("getcpu", 1, 4),
        ("getresuid", 2, 4),
        ("pipe", 0, 8),
        ("pipe2", 0, 8),
        ("socketpair", 3, 8),
        ("accept", 2, 4),
        ("recvfrom", 5, 4),
        ("getsockopt", 4, 4),
        ("nanosleep", 1, 16),
        ("clock_nanosleep", 3, 16),
        ("select", 4, 16),
        ("pselect6", 4, 16),
        ("ppoll", 2, 16),
        ("recvmmsg", 4, 16),
        ("sched_getparam", 1, 4),
        ("timer_create", 2, 4),
        ("mq_timedreceive", 3, 4),
        ("sendfile", 2, 8),
        ("copy_file_range", 1, 8),
        ("copy_file_range", 3, 8),
        ("splice", 1, 8),
        ("splice", 3, 8),
        ("adjtimex", 0, 208),
        ("times", 0, 32),
        ("cachestat", 2, 40),
        ("prlimit64", 3, 16),
    ] {
        assert_eq!(
            sizes(name, index, [8; 6], 0, 8),
            (bytes, bytes),
            "{name}, argument {index}"
        );
    }
}

/// The calls that write memory although they fail.
#[test]
fn writes_of_failed_calls_are_known() {
    let failing: Vec<_> = TABLE
        .iter()
        .filter(|row| {
            row.args
                .iter()
                .any(|arg| matches!(arg, Arg::Buf { when, .. } if when.after(-4)))
        })
        .map(|row| row.name)
        .collect();
    assert_eq!(
        failing,
        [
            "poll",
            "select",
            "nanosleep",
            "sendfile",
            "socketpair",
            "getsockopt",
            "capget",
            "capset",
            "timer_create",
            "clock_nanosleep",
            "waitid",
            "pselect6",
            "ppoll",
            "move_pages",
            "name_to_handle_at",
            "sched_setattr",
        ]
    );
    assert!(Written::Success.after(0) && Written::Success.after(i64::MIN));
    assert!(!Written::Success.after(-1) && !Written::Success.after(-4095));
    assert!(Written::Failure.after(-4) && !Written::Failure.after(4));
}

#[test]
fn messages_are_received_by_some_calls_only() {
    let receiving = |arg: &Arg| {
        matches!(
            arg,
            Arg::Msghdr { dir: Dir::Out } | Arg::Mmsghdr { dir: Dir::Out, .. }
        )
    };
    for (name, receives) in [
        ("recvmsg", true),
        ("recvmmsg", true),
        ("sendmsg", false),
        ("sendmmsg", false),
    ] {
        assert_eq!(named(name).args.iter().any(receiving), receives, "{name}");
    }
}

proptest! {
    /// No argument, result or memory makes a length overflow or panic.
    #[test]
    fn lengths_are_total(args: [u64; 6], ret: i64, word: u32, nr in 0u64..512) {
        let Some(row) = row(nr) else { return Ok(()) };
        for arg in row.args {
            let Arg::Buf { dir, cap, out, .. } = *arg else { continue };
            for len in [cap, out] {
                let bytes = row.bytes(len, &args, ret, memory(word));
                prop_assert!(bytes.is_some() || args.contains(&0));
            }
            if ret < 0 && matches!(out, Len::Ret | Len::RetTimes(_) | Len::RetPlus(_)) {
                prop_assert!(dir == Dir::Out);
                prop_assert_eq!(row.bytes(out, &args, ret, memory(word)), Some(0));
            }
        }
    }
}
