//! `relive debug`: what becomes of gdb.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::sandbox::{Sandbox, finish, wait};

/// Whether a process is there, and has not ended.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// A signal that asks `relive debug` to end ends gdb too, and leaves nothing.
#[test]
fn gdb_ends_with_its_server() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "-o", "trace", "true"]).ok();
    let gdb = sandbox.path("gdb");
    std::fs::write(
        &gdb,
        "#!/bin/sh\necho $$ > gdb.new\nmv gdb.new gdb.pid\nexec sleep 100\n",
    )
    .unwrap();
    std::fs::set_permissions(&gdb, std::fs::Permissions::from_mode(0o755)).unwrap();
    let temporary = sandbox.path("temporary");
    let mut without = sandbox.command(&["debug", "--no-index", "trace"]);
    without.env("TMPDIR", &temporary);
    finish(without).refused("TMPDIR says another folder");
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGKILL] {
        std::fs::create_dir(&temporary).unwrap();
        let words = [
            "debug",
            "--no-index",
            "--gdb",
            gdb.to_str().unwrap(),
            "trace",
        ];
        let mut command = sandbox.command(&words);
        let mut relive = command.env("TMPDIR", &temporary).spawn().unwrap();
        let pid = sandbox.path("gdb.pid");
        while !pid.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let gdb: u32 = std::fs::read_to_string(&pid)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        std::fs::remove_file(&pid).unwrap();
        // SAFETY: a process that this test has started, and waits for.
        unsafe { libc::kill(relive.id() as i32, signal) };
        assert_eq!(wait(&mut relive).signal(), Some(signal));
        for _ in 0..1000 {
            if !lives(gdb) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!lives(gdb), "signal {signal}");
        let left = std::fs::read_dir(&temporary).unwrap().count();
        assert!(signal == libc::SIGKILL || left == 0, "signal {signal}");
        std::fs::remove_dir_all(&temporary).unwrap();
    }
}
