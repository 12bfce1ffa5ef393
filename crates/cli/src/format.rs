//! Numbers, sizes, times and tables for people.

use std::io::{self, Write};
use std::time::Duration;

use relive_engine::supervisor::EndStatus;
use relive_trace::ExitStatus;

/// `1 event`, `12 345 events`.
pub fn count(n: u64, what: &str) -> String {
    let plural = match (n, what) {
        (1, _) => what.to_owned(),
        (_, "process") => "processes".to_owned(),
        _ => format!("{what}s"),
    };
    format!("{} {plural}", number(n))
}

/// Digits in groups of three.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Bytes, in the largest unit that leaves a number of at least 1.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A time to about three digits.
pub fn duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        s @ 60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// The age of a moment.
pub fn age(seconds: u64) -> String {
    let (n, unit) = match seconds {
        0..60 => (seconds, "s"),
        60..3600 => (seconds / 60, "min"),
        3600..86400 => (seconds / 3600, "h"),
        _ => (seconds / 86400, "d"),
    };
    format!("{n} {unit} ago")
}

/// How a program ended.
pub fn status(status: EndStatus) -> String {
    match status {
        EndStatus::Code(code) => format!("exit status {code}"),
        EndStatus::Signal(signal) => format!("killed by {}", self::signal(signal)),
    }
}

/// The engine's type for the trace's exit status.
pub fn ended(exit: ExitStatus) -> EndStatus {
    match exit {
        ExitStatus::Code(code) => EndStatus::Code(code),
        ExitStatus::Signal(signal) => EndStatus::Signal(signal),
    }
}

/// A signal by name, or by number where it has none.
pub fn signal(signal: i32) -> String {
    relive_kabi::signal_name(signal).map_or_else(|| format!("signal {signal}"), Into::into)
}

/// Rows in columns, each as wide as its widest cell; those of `right` lean to the right.
///
/// # Errors
/// When writing fails.
pub fn table(out: &mut dyn Write, right: &[usize], rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[i] - cell.chars().count());
            let gap = if i == 0 { "" } else { "  " };
            let cell = if right.contains(&i) {
                format!("{padding}{cell}")
            } else {
                format!("{cell}{padding}")
            };
            line.push_str(gap);
            line.push_str(&cell);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_234_567), "1 234 567");
        assert_eq!(count(1, "process"), "1 process");
        assert_eq!(count(1000, "event"), "1 000 events");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(duration(Duration::from_millis(12)), "12 ms");
        assert_eq!(duration(Duration::from_millis(61_000)), "1 min 01 s");
        assert_eq!(age(7300), "2 h ago");
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".into(), "1".into(), "x".into()],
            vec!["bbb".into(), "22".into()],
        ];
        let mut out = Vec::new();
        table(&mut out, &[1], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a     1  x\nbbb  22\n");
    }
}
