//! The files of `/proc` that show the guest: opens, reads and refusals in their place.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::symlink;

use libc::{
    SYS_creat, SYS_getdents64, SYS_open, SYS_openat, SYS_openat2, SYS_readlink, SYS_readlinkat,
};
use rustix::io::FdFlags;

use super::*;
use crate::testing::{Guest, machine};

const AT: u64 = 0x1000_9000_0000;
const BUFFER: u64 = AT + 0x1000;
const CWD_FD: u64 = libc::AT_FDCWD as u64;
const CLOEXEC: u64 = libc::O_CLOEXEC as u64;
/// Outside of all guest memory.
const NOWHERE: u64 = 0x5500_0000;

fn guest(path: &str) -> Guest {
    let mut guest = Guest::new();
    guest.map(AT, 0x2000);
    put(path);
    guest
}

fn put(path: &str) {
    let text = [path.as_bytes(), b"\0"].concat();
    copy::write(GuestAddr(AT), &text).expect("it is mapped");
}

fn errno(errno: i32) -> Option<i64> {
    Some(-i64::from(errno))
}

impl Guest {
    /// The file that a call opens, or the call's errno.
    fn opens(&mut self, nr: i64, args: &[u64]) -> std::result::Result<File, i64> {
        let result = self.live(nr, args).expect("it is supported");
        match result {
            // SAFETY: it was opened just now; nobody else knows it.
            fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }.into()),
            errno => Err(-errno),
        }
    }

    /// The content of the file at a path.
    fn content(&mut self, path: &str) -> String {
        put(path);
        text(self.opens(SYS_open, &[AT, CLOEXEC]).expect("it is there"))
    }
}

fn text(mut file: File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).expect("it can be read");
    text
}

fn folder(path: &str) -> File {
    File::open(path).expect("it is there")
}

#[test]
fn a_replay_opens_and_reads_nothing() {
    let mut guest = Guest::new();
    let calls = [
        (SYS_open, 999),
        (SYS_openat2, 999),
        (SYS_readlink, 7),
        (SYS_getdents64, 24),
    ];
    for (nr, result) in calls {
        let told = guest.told(nr, &[NOWHERE, NOWHERE, NOWHERE], result, &[]);
        assert_eq!(told.ok(), Some(result));
        assert_eq!(guest.task.log.spans, []);
    }
    assert_eq!(descriptor::flags(999), None);
}

#[test]
fn maps_are_the_guests_however_they_are_named() {
    let mut guest = guest("");
    let maps = machine().memory().space.proc_maps();
    assert!(maps.starts_with("100090000000-100090002000 rw-p "));
    let pid = std::process::id();
    for folder in [
        "self",
        "thread-self",
        &format!("{pid}"),
        &format!("self/task/{pid}/.."),
        &format!("../proc/{pid}/task/{pid}"),
    ] {
        for name in ["maps", "smaps", "numa_maps"] {
            let path = format!("/proc/{folder}/{name}");
            // Not every kernel has all of them.
            if std::fs::exists(&path).is_ok_and(|there| there) {
                assert_eq!(guest.content(&path), maps, "{path}");
            }
        }
    }
    let links = tempfile::tempdir().expect("a folder");
    symlink("/proc/self", links.path().join("link")).expect("a link");
    let linked = format!("{}/link/maps", links.path().display());
    assert_eq!(guest.content(&linked), maps);
    let own = folder("/proc/self");
    put("maps");
    let args = [own.as_raw_fd() as u64, AT, CLOEXEC];
    let opened = guest.opens(SYS_openat, &args).expect("it is there");
    assert_eq!(text(opened), maps);
}

#[test]
fn the_start_of_the_program_is_the_guests() {
    let mut guest = guest("");
    guest.task.process.state().environ = b"A=1\0B=2\0".to_vec();
    guest.task.process.state().auxv = vec![6; 32];
    assert_eq!(guest.content("/proc/self/environ"), "A=1\0B=2\0");
    assert_eq!(guest.content("/proc/self/auxv").as_bytes(), [6; 32]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), b"the program").expect("there is room");
    guest.task.process.state().exe = file.path().as_os_str().as_bytes().to_vec();
    assert_eq!(guest.content("/proc/self/exe"), "the program");
}

#[test]
fn the_flags_of_an_open_hold_for_what_is_given_in_its_place() {
    let mut guest = guest("/proc/self/maps");
    for flags in [0, CLOEXEC] {
        let opened = guest.opens(SYS_open, &[AT, flags]).expect("it is there");
        let found = descriptor::flags(opened.as_raw_fd());
        assert_eq!(found, Some(FdFlags::from_bits_retain((flags != 0).into())));
    }
    // The kernel's refusals come first.
    let refused = |guest: &mut Guest, nr, args: &[u64]| guest.opens(nr, args).map(drop);
    let folder = refused(&mut guest, SYS_open, &[AT, libc::O_DIRECTORY as u64]);
    assert_eq!(folder, Err(libc::ENOTDIR.into()));
    put("/proc/self/exe");
    let link = refused(&mut guest, SYS_open, &[AT, libc::O_NOFOLLOW as u64]);
    assert_eq!(link, Err(libc::ELOOP.into()));
    let fresh = (libc::O_CREAT | libc::O_EXCL) as u64;
    put("/proc/self/environ");
    assert_eq!(
        refused(&mut guest, SYS_open, &[AT, fresh]),
        Err(libc::EEXIST.into())
    );
    let nowhere = refused(&mut guest, SYS_open, &[NOWHERE, 0]);
    assert_eq!(nowhere, Err(libc::EFAULT.into()));
}

#[test]
fn files_of_the_same_names_elsewhere_are_what_they_are() {
    let mut guest = guest("");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| format!("{}/{name}", folder.path().display());
    for name in ["maps", "exe", "pagemap", "mem"] {
        std::fs::write(path(name), name).expect("there is room");
        assert_eq!(guest.content(&path(name)), name);
    }
    put(&path("environ"));
    let made = guest.opens(SYS_creat, &[AT, 0o600]);
    assert!(made.is_ok_and(|file| file.metadata().is_ok_and(|meta| meta.is_file())));
    symlink("maps", path("link")).expect("a link");
    put(&path("link"));
    let read = guest.live(SYS_readlink, &[AT, BUFFER, 64]);
    assert_eq!(read.ok(), Some(4));
}

#[test]
fn a_path_within_a_root_begins_there() {
    let mut guest = guest("");
    let maps = machine().memory().space.proc_maps();
    let how = [0, 0, libc::RESOLVE_IN_ROOT].map(u64::to_le_bytes);
    copy::write(GuestAddr(BUFFER), how.as_flattened()).expect("it is mapped");
    let other = tempfile::tempdir().expect("a folder");
    let own = other.path().join("proc/self");
    std::fs::create_dir_all(&own).expect("there is room");
    std::fs::write(own.join("maps"), b"others").expect("there is room");
    let other = folder(&other.path().to_string_lossy());
    for (root, path, content) in [
        (folder("/"), "/proc/self/maps", &maps[..]),
        (folder("/proc"), "//self/maps", &maps),
        (other, "/proc/self/maps", "others"),
    ] {
        put(path);
        let args = [root.as_raw_fd() as u64, AT, BUFFER, 24];
        let opened = guest.opens(SYS_openat2, &args);
        assert_eq!(opened.map(text).as_deref(), Ok(content), "{path}");
    }
}

#[test]
fn memory_is_opened_and_physical_pages_are_not_shown() {
    let mut guest = guest("/proc/self/pagemap");
    assert_eq!(guest.live(SYS_open, &[AT, 0]).ok(), errno(libc::EACCES));
    put("/proc/self/mem");
    let opened = guest.opens(SYS_open, &[AT, libc::O_RDWR as u64]);
    assert!(opened.is_ok());
    assert!(machine().descriptor_kinds.may_be_memory());
    // Writes to it would be on no tape.
    let mut sleep = std::process::Command::new("sleep")
        .arg("100")
        .spawn()
        .expect("it starts");
    put(&format!("/proc/{}/mem", sleep.id()));
    let results =
        [libc::O_RDWR, libc::O_WRONLY].map(|f| guest.live(SYS_open, &[AT, f as u64]).ok());
    sleep.kill().expect("it is ours");
    sleep.wait().expect("it is ours");
    assert_eq!(results, [errno(libc::EACCES); 2]);
}

#[test]
fn the_link_to_the_executable_is_read_as_the_guests() {
    let mut guest = guest("/proc/self/exe");
    guest.task.process.state().exe = b"/a/program".to_vec();
    let read = |guest: &mut Guest, nr: i64, args: &[u64]| {
        let result = guest.live(nr, args).expect("it is supported");
        let written = std::mem::take(&mut guest.task.log.spans);
        let bytes = copy::read_array::<12>(GuestAddr(BUFFER)).expect("it is mapped");
        copy::write(GuestAddr(BUFFER), &[b'.'; 12]).expect("it is mapped");
        (result, written, bytes)
    };
    read(&mut guest, SYS_readlink, &[0]);
    let whole = (10, vec![(BUFFER, 10)], *b"/a/program..");
    let found = read(&mut guest, SYS_readlink, &[AT, BUFFER, 64]);
    assert_eq!(found, whole);
    let found = read(&mut guest, SYS_readlinkat, &[CWD_FD, AT, BUFFER, 64]);
    assert_eq!(found, whole);
    let cut = (3, vec![(BUFFER, 3)], *b"/a/.........");
    assert_eq!(read(&mut guest, SYS_readlink, &[AT, BUFFER, 3]), cut);
    for (args, errno) in [
        ([AT, BUFFER, 0], libc::EINVAL),
        ([AT, BUFFER, u32::MAX.into()], libc::EINVAL),
        ([AT, NOWHERE, 64], libc::EFAULT),
        ([NOWHERE, BUFFER, 64], libc::EFAULT),
    ] {
        // Behind a bad address the kernel may have written to any buffer.
        let noted = match (args, errno) {
            ([_, BUFFER, most], libc::EFAULT) => vec![(BUFFER, most)],
            _ => Vec::new(),
        };
        let refused = (-i64::from(errno), noted, [b'.'; 12]);
        assert_eq!(read(&mut guest, SYS_readlink, &args), refused, "{args:x?}");
    }
}

#[test]
fn hidden_entries_leave_no_gap() {
    let entry = |name: &str, at: usize| {
        let len = (at + name.len() + 1).next_multiple_of(8);
        let mut bytes = vec![0; len];
        bytes[16..18].copy_from_slice(&(len as u16).to_le_bytes());
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        bytes
    };
    for at in [18, 19] {
        let all = ["3", "1020", "a longer name", "102"].map(|name| entry(name, at));
        let kept = without_entries(&all.concat(), at, |name| name == b"1020");
        assert_eq!(kept, [&all[0][..], &all[2], &all[3]].concat());
        assert_eq!(without_entries(&all.concat(), at, |_| true), b"");
    }
    assert_eq!(without_entries(&[0; 12], 19, |_| false), b"");
}

#[test]
fn a_folder_of_proc_is_listed_for_the_tape() {
    let mut guest = guest("");
    let opened = folder("/proc/self/fd");
    let args = [opened.as_raw_fd() as u64, BUFFER, 0x1000];
    let result = guest.live(SYS_getdents64, &args).expect("it is supported");
    assert!(result > 0);
    assert_eq!(guest.task.log.spans, [(BUFFER, result as u64)]);
}
