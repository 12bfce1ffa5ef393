//! Places of recordings, and the target of `latest`.

use std::os::unix::process::CommandExt;

use crate::sandbox::{Sandbox, text};

#[test]
fn recordings_are_numbered_and_the_newest_is_the_latest() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "echo", "first"]).ok();
    sandbox.relive(&["record", "echo", "second"]).ok();
    assert_eq!(sandbox.recordings(), ["echo-0", "echo-1"]);
    assert!(sandbox.latest().unwrap().ends_with("echo-1"));
    assert_eq!(sandbox.relive(&["replay"]).ok().stdout, "second\n");
    assert_eq!(sandbox.relive(&["replay", "echo-0"]).ok().stdout, "first\n");
    assert_eq!(
        sandbox
            .relive(&["replay", text(&sandbox.base().join("echo-0"))])
            .ok()
            .stdout,
        "first\n"
    );
}

#[test]
fn a_named_folder_is_not_the_latest() {
    let sandbox = Sandbox::new();
    sandbox
        .relive(&["record", "-o", "deep/down", "echo", "named"])
        .ok();
    assert!(sandbox.path("deep/down/manifest.json").is_file());
    assert!(!sandbox.base().exists());
    assert_eq!(
        sandbox.relive(&["replay", "deep/down"]).ok().stdout,
        "named\n"
    );
    for command in ["replay", "verify", "info", "dump"] {
        sandbox.relive(&[command]).refused("record a program first");
    }
}

#[test]
fn the_folder_for_recordings_follows_the_xdg_convention() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let mut command = sandbox.command(&["record", "true"]);
    command
        .env_remove("RELIVE_TRACE_DIR")
        .env("XDG_DATA_HOME", &data);
    crate::sandbox::finish(command).ok();
    assert!(data.join("relive/true-0/manifest.json").is_file());
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("below");
    sandbox
        .relive(&["record", "-o", text(&below), "true"])
        .refused(text(&file));
    let mut command = sandbox.command(&["record", "true"]);
    command.env("RELIVE_TRACE_DIR", &below);
    crate::sandbox::finish(command).refused("RELIVE_TRACE_DIR");
}

#[test]
fn a_program_is_recorded_where_its_folder_was_removed() {
    let sandbox = Sandbox::new();
    let removed = sandbox.path("removed");
    std::fs::create_dir(&removed).unwrap();
    let mut command = sandbox.command(&["record", "sh", "-c", "echo here; /bin/pwd"]);
    command.current_dir(&removed);
    // SAFETY: rmdir(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::rmdir(c"../removed".as_ptr());
            Ok(())
        })
    };
    let recorded = crate::sandbox::finish(command);
    assert!(!removed.exists());
    assert_eq!(recorded.stdout, "here\n", "{recorded:#?}");
    assert_eq!(recorded.code(), Some(1), "{recorded:#?}");
    let replayed = sandbox.relive(&["replay"]);
    assert_eq!(replayed.stdout, "here\n");
    assert_eq!(replayed.code(), Some(1), "{replayed:#?}");
}

#[test]
fn a_folder_with_something_in_it_is_refused_and_left_alone() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("full")).unwrap();
    std::fs::write(sandbox.path("full/precious"), "data").unwrap();
    sandbox
        .relive(&["record", "-o", "full", "true"])
        .refused("already holds files");
    assert_eq!(std::fs::read_dir(sandbox.path("full")).unwrap().count(), 1);
    sandbox.relive(&["record", "-o", "once", "true"]).ok();
    sandbox
        .relive(&["record", "-o", "once", "true"])
        .refused("already holds files");
}

#[test]
fn what_is_no_trace_is_refused() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    std::fs::write(sandbox.path("file"), "").unwrap();
    for command in ["replay", "verify", "info", "dump"] {
        sandbox.relive(&[command, "./empty"]).refused("not a trace");
        sandbox
            .relive(&[command, "nowhere"])
            .refused("there is no trace nowhere");
        sandbox
            .relive(&[command, "file"])
            .refused("is a file and no recording");
    }
}
