//! `relive` ends as the program ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::sandbox::{Outcome, Sandbox, text, wait};

#[test]
fn exit_statuses_pass_through() {
    let sandbox = Sandbox::new();
    // 125 and 2 mean something else when they are Relive's own.
    for code in [0, 1, 2, 7, 125, 255] {
        let script = format!("exit {code}");
        assert_eq!(
            sandbox.relive(&["run", "sh", "-c", &script]).code(),
            Some(code)
        );
        assert_eq!(
            sandbox.relive(&["record", "sh", "-c", &script]).code(),
            Some(code)
        );
        assert_eq!(sandbox.relive(&["replay"]).code(), Some(code));
        assert_eq!(sandbox.relive(&["verify"]).code(), Some(0));
    }
}

#[test]
fn a_death_by_signal_passes_through() {
    let sandbox = Sandbox::new();
    for (name, number) in [
        ("TERM", libc::SIGTERM),
        ("SEGV", libc::SIGSEGV),
        ("KILL", libc::SIGKILL),
    ] {
        let script = format!("kill -{name} $$");
        assert_eq!(
            sandbox.relive(&["run", "sh", "-c", &script]).signal(),
            Some(number)
        );
        assert_eq!(
            sandbox.relive(&["record", "sh", "-c", &script]).signal(),
            Some(number),
            "{name}"
        );
        assert_eq!(sandbox.relive(&["replay"]).signal(), Some(number), "{name}");
        assert_eq!(sandbox.relive(&["verify"]).code(), Some(0), "{name}");
    }
}

/// It is the program's own already: the recorder does not pass it on once more.
#[test]
fn a_signal_to_the_whole_group_comes_once() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo got; got=1' TERM HUP; echo ready; while [ ! $got ]; do sleep 0.02; done; read word; read word; exit 3";
    for mode in ["serial", "sketch", "uniparallel"] {
        for signal in [libc::SIGTERM, libc::SIGHUP] {
            let words = ["record", "--mode", mode, "-o", "trace", "sh", "-c", script];
            let mut command = sandbox.command(&words);
            command.process_group(0).stdin(Stdio::piped());
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            // SAFETY: signals a group that is this test's own.
            assert_eq!(unsafe { libc::kill(-(child.id() as i32), signal) }, 0);
            output.read_line(&mut line).unwrap();
            // A second one would come within this time.
            std::thread::sleep(Duration::from_millis(200));
            input.write_all(b"one\ntwo\n").unwrap();
            output.read_to_string(&mut line).unwrap();
            assert_eq!(wait(&mut child).code(), Some(3), "{mode} {signal}: {line}");
            assert_eq!(line, "ready\ngot\n", "{mode} {signal}");
            let replayed = sandbox.relive(&["replay", "trace"]);
            assert_eq!(
                (replayed.code(), &replayed.stdout[..]),
                (Some(3), &line[..])
            );
            std::fs::remove_dir_all(sandbox.path("trace")).unwrap();
        }
    }
}

/// One that the recorder alone got.
#[test]
fn a_signal_to_the_recorder_is_passed_on() {
    let sandbox = Sandbox::new();
    let real_time = libc::SIGRTMIN() + 3;
    for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM, real_time] {
        let script =
            format!("trap 'echo got; exit 3' {signal}; echo ready; while :; do sleep 0.02; done");
        let words = ["record", "sh", "-c", &script];
        let mut command = sandbox.command(&words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        // SAFETY: signals a process of this test's own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        output.read_to_string(&mut line).unwrap();
        assert_eq!(wait(&mut child).code(), Some(3), "{signal}: {line}");
        assert_eq!(line, "ready\ngot\n", "{signal}");
    }
}

/// The recorder, and who searches by runs, are in the group too, and must not take such a signal for one of somebody else.
#[test]
fn a_signal_of_the_program_to_its_group_is_its_own() {
    let sandbox = Sandbox::new();
    for signal in ["TERM", "USR1", "ALRM", "PIPE"] {
        let script = format!("trap 'echo got' {signal}; kill -{signal} 0; sleep 0.2; echo behind");
        let program = ["sh", "-c", &script];
        for (words, expected) in [
            (&["record", "-o", "trace"][..], "got\nbehind\n"),
            (&["run", "--stats"], "got\nbehind\n"),
            (&["hunt", "-n", "2"], "no failure in 2 runs\n"),
        ] {
            let mut command = sandbox.command(&[words, &program].concat());
            let output = command.process_group(0).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{words:?} {signal}: {text}");
            let shown = String::from_utf8_lossy(&output.stdout);
            assert_eq!(shown, expected, "{words:?} {signal}: {text}");
        }
        let replayed = sandbox.relive(&["replay", "trace"]).ok();
        assert_eq!(replayed.stdout, "got\nbehind\n");
        std::fs::remove_dir_all(sandbox.path("trace")).unwrap();
    }
}

/// The child is another thread's, and sleeps there, or is about to become another program.
#[test]
fn a_process_ends_while_a_child_is_in_its_memory() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/exit_beside_vfork.c");
    let program = sandbox.compile(&source, "program");
    for mode in ["--mode=sketch", "--mode=uniparallel"] {
        let words = ["record", mode, "-o", "trace", text(&program)];
        assert_eq!(sandbox.relive(&words).ok().stdout, "ok\n");
        assert_eq!(sandbox.relive(&["replay", "trace"]).ok().stdout, "ok\n");
        std::fs::remove_dir_all(sandbox.path("trace")).unwrap();
    }
}

#[test]
fn a_missing_program_is_refused() {
    let sandbox = Sandbox::new();
    for command in ["record", "run", "hunt"] {
        sandbox
            .relive(&[command, "no-such-program"])
            .refused("no-such-program was not found");
        sandbox
            .relive(&[command, "./no-such-program"])
            .refused("./no-such-program was not found");
    }
    assert_eq!(sandbox.recordings(), [""; 0]);
    assert_eq!(sandbox.latest(), None);
}

#[test]
fn what_is_no_program_is_refused() {
    let sandbox = Sandbox::new();
    let plain = sandbox.path("plain");
    std::fs::write(&plain, "hello").unwrap();
    sandbox.relive(&["record", text(&plain)]).refused("plain");
    sandbox.relive(&["record", "/"]).refused("/");
    assert_eq!(sandbox.recordings(), [""; 0]);
}

#[test]
fn processes_that_have_ended_are_gone_from_a_replay() {
    let sandbox = Sandbox::new();
    let script = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done";
    sandbox.relive(&["record", "sh", "-c", script]).ok();
    let mut replay = sandbox.command(&["replay"]).spawn().unwrap();
    let (mut seen, mut ended) = (0, 0);
    while replay.try_wait().unwrap().is_none() {
        let states = descendants(replay.id());
        seen = seen.max(states.len());
        ended = ended.max(states.iter().filter(|(_, state, _)| *state == 'Z').count());
    }
    assert!(replay.wait().unwrap().success());
    assert!(seen > 1, "the replay was not looked at");
    // Of 200: the first process, which is waited for, and those that have ended since it last forked.
    // A process has said that it ends before it has, so these may be some more than there are cores.
    assert!(ended <= 20, "{ended} processes were there that had ended");
}

#[test]
fn a_killed_process_ends_its_replay() {
    let sandbox = Sandbox::new();
    // The shell writes last: until then it waits for its turn.
    let script = "seq 1 200000; echo end";
    sandbox.relive(&["record", "sh", "-c", script]).ok();
    for first in [true, false] {
        let errors = sandbox.path("errors");
        let mut command = sandbox.command(&["replay"]);
        command
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).unwrap());
        let mut replay = command.spawn().unwrap();
        // The pipe is too small for all of it, so the child has not ended when some is there.
        let mut output = replay.stdout.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        let all = descendants(replay.id());
        let (pid, ..) = all
            .into_iter()
            .find(|(_, _, parent)| (*parent == replay.id()) == first)
            .unwrap();
        // SAFETY: a process of the replay that was started here.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        let outcome = Outcome {
            status: wait(&mut replay),
            stdout: String::new(),
            stderr: std::fs::read_to_string(errors).unwrap(),
        };
        outcome.refused("a process of the replay is gone before its end");
    }
}

/// One waits for the output of another, which nobody will ever write.
#[test]
fn a_killed_replay_leaves_no_process() {
    let sandbox = Sandbox::new();
    let many = "i=0; while [ $i -lt 20000 ]; do echo $i >&2; i=$((i+1)); done";
    let script =
        format!("{{ while [ ! -e flag ]; do :; done; echo late; }} & {many}; : >flag; wait");
    sandbox.relive(&["record", "sh", "-c", &script]).ok();
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let mut command = sandbox.command(&["replay"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut replay = command.spawn().unwrap();
        let mut output = replay.stderr.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        // The pipe is too small for all of it: no process ends before all are there.
        let all = loop {
            let all = descendants(replay.id());
            if all.len() >= 2 {
                break all;
            }
        };
        // SAFETY: the process that was started here.
        unsafe { libc::kill(replay.id() as i32, signal) };
        wait(&mut replay);
        drop(output);
        await_ends(&all);
    }
}

/// It writes the exact order, which nobody takes any more.
#[test]
fn a_killed_first_replay_leaves_no_process() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/reads.c");
    let program = sandbox.compile(&source, "program");
    let words = ["record", "--mode=sketch", "-o", "trace", text(&program)];
    sandbox.relive(&words).ok();
    for _ in 0..3 {
        let mut command = sandbox.command(&["replay", "trace"]);
        let mut replay = command.stdout(Stdio::null()).spawn().unwrap();
        let all = loop {
            let all = descendants(replay.id());
            if all.len() >= 4 {
                break all;
            }
            assert!(replay.try_wait().unwrap().is_none(), "it has ended before");
        };
        // SAFETY: the process that was started here.
        unsafe { libc::kill(replay.id() as i32, libc::SIGKILL) };
        wait(&mut replay);
        await_ends(&all);
    }
}

/// Waits until none of these processes runs any more.
fn await_ends(all: &[(u32, char, u32)]) {
    let lives = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(relive") && !stat.contains(") Z ")
    };
    let start = Instant::now();
    while all.iter().any(|(pid, ..)| lives(*pid)) {
        assert!(start.elapsed() < Duration::from_secs(30), "{all:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All processes below one, with their states and parents (proc(5)).
fn descendants(of: u32) -> Vec<(u32, char, u32)> {
    let mut parents = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // Behind the name in brackets, which may hold anything.
        let mut words = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        let state = words.next().and_then(|word| word.chars().next());
        let parent = words.next().and_then(|word| word.parse::<u32>().ok());
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        if let (Some(pid), Some(state), Some(parent)) = (pid, state, parent) {
            parents.insert(pid, (state, parent));
        }
    }
    let below = |mut pid: u32| {
        while let Some(&(_, parent)) = parents.get(&pid) {
            if parent == of {
                return true;
            }
            pid = parent;
        }
        false
    };
    let all = parents.iter().filter(|(pid, _)| below(**pid));
    all.map(|(pid, (state, parent))| (*pid, *state, *parent))
        .collect()
}

/// Its parent's process is killed from outside, by which nobody gives the turn back: no command waits for it for ever.
#[test]
fn a_vfork_child_whose_parent_was_killed_does_not_hang() {
    let sandbox = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command");
    let program = sandbox.compile(&folder.join("vfork_killed.c"), "vfork_killed");
    for n in 0..3 {
        let trace = format!("trace-{n}");
        let recorded = sandbox.relive(&["record", "-o", &trace, text(&program)]);
        match recorded.code() {
            // Its child was not there, or had the turn.
            Some(0) => sandbox.relive(&["verify", &trace]).ok(),
            _ => recorded.refused("killed while its child by vfork(2) was in its memory"),
        };
    }
}
