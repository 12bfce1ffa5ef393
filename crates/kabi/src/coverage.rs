//! The page of the documentation about support of system calls, generated from the tables.

use std::fmt::Write;

use crate::columns::{At, Blocks, Changes, FdEffect, Replay};
use crate::errno::errno_name;
use crate::row::Row;
use crate::sub::Sub;
use crate::sub_table::SubTable;
use crate::table::TABLE;

const INTRODUCTION: &str = "\
# System calls

<!-- Generated from the tables in crates/kabi. Do not edit: see the end of the page. -->

How Relive treats each system call of x86-64 Linux. A number that is not listed fails with
`ENOSYS`.

| in replay | meaning |
| --- | --- |
| apply | the result and every byte that the kernel wrote into the program's memory come from the recording; nothing is really done |
| redo | really done again, in the program's own memory map, and compared with the recording |
| hook | code of its own, in recording and in replay |
| an errno | not supported: the call fails with this error when recorded, which is said once |

A call that *may block* gives up the processor to the other threads of the program first.

";

const END: &str = "
---

This page is generated: `RELIVE_BLESS=1 cargo test -p relive-kabi` writes it anew.
";

/// The Markdown text of `docs/syscalls.md`.
pub fn coverage_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    summary(&mut page);
    effects(&mut page);
    heading(&mut page, "number", "system call");
    for row in TABLE {
        let note = match row.sub {
            SubTable::None => row.note.to_owned(),
            sub => format!("by {}: see [below](#{})", key_name(sub), anchor(sub)),
        };
        line(
            &mut page,
            &row.nr.to_string(),
            row.name,
            row.replay,
            row.blocks,
            &note,
        );
    }
    for table in SubTable::ALL {
        sub_table(&mut page, table);
    }
    page.push_str(END);
    page
}

fn summary(page: &mut String) {
    let count = |wanted: fn(&Row) -> bool| TABLE.iter().filter(|row| wanted(row)).count();
    let refused = count(|row| row.replay.refused().is_some());
    let hooks = count(|row| row.replay == Replay::Hook);
    let _ = writeln!(
        page,
        "{} calls: {} supported, {} of them with a hook, and {refused} refused.\n",
        TABLE.len(),
        TABLE.len() - refused,
        hooks,
    );
}

/// Effects of calls outside of the program, as far as they concern a replay.
fn effects(page: &mut String) {
    let changes = |row: &Row| {
        let writes = row.output.bytes().is_some_and(|end| end.at != At::Stream);
        let opens = matches!(row.fds, FdEffect::Opens(_));
        writes || opens || row.changes != Changes::Nothing || changing_requests(row).count() > 0
    };
    let _ = writeln!(
        page,
        "What these calls write to standard output or error, through whatever descriptor, a replay \
         writes again: {}.\n\nWhat these change in a file that a program of the recording has mapped \
         shared is recorded with them: {}.\n",
        names(|row| row.output.bytes().is_some()),
        names(changes),
    );
}

fn changing_requests(row: &Row) -> impl Iterator<Item = &'static Sub> {
    let rows = row.sub.rows().iter();
    rows.filter(|sub| sub.changes != Changes::Nothing)
}

/// The names of the wanted calls, with their requests that change files.
fn names(wanted: impl Fn(&Row) -> bool) -> String {
    let rows = TABLE.iter().filter(|row| wanted(row));
    let names = rows.map(|row| {
        let requests: Vec<_> = changing_requests(row)
            .map(|sub| format!("`{}`", sub.name))
            .collect();
        match requests.is_empty() {
            true => format!("`{}`", row.name),
            false => format!("`{}` ({})", row.name, requests.join(", ")),
        }
    });
    names.collect::<Vec<_>>().join(", ")
}

fn sub_table(page: &mut String, table: SubTable) {
    let rows = table.rows();
    let _ = write!(
        page,
        "\n## {}\n\nBy {}; one that is not listed fails with `{}`.\n\n",
        anchor(table),
        key_name(table),
        errno_text(table.unlisted()),
    );
    heading(page, key_name(table), "name");
    for sub in rows {
        line(
            page,
            &key_text(table, sub),
            sub.name,
            sub.replay,
            sub.blocks,
            sub.note,
        );
    }
}

fn heading(page: &mut String, number: &str, name: &str) {
    let _ = writeln!(page, "| {number} | {name} | in replay | may block | note |");
    let _ = writeln!(page, "| ---: | --- | --- | --- | --- |");
}

fn line(page: &mut String, number: &str, name: &str, replay: Replay, blocks: Blocks, note: &str) {
    let replay = match replay {
        Replay::Apply => "apply".to_owned(),
        Replay::Redo => "redo".to_owned(),
        Replay::Hook => "hook".to_owned(),
        Replay::Enosys => "`ENOSYS`".to_owned(),
        Replay::Errno(errno) => format!("`{}`", errno_text(errno)),
    };
    let blocks = if blocks == Blocks::Maybe { "yes" } else { "" };
    let _ = writeln!(
        page,
        "| {number} | `{name}` | {replay} | {blocks} | {note} |"
    );
}

fn errno_text(errno: i32) -> String {
    errno_name(errno).map_or_else(|| errno.to_string(), str::to_owned)
}

const fn anchor(table: SubTable) -> &'static str {
    match table {
        SubTable::None => "",
        SubTable::Ioctl => "ioctl",
        SubTable::Fcntl => "fcntl",
        SubTable::Prctl => "prctl",
        SubTable::Sockopt => "getsockopt-and-setsockopt",
        SubTable::Shmctl => "shmctl",
        SubTable::Semctl => "semctl",
        SubTable::Msgctl => "msgctl",
        SubTable::Keyctl => "keyctl",
        SubTable::Quotactl => "quotactl",
        SubTable::QuotactlFd => "quotactl_fd",
        SubTable::Sysfs => "sysfs",
    }
}

const fn key_name(table: SubTable) -> &'static str {
    match table {
        SubTable::None => "",
        SubTable::Ioctl => "request",
        SubTable::Prctl | SubTable::Keyctl => "operation",
        SubTable::Sockopt => "level and option",
        SubTable::Fcntl
        | SubTable::Shmctl
        | SubTable::Semctl
        | SubTable::Msgctl
        | SubTable::Quotactl
        | SubTable::QuotactlFd => "command",
        SubTable::Sysfs => "option",
    }
}

fn key_text(table: SubTable, sub: &Sub) -> String {
    match table {
        SubTable::Ioctl => format!("{:#x}", sub.key),
        SubTable::Sockopt => format!("{}, {}", sub.key >> 32, sub.key as u32),
        _ if sub.key > 0xffff => format!("{:#x}", sub.key),
        _ => sub.key.to_string(),
    }
}
