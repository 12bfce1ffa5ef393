//! The table against itself, and against well-known facts about a few calls.

use std::collections::HashSet;

use proptest::prelude::*;
use relive_kabi::{
    Arg, Blocks, Changes, Choice, FdEffect, Holds, Len, Makes, Moves, OpenFlags, Opening, Replay,
    Reports, Restart, Row, SubTable, TABLE, Transfer, errno, fcntl, ioctl, msgctl, prctl, row,
    semctl, shmctl, sockopt,
};

fn named(name: &str) -> &'static Row {
    TABLE.iter().find(|row| row.name == name).expect(name)
}

#[test]
fn names_are_unique_and_plain() {
    let mut seen = HashSet::new();
    for row in TABLE {
        assert!(seen.insert(row.name), "{} is there twice", row.name);
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(row.name.bytes().all(plain), "{}", row.name);
    }
}

#[test]
fn every_row_is_found_by_its_number() {
    for entry in TABLE {
        assert_eq!(row(u64::from(entry.nr)), Some(entry));
    }
    for nothing in [336, 423, 470, 511, 512, 1 << 32, u64::MAX] {
        assert_eq!(row(nothing), None, "{nothing}");
    }
}

proptest! {
    #[test]
    fn row_is_total(nr: u64) {
        prop_assert_eq!(row(nr).map(|row| u64::from(row.nr)), (nr < 336).then_some(nr));
    }

    #[test]
    fn choice_is_total(args: [u64; 6], at in 0..TABLE.len()) {
        let row = &TABLE[at];
        let choice = row.choice(&args);
        let refined = row.refined(choice);
        match choice {
            Choice::Whole => prop_assert_eq!(refined, *row),
            Choice::Listed(sub) => {
                prop_assert_eq!(sub.key, row.sub.key(&args));
                prop_assert_eq!((refined.replay, refined.fds), (sub.replay, sub.fds));
                prop_assert_eq!((refined.changes, refined.holds), (sub.changes, sub.holds));
            }
            Choice::Unlisted(errno) => {
                prop_assert_eq!(errno, row.sub.unlisted());
                prop_assert_eq!(refined.replay.refused(), Some(errno));
            }
        }
        for index in 0..7 {
            let arg = row.argument(index, choice);
            prop_assert!(arg != Arg::Select);
            prop_assert_eq!(index >= row.args.len() && arg != Arg::Unused, false);
        }
    }
}

#[test]
fn a_request_stands_in_for_its_row() {
    let lock = [3, 7, 8, 0, 0, 0];
    let row = named("fcntl");
    assert_eq!(row.blocks, Blocks::Never);
    assert_eq!(row.refined(row.choice(&lock)).blocks, Blocks::Maybe);
    let Arg::Buf { cap, .. } = row.argument(2, row.choice(&lock)) else {
        panic!("no lock")
    };
    assert_eq!(cap, Len::Fixed(32));
    let unlisted = row.choice(&[3, 99, 8, 0, 0, 0]);
    assert_eq!(row.argument(2, unlisted), Arg::Hex);
    assert_eq!(row.argument(0, unlisted), Arg::Fd);
    assert_eq!(row.argument(3, unlisted), Arg::Unused);
}

#[test]
fn requests_are_found_through_the_row() {
    let garbage = 0xdead_beef_0000_0000;
    let cases = [
        (
            "ioctl",
            [0, garbage | 0x5413, 8, 0, 0, 0],
            ioctl(0x5413),
            "TIOCGWINSZ",
        ),
        ("fcntl", [0, garbage | 7, 8, 0, 0, 0], fcntl(7), "F_SETLKW"),
        (
            "prctl",
            [garbage | 15, 8, 0, 0, 0, 0],
            prctl(15),
            "PR_SET_NAME",
        ),
        (
            "getsockopt",
            [3, garbage | 1, garbage | 4, 8, 8, 0],
            sockopt(1, 4),
            "SO_ERROR",
        ),
        (
            "setsockopt",
            [3, 6, 1, 8, 4, 0],
            sockopt(6, 1),
            "TCP_NODELAY",
        ),
        ("semctl", [0, 0, 12, 0, 0, 0], semctl(12), "GETVAL"),
        (
            "shmctl",
            [0, garbage | 2, 8, 0, 0, 0],
            shmctl(2),
            "IPC_STAT",
        ),
        ("msgctl", [0, 2, 8, 0, 0, 0], msgctl(2), "IPC_STAT"),
    ];
    for (call, args, direct, name) in cases {
        let sub = direct.expect(name);
        assert_eq!(sub.name, name);
        assert_eq!(named(call).choice(&args), Choice::Listed(sub));
    }
    assert_eq!(
        named("ioctl").choice(&[0, 0x1234_5678, 0, 0, 0, 0]),
        Choice::Unlisted(errno::ENOTTY)
    );
    assert_eq!(
        named("fcntl").choice(&[0, 99, 0, 0, 0, 0]),
        Choice::Unlisted(errno::EINVAL)
    );
    assert_eq!(
        named("getsockopt").choice(&[3, 1, 999, 8, 8, 0]),
        Choice::Unlisted(errno::ENOPROTOOPT)
    );
    assert_eq!(named("read").choice(&[0; 6]), Choice::Whole);
}

#[test]
fn requests_have_unique_names_within_a_level() {
    for table in SubTable::ALL {
        let mut seen = HashSet::new();
        for sub in table.rows() {
            assert!(
                seen.insert((sub.key >> 32, sub.name)),
                "{} is there twice",
                sub.name
            );
        }
    }
}

#[test]
fn encoded_requests_agree_with_their_sizes() {
    // Declared with `long`, moved as `int`; or with `int`, and a structure is moved.
    let exceptions = [
        "FS_IOC_GETFLAGS",
        "FS_IOC_SETFLAGS",
        "FS_IOC_GETVERSION",
        "FS_IOC_SETVERSION",
        "BLKBSZGET",
        "BLKBSZSET",
        "TUNSETIFF",
        "TUNGETIFF",
        "TUNSETQUEUE",
    ];
    for sub in SubTable::Ioctl.rows() {
        let (_, size) = relive_kabi::ioc_decode(sub.key as u32);
        if let Arg::Buf {
            cap: Len::Fixed(bytes),
            ..
        } = sub.arg
            && size != 0
            && !exceptions.contains(&sub.name)
        {
            assert_eq!(bytes, size, "{}", sub.name);
        }
    }
}

#[test]
fn columns_of_well_known_calls() {
    use Restart::{Handler, Never, NoHandler, Timed};
    for (name, restart) in [
        ("read", Handler),
        ("accept", Handler),
        ("wait4", Handler),
        ("flock", Handler),
        ("connect", Handler),
        ("open", Handler),
        ("nanosleep", Timed),
        ("poll", Timed),
        ("clock_nanosleep", Timed),
        ("select", NoHandler),
        ("ppoll", NoHandler),
        ("rt_sigsuspend", NoHandler),
        ("pause", NoHandler),
        ("epoll_wait", Never),
        ("semop", Never),
        ("rt_sigtimedwait", Never),
    ] {
        let row = named(name);
        assert_eq!(
            (row.blocks, row.restart),
            (Blocks::Maybe, restart),
            "{name}"
        );
    }
    for name in ["fsync", "getpid", "clock_gettime", "mmap", "close", "stat"] {
        assert_eq!(named(name).blocks, Blocks::Never, "{name}");
    }
    for name in [
        "socket",
        "accept4",
        "eventfd2",
        "memfd_create",
        "pidfd_open",
        "timerfd_create",
        "inotify_init1",
        "epoll_create1",
        "signalfd4",
    ] {
        assert_eq!(named(name).fds, FdEffect::Creates, "{name}");
    }
    for (name, path, flags) in [
        ("open", Some(0), OpenFlags::In(1)),
        ("creat", Some(0), OpenFlags::Create),
        ("openat", Some(1), OpenFlags::In(2)),
        ("openat2", Some(1), OpenFlags::Behind(2)),
        ("open_by_handle_at", None, OpenFlags::In(2)),
    ] {
        let opens = FdEffect::Opens(Opening { path, flags });
        assert_eq!(named(name).fds, opens, "{name}");
    }
    for name in ["dup", "dup2", "dup3"] {
        assert_eq!(named(name).fds, FdEffect::Copies(0), "{name}");
    }
    for name in ["recvmsg", "recvmmsg"] {
        assert_eq!(named(name).fds, FdEffect::Receives(1), "{name}");
    }
    assert_eq!(named("pidfd_getfd").fds, FdEffect::Finds);
    assert_eq!(named("close").fds, FdEffect::Closes(0));
    assert_eq!(named("socketpair").fds, FdEffect::CreatesPair(3));
    for name in ["io_uring_setup", "rseq", "userfaultfd", "io_setup"] {
        assert_eq!(named(name).replay, Replay::Enosys, "{name}");
        assert_eq!(named(name).replay.refused(), Some(errno::ENOSYS), "{name}");
    }
    assert_eq!(named("syslog").replay.refused(), Some(errno::EPERM));
    assert_eq!(named("read").replay.refused(), None);
}

#[test]
fn files_and_tasks_of_well_known_calls() {
    for (name, changes) in [
        ("ftruncate", Changes::Size(0)),
        ("truncate", Changes::SizeOfNamed(0)),
        ("fallocate", Changes::Space(0)),
        // By their outputs and openings.
        ("write", Changes::Nothing),
        ("open", Changes::Nothing),
    ] {
        assert_eq!(named(name).changes, changes, "{name}");
    }
    let clone = ioctl(0x4020_940d).expect("FICLONERANGE");
    assert_eq!(
        (clone.changes, clone.holds),
        (Changes::All(0), Holds::Word(2, 0))
    );
    let making = TABLE.iter().filter(|row| row.makes != Makes::Nothing);
    let making: Vec<_> = making.map(|row| row.name).collect();
    assert_eq!(making, ["clone", "fork", "vfork", "clone3"]);
    assert_eq!(named("wait4").reports, Reports::Status(1));
    assert_eq!(named("waitid").reports, Reports::Info(2));
}

/// futex(2): by the operation, with its options, and the timeout.
#[test]
fn a_futex_is_restarted_as_its_operation_says() {
    use Restart::{Always, Handler, NoHandler};
    let restart =
        |operation: u64, timeout: u64| named("futex").restart.of(&[8, operation, 0, timeout, 0, 0]);
    for options in [0, 128, 256, 128 | 256, 0xdead_beef_0000_0000] {
        assert_eq!(restart(options, 0), Handler);
        assert_eq!(restart(9 | options, 8), NoHandler);
        for lock in [6, 13] {
            assert_eq!(restart(lock | options, 0), Always);
            assert_eq!(restart(lock | options, 8), Always);
        }
    }
    assert_eq!(named("read").restart.of(&[0; 6]), Handler);
    assert_eq!(named("execve").restart, Always);
}

#[test]
fn few_calls_change_the_map_or_are_allowed_in_strict_mode() {
    let names = |column: fn(&Row) -> bool| {
        let rows = TABLE.iter().filter(|row| column(row));
        rows.map(|row| row.name).collect::<Vec<_>>()
    };
    let maps = ["mmap", "munmap", "brk", "mremap", "shmat", "shmdt"];
    assert_eq!(names(|row| row.maps), maps);
    let strict = ["read", "write", "rt_sigreturn", "exit"];
    assert_eq!(names(|row| row.strict), strict);
}

#[test]
fn transfers_of_well_known_calls() {
    let of = |column: fn(&Row) -> Option<u8>, fd: u8| {
        let rows = TABLE.iter().filter(move |row| column(row) == Some(fd));
        rows.map(|row| row.name).collect::<Vec<_>>()
    };
    let input = |row: &Row| row.input.bytes().map(|end| end.fd);
    let output = |row: &Row| row.output.bytes().map(|end| end.fd);
    let reading = [
        "read", "pread64", "readv", "recvfrom", "recvmsg", "splice", "tee", "vmsplice",
    ];
    let reading = reading
        .into_iter()
        .chain(["preadv", "recvmmsg", "copy_file_range", "preadv2"]);
    assert_eq!(of(input, 0), reading.collect::<Vec<_>>());
    assert_eq!(of(input, 1), ["sendfile"]);
    let writing = [
        "write", "pwrite64", "writev", "sendfile", "sendto", "sendmsg", "vmsplice",
    ];
    let writing = writing
        .into_iter()
        .chain(["pwritev", "sendmmsg", "pwritev2"]);
    assert_eq!(of(output, 0), writing.collect::<Vec<_>>());
    assert_eq!(of(output, 1), ["tee"]);
    assert_eq!(of(output, 2), ["splice", "copy_file_range"]);
    let moving = TABLE.iter().filter(|row| row.moves != Moves::No);
    let moving: Vec<_> = moving.map(|row| row.name).collect();
    assert_eq!(moving, ["sendfile", "splice", "tee", "copy_file_range"]);
    for (name, input, output) in [
        ("accept", Transfer::Connection(0), Transfer::None),
        ("accept4", Transfer::Connection(0), Transfer::None),
        ("connect", Transfer::None, Transfer::Connection(0)),
        // A descriptor of a message queue looks like a file's, but reading waits.
        ("mq_timedreceive", Transfer::None, Transfer::None),
    ] {
        let row = named(name);
        assert_eq!((row.input, row.output), (input, output), "{name}");
    }
}

#[test]
fn refused_requests_are_refused() {
    for sub in [ioctl(0x5412), prctl(65), sockopt(6, 35), sockopt(263, 5)] {
        let sub = sub.expect("a row");
        assert!(sub.replay.refused().is_some(), "{}", sub.name);
    }
}
