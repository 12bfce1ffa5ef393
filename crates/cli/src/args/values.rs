//! Values of options that are more than a word: read from text, with an error that shows how to
//! write them.

use std::time::Duration;

use relive_engine::supervisor::FlightWindow;
use relive_kabi::signal_name;

/// A guest address, in hexadecimal with 0x.
#[derive(Debug, Clone, Copy)]
pub struct GuestAddress(pub u64);

impl std::str::FromStr for GuestAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x");
        let parsed = match digits {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        parsed
            .map(Self)
            .ok_or_else(|| format!("'{text}' is no address: write it as 0x401000"))
    }
}

/// A function by name or address.
#[derive(Debug, Clone)]
pub enum Function {
    /// Its first instruction.
    Address(u64),
    /// As the linker has it, or demangled.
    Name(String),
}

impl std::str::FromStr for Function {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // No name begins with a digit.
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return text.parse().map(|GuestAddress(at)| Self::Address(at));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

/// Reads a number of bytes: a number with or without a unit.
pub(super) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 5] = [("", 0), ("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let wrong = || format!("'{text}' is no size: write it as 500KiB, 200MiB or 1GiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = UNITS
        .iter()
        .find(|(unit, _)| *unit == &text[digits.len()..]);
    let (_, bits) = unit.ok_or_else(wrong)?;
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << bits).ok_or_else(wrong)
}

/// Reads a time: a number with or without a unit, seconds without.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let wrong = || format!("'{text}' is no time: write it as 500ms, 10s, 5m or 1h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1.0,
        name => {
            UNITS
                .iter()
                .find(|(unit, _)| *unit == name)
                .ok_or_else(wrong)?
                .1
        }
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

/// Reads the window of a flight recording: a time, or a size with its unit.
pub(super) fn window(text: &str) -> Result<FlightWindow, String> {
    let found = match text.ends_with('B') {
        true => size(text).ok().map(FlightWindow::Bytes),
        false => duration(text).ok().map(FlightWindow::Time),
    };
    found.ok_or_else(|| {
        format!("'{text}' is neither a time nor a size: write it as 500ms, 30s, 5m, or as 200MiB")
    })
}

/// A signal that the recorder takes for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepingSignal(pub i32);

/// Reads one: of all signals, those of which the recorder has no other use.
pub(super) fn keeping_signal(text: &str) -> Result<KeepingSignal, String> {
    let free = [
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGWINCH,
        libc::SIGIO,
        libc::SIGURG,
    ];
    let is = |signal: &i32| {
        let name = signal_name(*signal).unwrap_or_default();
        name == text || name.strip_prefix("SIG") == Some(text) || signal.to_string() == text
    };
    let found = free.into_iter().find(is).map(KeepingSignal);
    found.ok_or_else(|| {
        format!("'{text}' is no signal for it: take USR1, USR2, ALRM, WINCH, IO or URG")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_signals() {
        assert_eq!(window("2MiB"), Ok(FlightWindow::Bytes(2 << 20)));
        assert_eq!(
            window("2m"),
            Ok(FlightWindow::Time(Duration::from_secs(120)))
        );
        assert!(window("2MB").is_err() && window("x").is_err() && window("B").is_err());
        for text in ["USR2", "SIGUSR2", "12"] {
            assert_eq!(keeping_signal(text), Ok(KeepingSignal(libc::SIGUSR2)));
        }
        for text in ["TERM", "9", "CHLD", "0", "USR3"] {
            assert!(keeping_signal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, ms) in [
            ("0", 0),
            ("2", 2000),
            ("0.5", 500),
            ("250ms", 250),
            ("3s", 3000),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1", "1d", "1 s", "nan", "inf", "1e400", "é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
