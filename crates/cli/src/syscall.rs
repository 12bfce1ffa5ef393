//! A system call of a recording in one line, according to its row of the table.

use relive_kabi::{Arg, Choice, Row, flags, show_flags};
use relive_trace::Syscall;

use crate::{escape, format};

/// Calls whose result is an address (their manual pages).
const RETURN_ADDRESSES: [&str; 4] = ["brk", "mmap", "mremap", "shmat"];

/// The name of a call; of its request too, where it has one.
pub fn name(call: &Syscall<'_>) -> String {
    let Some(row) = relive_kabi::row(call.nr.into()) else {
        return format!("syscall_{}", call.nr);
    };
    match row.choice(&six(call)) {
        Choice::Listed(sub) => format!("{}:{}", row.name, sub.name),
        Choice::Whole | Choice::Unlisted(_) => row.name.to_owned(),
    }
}

/// The arguments as text, without those that the kernel ignores.
pub fn args(call: &Syscall<'_>) -> Vec<String> {
    let values = call.args.as_slice();
    let Some(row) = relive_kabi::row(call.nr.into()) else {
        return values.iter().map(|value| format!("{value:#x}")).collect();
    };
    let choice = row.choice(&six(call));
    let shown = values
        .iter()
        .enumerate()
        .filter_map(|(i, &value)| arg(call, row, choice, i, value));
    shown.collect()
}

/// The result: a number, an address, or an error's name.
pub fn result(call: &Syscall<'_>) -> String {
    if let Some(name) = errno(call) {
        return format!("{} {name}", call.result);
    }
    let name = relive_kabi::row(call.nr.into()).map_or("", |row| row.name);
    if RETURN_ADDRESSES.contains(&name) {
        format!("{:#x}", call.result)
    } else {
        call.result.to_string()
    }
}

/// The name of the error that the call returned, if it did.
pub fn errno(call: &Syscall<'_>) -> Option<&'static str> {
    let failed = (-4095..0).contains(&call.result);
    failed
        .then(|| relive_kabi::errno_name(call.result as i32))
        .flatten()
}

/// The whole line.
pub fn line(call: &Syscall<'_>) -> String {
    let mut text = format!(
        "{}({}) = {}",
        name(call),
        args(call).join(", "),
        result(call)
    );
    let args = call.args.as_slice();
    for (address, bytes) in call
        .writes
        .iter()
        .filter(|(address, _)| !args.contains(address))
    {
        text.push_str(&format!(" {{{address:#x}: {}}}", content(bytes)));
    }
    if !call.extra.is_empty() {
        text.push_str(&format!(
            " +{}",
            format::count(call.extra.len() as u64, "byte")
        ));
    }
    match (call.stream, call.order) {
        (1, Some(order)) => text.push_str(&format!(" [stdout #{order}]")),
        (2, Some(order)) => text.push_str(&format!(" [stderr #{order}]")),
        (_, Some(order)) => text.push_str(&format!(" [#{order}]")),
        (_, None) => {}
    }
    if call.switched {
        text.push_str(" [switched]");
    }
    text
}

fn six(call: &Syscall<'_>) -> [u64; 6] {
    let mut all = [0; 6];
    let values = call.args.as_slice();
    all[..values.len()].copy_from_slice(values);
    all
}

/// One argument; `None` for one that the kernel ignores.
fn arg(call: &Syscall<'_>, row: &Row, choice: Choice, index: usize, value: u64) -> Option<String> {
    const AT_FDCWD: i32 = -100;
    let low = value as u32;
    Some(match row.argument(index, choice) {
        Arg::Unused => return None,
        Arg::DirFd if low as i32 == AT_FDCWD => "AT_FDCWD".to_owned(),
        Arg::Int | Arg::Fd | Arg::DirFd | Arg::Pid => (low as i32).to_string(),
        Arg::Uint => low.to_string(),
        Arg::Size => value.to_string(),
        Arg::Off => (value as i64).to_string(),
        Arg::Sig => relive_kabi::signal_name(low as i32)
            .map_or_else(|| (low as i32).to_string(), Into::into),
        Arg::Mode => format!("{low:#o}"),
        Arg::Flags => match flags::of_arg(row.nr, index as u8) {
            Some(table) => show_flags(table, value),
            None => format!("{value:#x}"),
        },
        Arg::Hex | Arg::Select => format!("{value:#x}"),
        Arg::Addr
        | Arg::Str
        | Arg::StrVec
        | Arg::Buf { .. }
        | Arg::Iovec { .. }
        | Arg::Msghdr { .. }
        | Arg::Mmsghdr { .. }
        | Arg::TempMask { .. }
        | Arg::TempMaskPair
        | Arg::LengthAndBuffer => pointer(call, value),
    })
}

/// An address, and the bytes that the call wrote there.
fn pointer(call: &Syscall<'_>, address: u64) -> String {
    if address == 0 {
        return "NULL".to_owned();
    }
    match call.writes.iter().find(|(at, _)| *at == address) {
        Some((_, bytes)) => format!("{address:#x} {}", content(bytes)),
        None => format!("{address:#x}"),
    }
}

fn content(bytes: &[u8]) -> String {
    escape::bytes(bytes)
}

#[cfg(test)]
mod tests {
    use relive_trace::{Args, Refs, Writes};

    use super::*;

    fn call<'a>(nr: i64, args: &[u64], result: i64, writes: Writes<'a>) -> Syscall<'a> {
        Syscall {
            nr: nr as u32,
            args: Args::new(args),
            result,
            switched: false,
            order: None,
            stream: 0,
            writes,
            refs: Refs::NONE,
            extra: &[],
        }
    }

    #[test]
    fn lines() {
        let read = [(0x1000, &b"hi\n"[..])];
        let other = [(0x2000, &b"x"[..])];
        for (call, expected) in [
            (
                call(libc::SYS_read, &[3, 0x1000, 10], 3, Writes::new(&read)),
                r#"read(3, 0x1000 "hi\n", 10) = 3"#,
            ),
            (
                call(
                    libc::SYS_openat,
                    &[-100i32 as u32 as u64, 0x10, 0o2102, 0o644],
                    -2,
                    Writes::NONE,
                ),
                "openat(AT_FDCWD, 0x10, O_RDWR|O_CREAT|O_APPEND, 0o644) = -2 ENOENT",
            ),
            (
                call(libc::SYS_kill, &[7, 15], 0, Writes::NONE),
                "kill(7, SIGTERM) = 0",
            ),
            (
                call(libc::SYS_brk, &[0], 0x5000, Writes::NONE),
                "brk(NULL) = 0x5000",
            ),
            (
                call(9999, &[1, 2], -38, Writes::NONE),
                "syscall_9999(0x1, 0x2) = -38 ENOSYS",
            ),
            (
                call(libc::SYS_readv, &[3, 0x1000, 1], 1, Writes::new(&other)),
                r#"readv(3, 0x1000, 1) = 1 {0x2000: "x"}"#,
            ),
        ] {
            assert_eq!(line(&call), expected);
        }
        let fcntl = call(
            libc::SYS_fcntl,
            &[1, libc::F_GETFL as u64, 0],
            2,
            Writes::NONE,
        );
        assert!(
            line(&fcntl).starts_with("fcntl:F_GETFL(1, "),
            "{}",
            line(&fcntl)
        );
    }

    #[test]
    fn every_row_can_be_shown() {
        for row in relive_kabi::TABLE {
            let values = vec![u64::MAX; row.args.len()];
            assert!(line(&call(row.nr.into(), &values, -1, Writes::NONE)).starts_with(row.name));
        }
    }
}
