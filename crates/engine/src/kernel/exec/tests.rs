//! The executable that an exec names, and the errors of one that fails. A successful one does not return.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use libc::{SYS_execve, SYS_execveat};
use tempfile::TempDir;

use super::*;
use crate::testing::Guest;

const AT: u64 = 0x1000_8000_0000;
const VECTOR: u64 = AT + 0x1000;
/// From here to the end of the memory no byte is 0.
const ENDLESS: u64 = AT + 0x2000;
const END: u64 = ENDLESS + 0x2_1000;
/// Outside of all guest memory.
const NOWHERE: u64 = 0x5500_0000;
const CWD_FD: i32 = libc::AT_FDCWD;
const EMPTY: i32 = libc::AT_EMPTY_PATH;
const NO_LINK: i32 = libc::AT_SYMLINK_NOFOLLOW;

fn guest() -> Guest {
    let mut guest = Guest::new();
    guest.map(AT, END - AT);
    copy::write(GuestAddr(ENDLESS), &vec![b'a'; (END - ENDLESS) as usize]).expect("it is mapped");
    guest
}

fn put(at: u64, text: &[u8]) {
    copy::write(GuestAddr(at), &[text, b"\0"].concat()).expect("it is mapped");
}

fn put_words(words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    copy::write(GuestAddr(VECTOR), &bytes).expect("it is mapped");
}

/// A folder with an executable file that is no program, and one that may not be executed.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "data", b"no program", 0o755);
    write(folder.path(), "plain", b"no program", 0o644);
    folder
}

fn write(folder: &Path, name: &str, text: &[u8], mode: u32) -> Vec<u8> {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("there is room");
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&path, mode).expect("it is ours");
    path.as_os_str().as_bytes().to_vec()
}

fn name(folder: &TempDir, name: &str) -> Vec<u8> {
    folder.path().join(name).as_os_str().as_bytes().to_vec()
}

fn execve(guest: &mut Guest, path: &[u8]) -> i64 {
    put(AT, path);
    let result = guest.live(SYS_execve, &[AT, 0, 0]);
    -result.expect("it only fails")
}

#[test]
fn a_replay_does_not_read_the_arguments_of_a_failed_exec() {
    let mut guest = Guest::new();
    let enoexec = -i64::from(libc::ENOEXEC);
    for nr in [SYS_execve, SYS_execveat] {
        let told = guest.told(nr, &[NOWHERE; 5], enoexec, &[]);
        assert_eq!(told.ok(), Some(enoexec));
    }
    assert_eq!(guest.asked(), []);
}

#[test]
fn a_process_that_lodges_in_another_executes_nothing() {
    let mut guest = guest();
    put(AT, b"/there is none");
    guest.task.lodges = true;
    let eperm = Some(-i64::from(libc::EPERM));
    assert_eq!(guest.live(SYS_execve, &[AT, 0, 0]).ok(), eperm);
    let args = [CWD_FD as u64, AT, 0, 0, 0];
    assert_eq!(guest.live(SYS_execveat, &args).ok(), eperm);
}

#[test]
fn what_cannot_be_executed_has_the_kernels_errors() {
    let (mut guest, folder) = (guest(), folder());
    for (file, errno) in [
        ("none", libc::ENOENT),
        ("plain", libc::EACCES),
        ("", libc::EACCES),
        ("data/more", libc::ENOTDIR),
        ("data", libc::ENOEXEC),
    ] {
        let result = execve(&mut guest, &name(&folder, file));
        assert_eq!(result, i64::from(errno), "{file}");
    }
    assert!(guest.asked().is_empty(), "nobody hears of it");
}

#[test]
fn the_guests_own_executable_is_not_the_hosts() {
    let mut guest = guest();
    guest.task.process.state().exe = b"/there is none".to_vec();
    let result = execve(&mut guest, b"/proc/self/exe");
    assert_eq!(result, i64::from(libc::ENOENT));
}

#[test]
fn bad_addresses_and_long_strings_are_refused() {
    let mut guest = guest();
    put(AT, b"/there is none");
    for (words, path, vector, errno) in [
        (&[][..], NOWHERE, 0, libc::EFAULT),
        (&[], ENDLESS, 0, libc::ENAMETOOLONG),
        (&[], AT, NOWHERE, libc::EFAULT),
        (&[NOWHERE, 0], AT, VECTOR, libc::EFAULT),
        (&[ENDLESS, 0], AT, VECTOR, libc::E2BIG),
        (&[AT, 0], AT, VECTOR, libc::ENOENT),
    ] {
        put_words(words);
        for args in [[path, vector, 0], [path, 0, vector]] {
            let result = guest.live(SYS_execve, &args).ok();
            assert_eq!(result, Some(-i64::from(errno)), "{words:x?} {args:x?}");
        }
    }
}

#[test]
fn a_vector_ends_at_its_null() {
    let _guest = guest();
    put(AT, b"one");
    put(AT + 8, b"");
    put_words(&[AT, AT + 8, AT + 1, 0, NOWHERE]);
    let all = [&b"one"[..], b"", b"ne"].map(<[u8]>::to_vec);
    assert_eq!(strings(VECTOR), Ok(all.to_vec()));
    assert_eq!(strings(0), Ok(Vec::new()));
}

#[test]
fn execveat_finds_its_file_as_openat_does() {
    let (mut guest, folder) = (guest(), folder());
    let (path, errno) = (
        |text: &str| Ok(text.as_bytes().to_vec()),
        |e: i32| Err(-i64::from(e)),
    );
    symlink("data", folder.path().join("link")).expect("a link");
    let file = File::open(folder.path().join("data")).expect("it is there");
    let opened = File::open(folder.path()).expect("it is there");
    let (fd, dir) = (file.as_raw_fd(), opened.as_raw_fd());
    let usual = ["/proc/self/fd", "/dev/fd"][usize::from(Path::new("/dev/fd").exists())];
    for (folder, name, flags, found) in [
        (CWD_FD, "x/y", 0, path("x/y")),
        (dir, "/x", 0, path("/x")),
        (-1, "/x", 0, path("/x")),
        (dir, "x", 0, path(&format!("{usual}/{dir}/x"))),
        (i32::MAX, "x", 0, errno(libc::EBADF)),
        (dir, "", 0, errno(libc::ENOENT)),
        (fd, "", EMPTY, path(&format!("{usual}/{fd}"))),
        (-1, "", EMPTY, errno(libc::EBADF)),
        (5000, "", EMPTY, errno(libc::EBADF)),
        (CWD_FD, "", EMPTY, errno(libc::EACCES)),
        (dir, "data", NO_LINK, path(&format!("{usual}/{dir}/data"))),
        (dir, "link", NO_LINK, errno(libc::ELOOP)),
        (dir, "link", 0, path(&format!("{usual}/{dir}/link"))),
        (dir, "data", libc::AT_EACCESS, errno(libc::EINVAL)),
    ] {
        put(AT, name.as_bytes());
        let call = guest.call(SYS_execveat, &[folder as u64, AT, 0, 0, flags as u64]);
        assert_eq!(
            path_at(&guest.task, &call),
            found,
            "{folder} {name} {flags:#x}"
        );
    }
}

#[test]
fn a_script_whose_descriptor_the_exec_closes_is_not_found() {
    let (mut guest, folder) = (guest(), folder());
    put(AT, b"");
    let script = write(folder.path(), "script", b"#!/bin/sh\n", 0o755);
    let script = File::open(std::ffi::OsStr::from_bytes(&script)).expect("it is there");
    let data = File::open(folder.path().join("data")).expect("it is there");
    let mut found = |file: &File| {
        let args = [file.as_raw_fd() as u64, AT, 0, 0, EMPTY as u64];
        let call = guest.call(SYS_execveat, &args);
        path_at(&guest.task, &call).map(drop)
    };
    assert_eq!(found(&script), Err(-i64::from(libc::ENOENT)));
    assert_eq!(found(&data), Ok(()), "no interpreter reads it");
    let kept = fcntl_setfd(&script, FdFlags::empty());
    kept.expect("its flags can be set");
    assert_eq!(found(&script), Ok(()));
}

#[test]
fn the_first_line_of_a_script_names_an_interpreter_and_one_argument() {
    let found = |line: &[u8]| {
        let mut head = [0; 256];
        let length = line.len().min(254);
        head[..2].copy_from_slice(b"#!");
        head[2..2 + length].copy_from_slice(&line[..length]);
        shebang(&head)
    };
    let long = [&b"/bin/sh "[..], &[b'a'; 300]].concat();
    let last = [b'a'; 253 - 8];
    for (line, interpreter, argument) in [
        (&b"/bin/sh\n-x"[..], &b"/bin/sh"[..], None),
        (b" \t/bin/sh \t\n", b"/bin/sh", None),
        (b"/bin/sh -x  -y \t\nmore", b"/bin/sh", Some(&b"-x  -y"[..])),
        (b"/bin/sh\t-x", b"/bin/sh", Some(b"-x")),
        (b"/bin/sh\0\nmore", b"/bin/sh", None),
        (b"/bin/sh -x\0-y\n", b"/bin/sh", Some(b"-x")),
        (b"", b"", None),
        (&long, b"/bin/sh", Some(&last)),
    ] {
        let expected = (interpreter.to_vec(), argument.map(<[u8]>::to_vec));
        assert_eq!(found(line), Some(expected));
    }
    assert_eq!(found(b" \t\n/bin/sh"), None);
    assert_eq!(found(b"\n"), None);
    assert_eq!(found(&[b'a'; 300]), None);
    assert_eq!(found(&[b' '; 300]), None);
}

#[test]
fn scripts_of_scripts_put_their_interpreters_before_the_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    let elf = name(&folder, "elf");
    symlink("/bin/sh", folder.path().join("elf")).expect("a link");
    let line = |interpreter: &[u8], rest: &[u8]| [b"#!", interpreter, rest, b"\n"].concat();
    let inner = write(folder.path(), "inner", &line(&elf, b" -i  x "), 0o755);
    let outer = write(folder.path(), "outer", &line(&inner, b""), 0o755);
    let argv = [&b"old name"[..], b"1"].map(<[u8]>::to_vec);
    let found = resolve(&outer, argv.to_vec()).expect("it may be executed");
    let argv = [&elf[..], b"-i  x", &inner, &outer, b"1"].map(<[u8]>::to_vec);
    assert_eq!((found.argv, found.called), (argv.to_vec(), outer));
    let shell = std::fs::canonicalize("/bin/sh").expect("it is there");
    assert_eq!(found.path, shell.as_os_str().as_bytes());
}

#[test]
fn a_script_that_leads_to_no_program_has_the_kernels_errors() {
    let folder = folder();
    let refused = |path: &[u8]| resolve(path, Vec::new()).err();
    for (interpreter, errno) in [
        ("/there/is/none", libc::ENOENT),
        ("", libc::ENOEXEC),
        ("plain", libc::EACCES),
        ("data", libc::ENOEXEC),
        ("loop", libc::ELOOP),
    ] {
        let path = match interpreter {
            "" => Vec::new(),
            relative => name(&folder, relative),
        };
        let text = [b"#!", &path[..], b"\n"].concat();
        let script = write(folder.path(), "loop", &text, 0o755);
        assert_eq!(refused(&script), Some(errno), "{interpreter}");
    }
    let zero = refused(b"/bin/sh\0");
    assert_eq!(zero, Some(libc::ENOENT));
}
