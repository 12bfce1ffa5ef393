//! `docs/cli.md` is the output of `--help`. `RELIVE_BLESS=1` writes it anew.

use std::fmt::Write;
use std::path::Path;

use crate::sandbox::{Sandbox, finish};

const COMMANDS: [&str; 22] = [
    "record",
    "replay",
    "verify",
    "hunt",
    "explore",
    "run",
    "debug",
    "dap",
    "backtrace",
    "last-write",
    "races",
    "calls",
    "index",
    "keep",
    "split",
    "pack",
    "unpack",
    "ls",
    "info",
    "dump",
    "rpc",
    "demo",
];

/// Commands of commands.
const NESTED: [&[&str]; 5] = [
    &["rpc", "ls"],
    &["rpc", "info"],
    &["rpc", "dump"],
    &["rpc", "diff"],
    &["rpc", "causality"],
];

const INTRODUCTION: &str = "\
# The command line

This page is what `relive --help` and `relive COMMAND --help` say. A test compares them;
`RELIVE_BLESS=1 cargo test --release -p relive cli_page` writes the page anew.

## When Relive itself cannot go on

It ends with status 125, and the last thing on standard error begins with `relive: `. Where
the reason is in the program, the recording or Relive itself, a code says which:

| code | class | what it means |
| --- | --- | --- |
| `[RL1]` | unsupported | the program does something that Relive does not support |
| `[RL2]` | divergence | the replay wants to do something that the recording does not say; both sides are shown |
| `[RL3]` | internal error | a fault of Relive: please report it with the trace |
| none | surroundings | no such program, no space, no permission, a damaged trace or one without its end |

[limits.md](limits.md) has more on each. A program may end with status 125 itself: then no line
of Relive's stands on standard error.
";

#[test]
fn the_page_is_what_help_says() {
    let sandbox = Sandbox::new();
    let help = |words: &[&str]| {
        let mut command = sandbox.command(words);
        // The width of the caller's terminal must not matter.
        command.env_remove("COLUMNS");
        let text = finish(command).ok().stdout;
        text.lines()
            .fold(String::new(), |page, line| page + line.trim_end() + "\n")
    };
    let mut page = INTRODUCTION.to_owned();
    let _ = write!(page, "\n## relive\n\n```text\n{}```\n", help(&["--help"]));
    for command in COMMANDS {
        let nested = NESTED.iter().filter(|words| words[0] == command);
        for words in [&[command][..]].into_iter().chain(nested.copied()) {
            let _ = write!(
                page,
                "\n## relive {}\n\n```text\n{}```\n",
                words.join(" "),
                help(&[words, &["--help"]].concat())
            );
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("RELIVE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/cli.md is not what --help says: run this test with RELIVE_BLESS=1 and look at the difference"
    );
}

#[test]
fn the_page_has_every_command() {
    let help = Sandbox::new().relive(&["--help"]).ok().stdout;
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let names: Vec<&str> = listed
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, COMMANDS);
}
