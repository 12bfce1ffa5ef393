//! The program has standard input, output and error for itself.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sandbox::{Outcome, Sandbox, finish, text, wait};

#[test]
fn nothing_is_added_to_the_output() {
    let sandbox = Sandbox::new();
    let script = "printf 'no newline'; printf 'an error' >&2";
    for words in [&["run"][..], &["record"], &["record", "-o", "trace"]] {
        let outcome = sandbox
            .relive(&[words, &["sh", "-c", script]].concat())
            .ok();
        assert_eq!(
            (&*outcome.stdout, &*outcome.stderr),
            ("no newline", "an error")
        );
    }
    for words in [&["replay"][..], &["replay", "trace"]] {
        let outcome = sandbox.relive(words).ok();
        assert_eq!(
            (&*outcome.stdout, &*outcome.stderr),
            ("no newline", "an error")
        );
    }
}

#[test]
fn standard_input_is_recorded() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["record", "cat"]);
    std::fs::write(sandbox.path("input"), "one\ntwo\n").unwrap();
    command.stdin(File::open(sandbox.path("input")).unwrap());
    assert_eq!(finish(command).ok().stdout, "one\ntwo\n");
    std::fs::remove_file(sandbox.path("input")).unwrap();
    assert_eq!(sandbox.relive(&["replay"]).ok().stdout, "one\ntwo\n");
}

#[test]
fn output_and_error_keep_their_order() {
    let sandbox = Sandbox::new();
    let script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; /bin/echo child $i; done";
    let together = |words: &[&str], name: &str| {
        let file = File::create(sandbox.path(name)).unwrap();
        let mut command = sandbox.command(words);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        assert!(wait(&mut command.spawn().unwrap()).success());
        std::fs::read_to_string(sandbox.path(name)).unwrap()
    };
    let recorded = together(&["record", "sh", "-c", script], "recorded");
    assert_eq!(recorded.lines().count(), 15);
    assert_eq!(together(&["replay"], "replayed"), recorded);
}

/// Sockets as standard output: bytes that are sent are output as bytes that are written are.
#[test]
fn what_is_sent_is_repeated() {
    let sandbox = Sandbox::new();
    let source = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/command/sends.c"
    ));
    let sends = sandbox.compile(source, "sends");
    let (mut reader, writer) = UnixStream::pair().unwrap();
    let mut command = sandbox.command(&["record", text(&sends)]);
    command.stdout(Stdio::from(OwnedFd::from(writer)));
    assert!(wait(&mut command.spawn().unwrap()).success());
    drop(command);
    let mut recorded = String::new();
    reader.read_to_string(&mut recorded).unwrap();
    assert_eq!(
        recorded,
        "send\nsendto\nsendmsg\nfirst\nsecond\nchild: msg\nend\n"
    );
    assert_eq!(sandbox.relive(&["replay"]).ok().stdout, recorded);
}

/// Every call that opens standard output by another name, be it a file or swallows everything.
#[test]
fn output_by_every_call_that_opens_it_is_repeated() {
    let sandbox = Sandbox::new();
    let source = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/command/opens.c"
    ));
    let opens = sandbox.compile(source, "opens");
    let out = sandbox.path("out");
    for stdout in [&out, Path::new("/dev/null")] {
        let file = File::options().create(true).append(true).open(stdout);
        let mut command = sandbox.command(&["record", text(&opens)]);
        command.stdout(file.unwrap());
        assert!(wait(&mut command.spawn().unwrap()).success());
        let outcome = sandbox.relive(&["replay"]).ok();
        let expected = "open\nopenat\nopenat2\nopen_by_handle_at\n";
        assert_eq!(outcome.stdout, expected, "{}", stdout.display());
    }
    assert!(
        std::fs::read_to_string(out)
            .unwrap()
            .ends_with("open_by_handle_at\n")
    );
}

#[test]
fn output_through_another_name_of_the_file_is_repeated() {
    let sandbox = Sandbox::new();
    let script = "echo first; echo second >> out; ln out other; echo third >> other; \
                  sh -c 'exec 7<> other; echo fourth >> out'; echo no output > elsewhere; \
                  ln -s out link; echo fifth | tee -a link elsewhere >&2; cat out > elsewhere; \
                  mv out moved; echo no output >> out; echo last";
    let out = File::options()
        .create(true)
        .append(true)
        .open(sandbox.path("out"));
    let errors = sandbox.path("errors");
    let mut command = sandbox.command(&["record", "sh", "-c", script]);
    command
        .stdout(out.unwrap())
        .stderr(File::create(&errors).unwrap());
    assert!(wait(&mut command.spawn().unwrap()).success());
    let read = |path| std::fs::read_to_string(path).unwrap();
    let recorded = read(sandbox.path("moved"));
    assert_eq!(recorded, "first\nsecond\nthird\nfourth\nfifth\nlast\n");
    let outcome = sandbox.relive(&["replay"]).ok();
    assert_eq!(outcome.stdout, recorded);
    assert_eq!(outcome.stderr, read(errors));
}

#[test]
fn the_words_of_the_program_are_its_own() {
    let sandbox = Sandbox::new();
    let show = [
        "sh",
        "-c",
        r#"for word; do printf '<%s>' "$word"; done"#,
        "sh",
    ];
    let words = ["--help", "-o", "x y", "--", "--chaos", "", "-n"];
    let expected = "<--help><-o><x y><--><--chaos><><-n>";
    for before in [
        &["run"][..],
        &["run", "--"],
        &["record"],
        &["record", "--"],
        &["record", "--chaos=7", "--"],
    ] {
        let outcome = sandbox.relive(&[before, &show, &words].concat()).ok();
        assert_eq!(outcome.stdout, expected, "{before:?}");
    }
}

#[test]
fn chaos_says_its_seed_on_standard_error() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.relive(&["record", "--chaos", "echo", "hi"]).ok();
    assert_eq!(outcome.stdout, "hi\n");
    let seed = outcome
        .stderr
        .strip_prefix("relive: chaos seed ")
        .unwrap()
        .trim_end();
    let again = sandbox
        .relive(&["record", &format!("--chaos={seed}"), "echo", "hi"])
        .ok();
    assert_eq!(again.stderr, outcome.stderr);
    let info = sandbox.relive(&["info"]).ok();
    assert!(
        info.stdout.contains(&format!("chaos seed {seed}")),
        "{info:#?}"
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_program() {
    let sandbox = Sandbox::new();
    let relive = env!("CARGO_BIN_EXE_relive");
    let script =
        format!("set -o pipefail; {relive} record yes | head -n 1; echo ${{PIPESTATUS[0]}}");
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &script])
        .env("RELIVE_TRACE_DIR", sandbox.base())
        .stdin(Stdio::null());
    assert_eq!(finish(shell).stdout, "y\n141\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_replay() {
    let sandbox = Sandbox::new();
    let several = "for i in 1 2 3 4 5 6 7 8 9; do seq 1 20000; done";
    sandbox
        .relive(&["record", "-o", "several", "sh", "-c", several])
        .ok();
    sandbox
        .relive(&["record", "-o", "one", "seq", "1", "200000"])
        .ok();
    for words in [
        &["replay", "several"][..],
        &["replay", "one"],
        &["replay", "--to", "end", "one"],
    ] {
        for ignored in [false, true] {
            let outcome = unread(&sandbox, words, ignored);
            if ignored {
                let outcome = outcome.refused("nobody reads the output of the replay");
                assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
            } else {
                assert_eq!(
                    outcome.signal(),
                    Some(libc::SIGPIPE),
                    "{words:?} {outcome:#?}"
                );
                assert_eq!(outcome.stderr, "", "{words:?}");
            }
        }
    }
}

/// Runs a command whose standard output is never read.
fn unread(sandbox: &Sandbox, words: &[&str], ignored: bool) -> Outcome {
    let errors = sandbox.path("errors");
    let mut command = sandbox.command(words);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command
        .stdout(writer)
        .stderr(File::create(&errors).unwrap());
    let action = if ignored {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    // SAFETY: signal(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGPIPE, action);
            Ok(())
        })
    };
    let status = wait(&mut command.spawn().unwrap());
    Outcome {
        status,
        stdout: String::new(),
        stderr: std::fs::read_to_string(errors).unwrap(),
    }
}

#[test]
fn the_keyboard_belongs_to_the_program() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo caught; exit 3' INT; echo ready; while :; do :; done";
    let out = sandbox.path("out");
    let mut command = sandbox.command(&["record", "sh", "-c", script]);
    command.process_group(0).stdout(File::create(&out).unwrap());
    let mut child = command.spawn().unwrap();
    while !std::fs::read_to_string(&out).unwrap().contains("ready") {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let group = -(child.id() as i32);
    // SAFETY: signals the processes that were started here.
    unsafe { libc::kill(group, libc::SIGINT) };
    assert_eq!(wait(&mut child).code(), Some(3));
    let outcome = sandbox.relive(&["replay"]);
    assert_eq!(
        (outcome.code(), &*outcome.stdout),
        (Some(3), "ready\ncaught\n")
    );
}
