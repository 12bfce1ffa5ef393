//! Signal names and numbers of x86-64 Linux (`signal(7)`), for headers and messages.

const NAMES: [(&str, i32); 31] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGSTKFLT", 16),
    ("SIGCHLD", 17),
    ("SIGCONT", 18),
    ("SIGSTOP", 19),
    ("SIGTSTP", 20),
    ("SIGTTIN", 21),
    ("SIGTTOU", 22),
    ("SIGURG", 23),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGVTALRM", 26),
    ("SIGPROF", 27),
    ("SIGWINCH", 28),
    ("SIGIO", 29),
    ("SIGPWR", 30),
    ("SIGSYS", 31),
];

/// The number of a signal by its name with `SIG`, or `None`.
pub fn number(name: &str) -> Option<i32> {
    NAMES.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// The name of a signal, or its number in words for a real-time signal.
pub fn name(number: i32) -> String {
    let row = NAMES.iter().find(|row| row.1 == number);
    row.map_or_else(|| format!("signal {number}"), |row| row.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for (at, row) in NAMES.iter().enumerate() {
            assert_eq!(row.1, at as i32 + 1);
            assert_eq!(number(&name(row.1)), Some(row.1));
        }
        assert_eq!(number("SEGV"), None);
    }
}
