//! Compares two runs of a case, and one run with its header; reports the difference and how to see
//! it by hand.

use crate::child::{Outcome, tail};
use crate::header::{End, Header, Output};
use crate::signals;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Checks that a run ended and printed as its header says.
///
/// `by_relive` also accepts the shell's status for a signal, 128 + number: the command outlives a
/// guest that was killed.
///
/// # Errors
/// The difference, with the command to repeat the run.
pub fn check_expected(header: &Header, outcome: &Outcome, by_relive: bool) -> Result<(), String> {
    let status = outcome.status;
    let ended_well = match header.end {
        End::Exit(code) => status.code() == Some(code),
        End::Signal(number) => {
            status.signal() == Some(number) || (by_relive && status.code() == Some(128 + number))
        }
    };
    if !ended_well {
        let wanted = match header.end {
            End::Exit(code) => format!("exit status {code}"),
            End::Signal(number) => signals::name(number),
        };
        let found = describe(status);
        return Err(complain(
            outcome,
            &format!("should end with {wanted}, ended with {found}"),
        ));
    }
    let stdout = &outcome.stdout;
    match &header.expect {
        Some(part) if !contains(stdout, part) => {
            let part = String::from_utf8_lossy(part);
            Err(complain(
                outcome,
                &format!("stdout should contain {part:?}; it is\n{}", tail(stdout)),
            ))
        }
        None if header.end == End::Exit(0) && stdout != b"ok\n" && !stdout.ends_with(b"\nok\n") => {
            Err(complain(
                outcome,
                &format!(
                    "stdout should end with the line ok; it is\n{}",
                    tail(stdout)
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// Exit status of `relive` when it refuses a program.
const REFUSED: i32 = 125;
/// The class of a refusal, in its message.
const UNSUPPORTED: &[u8] = b"[RL1]";

/// Checks that `relive` refused a program, with a text that names the reason.
///
/// # Errors
/// It did not, or gave another reason; with the command to repeat the run.
pub fn check_refused(says: &[u8], outcome: &Outcome) -> Result<(), String> {
    if outcome.status.code() != Some(REFUSED) {
        let found = describe(outcome.status);
        return Err(complain(
            outcome,
            &format!("should be refused with exit status {REFUSED}, ended with {found}"),
        ));
    }
    let missing = [UNSUPPORTED, says]
        .into_iter()
        .find(|text| !contains(&outcome.stderr, text));
    match missing {
        None => Ok(()),
        Some(text) => Err(complain(
            outcome,
            &format!("stderr should contain {:?}", String::from_utf8_lossy(text)),
        )),
    }
}

/// Checks a run under `relive` against the native one: standard output, where it is exact.
///
/// # Errors
/// The first differing line of both sides, with both commands.
pub fn check_like_native(
    header: &Header,
    native: &Outcome,
    outcome: &Outcome,
) -> Result<(), String> {
    match header.output {
        Output::Exact => check_stream("stdout", ("native", native), ("this run", outcome), |o| {
            &o.stdout
        }),
        Output::Free => Ok(()),
    }
}

/// Checks a replay against its recording: both streams and the status, byte for byte.
///
/// # Errors
/// The first differing line of both sides, with both commands.
pub fn check_same(recorded: &Outcome, replayed: &Outcome) -> Result<(), String> {
    let (left, right) = (("recorded", recorded), ("replayed", replayed));
    check_stream("stdout", left, right, |outcome| &outcome.stdout)?;
    check_texts(
        "stderr",
        left,
        right,
        (of_program(&recorded.stderr), &replayed.stderr),
    )?;
    if recorded.status == replayed.status {
        return Ok(());
    }
    let ends = (describe(recorded.status), describe(replayed.status));
    Err(complain(
        replayed,
        &format!(
            "recorded: {}\nreplayed: {}\n{}",
            ends.0, ends.1, recorded.by_hand
        ),
    ))
}

fn check_stream(
    stream: &str,
    left: (&str, &Outcome),
    right: (&str, &Outcome),
    get: fn(&Outcome) -> &Vec<u8>,
) -> Result<(), String> {
    check_texts(stream, left, right, (get(left.1), get(right.1)))
}

/// The program's own output: at the end of a recording Relive may remark on it.
fn of_program(mut stderr: &[u8]) -> &[u8] {
    while let Some(line) = stderr.split_inclusive(is_newline).next_back()
        && line.starts_with(b"relive: ")
    {
        stderr = &stderr[..stderr.len() - line.len()];
    }
    stderr
}

fn check_texts(
    stream: &str,
    left: (&str, &Outcome),
    right: (&str, &Outcome),
    texts: (&[u8], &[u8]),
) -> Result<(), String> {
    let Some(difference) = first_difference(texts.0, texts.1) else {
        return Ok(());
    };
    Err(complain(
        right.1,
        &format!(
            "{stream} differs at line {}\n  {}: {:?}\n  {}: {:?}\n{} came from\n  {}",
            difference.line,
            left.0,
            difference.left,
            right.0,
            difference.right,
            left.0,
            left.1.by_hand
        ),
    ))
}

/// The first line in which two texts differ; `(end)` stands for a missing line.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Counted from 1.
    pub line: usize,
    /// The line in the first text.
    pub left: String,
    /// The line in the second text.
    pub right: String,
}

/// Finds the first differing line, or `None` when the texts are equal.
pub fn first_difference(left: &[u8], right: &[u8]) -> Option<Difference> {
    if left == right {
        return None;
    }
    let show = |line: Option<&[u8]>| {
        line.map_or("(end)".into(), |bytes| {
            String::from_utf8_lossy(bytes).into_owned()
        })
    };
    let (mut a, mut b) = (
        left.split_inclusive(is_newline),
        right.split_inclusive(is_newline),
    );
    let mut line = 0;
    loop {
        line += 1;
        let pair = (a.next(), b.next());
        if pair.0 != pair.1 {
            return Some(Difference {
                line,
                left: show(pair.0),
                right: show(pair.1),
            });
        }
    }
}

fn is_newline(byte: &u8) -> bool {
    *byte == b'\n'
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

/// An exit status in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => signals::name(number),
        (None, None) => format!("{status}"),
    }
}

fn complain(outcome: &Outcome, what: &str) -> String {
    format!(
        "{what}\nto repeat:\n  {}\nits stderr ends:\n{}",
        outcome.by_hand,
        tail(&outcome.stderr)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stdout: &str, raw_status: i32) -> Outcome {
        Outcome {
            stdout: stdout.into(),
            stderr: Vec::new(),
            status: ExitStatus::from_raw(raw_status),
            by_hand: "by hand".into(),
        }
    }

    fn header(text: &str) -> Header {
        Header::parse(&format!("# relive: {text}\n"), "#").unwrap()
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference(b"a\nb\n", b"a\nb\n"), None);
        let found = first_difference(b"a\nb\n", b"a\n").unwrap();
        assert_eq!(
            (found.line, found.left.as_str(), found.right.as_str()),
            (2, "b\n", "(end)")
        );
        assert_eq!(first_difference(b"a", b"a\n").unwrap().line, 1);
    }

    #[test]
    fn a_refusal_has_its_status_its_class_and_its_reason() {
        let refused = |status: i32, stderr: &str| {
            let mut run = outcome("", status << 8);
            run.stderr = stderr.into();
            check_refused(b"no cake", &run)
        };
        refused(125, "relive: unsupported [RL1]: no cake here\n").unwrap();
        for (status, stderr) in [
            (0, "relive: unsupported [RL1]: no cake here\n"),
            (125, "relive: no cake here\n"),
            (125, "relive: unsupported [RL1]: no bread\n"),
        ] {
            assert!(refused(status, stderr).is_err(), "{status} {stderr}");
        }
    }

    #[test]
    fn the_end_and_the_last_line_count() {
        assert!(check_expected(&header(""), &outcome("x\nok\n", 0), false).is_ok());
        for (text, status) in [
            ("ok\n", 1 << 8),
            ("ok\n", 6),
            ("", 0),
            ("nok\n", 0),
            ("ok", 0),
        ] {
            assert!(check_expected(&header(""), &outcome(text, status), false).is_err());
        }
        let killed = header("signal=SIGTERM");
        assert!(check_expected(&killed, &outcome("", 15), false).is_ok());
        assert!(check_expected(&killed, &outcome("", 143 << 8), true).is_ok());
        assert!(check_expected(&killed, &outcome("", 143 << 8), false).is_err());
        let total = header("expect=\"total \"");
        assert!(check_expected(&total, &outcome("a total 3\n", 0), true).is_ok());
        assert!(check_expected(&total, &outcome("ok\n", 0), true).is_err());
    }

    #[test]
    fn free_output_is_not_held_against_the_native_run() {
        let (one, two) = (outcome("1\nok\n", 0), outcome("2\nok\n", 0));
        assert!(check_like_native(&header("output=free"), &one, &two).is_ok());
        let error = check_like_native(&header(""), &one, &two).unwrap_err();
        assert!(
            error.contains("line 1") && error.contains("by hand"),
            "{error}"
        );
        assert!(check_same(&one, &two).is_err());
        assert!(
            check_same(&one, &outcome("1\nok\n", 9))
                .unwrap_err()
                .contains("SIGKILL")
        );
    }
}
