//! Names of flag bits, for people: open(2), mmap(2), clone(2), futex(2) and a few more. Nothing
//! but printing may depend on these tables; they are not complete and need not be.

mod tables;

use std::fmt::Write;

pub use tables::*;

/// Spells a value: names joined by `|`, bits without a name in hexadecimal, `0` for nothing.
///
/// ```
/// use relive_kabi::{flags, show_flags};
/// assert_eq!(show_flags(&flags::OPEN, 0o2102), "O_RDWR|O_CREAT|O_APPEND");
/// ```
pub fn show_flags(table: &FlagTable, value: u64) -> String {
    let mut text = String::new();
    let mut rest = value;
    if table.field != 0 {
        let choice = value & table.field;
        if let Some(&(_, name)) = table.choices.iter().find(|&&(number, _)| number == choice) {
            text.push_str(name);
            rest &= !table.field;
        }
    }
    for &(bits, name) in table.bits {
        if rest & bits == bits {
            let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { "|" });
            rest &= !bits;
        }
    }
    if rest != 0 {
        let _ = write!(text, "{}{rest:#x}", if text.is_empty() { "" } else { "|" });
    }
    if text.is_empty() {
        "0".to_owned()
    } else {
        text
    }
}

/// The table for an argument of a system call, if it has one.
pub fn of_arg(nr: u16, index: u8) -> Option<&'static FlagTable> {
    ARGUMENTS
        .iter()
        .find(|at| at.0 == nr && at.1 == index)
        .map(|at| at.2)
}

/// Number, argument, table.
const ARGUMENTS: &[(u16, u8, &FlagTable)] = &[
    (2, 1, &OPEN),
    (9, 2, &PROT),
    (9, 3, &MAP),
    (10, 2, &PROT),
    (25, 3, &MREMAP),
    (28, 2, &MADVISE),
    (44, 3, &MSG),
    (45, 3, &MSG),
    (46, 2, &MSG),
    (47, 2, &MSG),
    (56, 0, &CLONE),
    (61, 2, &WAIT),
    (202, 1, &FUTEX),
    (247, 3, &WAIT),
    (257, 2, &OPEN),
    (262, 3, &AT),
    (263, 2, &AT_UNLINK),
    (265, 4, &AT),
    (280, 3, &AT),
    (288, 3, &OPEN_NEW),
    (290, 1, &OPEN_NEW),
    (291, 0, &OPEN_NEW),
    (292, 2, &OPEN_NEW),
    (293, 1, &OPEN_NEW),
    (299, 3, &MSG),
    (307, 3, &MSG),
    (332, 2, &AT),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;
    use proptest::prelude::*;

    #[test]
    fn every_argument_with_names_exists() {
        for &(nr, index, table) in ARGUMENTS {
            let row = row(u64::from(nr)).expect("a row");
            assert!(
                usize::from(index) < row.args.len(),
                "{} has no argument {index}",
                row.name
            );
            assert_eq!(
                of_arg(nr, index),
                Some(table),
                "{} is listed twice",
                row.name
            );
        }
        assert_eq!(of_arg(0, 0), None);
    }

    #[test]
    fn fields_bits_and_the_rest_are_spelt() {
        assert_eq!(show_flags(&PROT, 0), "PROT_NONE");
        assert_eq!(show_flags(&PROT, 5), "PROT_READ|PROT_EXEC");
        assert_eq!(show_flags(&MAP, 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(
            show_flags(&FUTEX, 0x189),
            "FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG|FUTEX_CLOCK_REALTIME"
        );
        assert_eq!(show_flags(&MADVISE, 99), "0x63");
        assert_eq!(show_flags(&AT, 0), "0");
        assert_eq!(
            show_flags(&OPEN, libc::O_TMPFILE as u64 | 2),
            "O_RDWR|O_TMPFILE"
        );
        assert_eq!(show_flags(&OPEN, libc::O_SYNC as u64 | 3), "O_SYNC|0x3");
    }

    #[test]
    fn names_agree_with_the_c_library() {
        for (table, bit, name) in [
            (OPEN, libc::O_CREAT, "O_CREAT"),
            (OPEN, libc::O_DIRECT, "O_DIRECT"),
            (OPEN, libc::O_CLOEXEC, "O_CLOEXEC"),
            (OPEN, libc::O_PATH, "O_PATH"),
            (MAP, libc::MAP_NORESERVE, "MAP_NORESERVE"),
            (MAP, libc::MAP_STACK, "MAP_STACK"),
            (MAP, libc::MAP_FIXED_NOREPLACE, "MAP_FIXED_NOREPLACE"),
            (CLONE, libc::CLONE_SETTLS, "CLONE_SETTLS"),
            (CLONE, libc::CLONE_CHILD_CLEARTID, "CLONE_CHILD_CLEARTID"),
            (MSG, libc::MSG_NOSIGNAL, "MSG_NOSIGNAL"),
            (MSG, libc::MSG_CMSG_CLOEXEC, "MSG_CMSG_CLOEXEC"),
            (AT, libc::AT_EMPTY_PATH, "AT_EMPTY_PATH"),
            (WAIT, libc::WEXITED, "WEXITED"),
        ] {
            assert!(table.bits.contains(&(bit as u32 as u64, name)), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_bit_is_lost(value: u64) {
            for &(_, _, table) in ARGUMENTS {
                let mut spelt = 0;
                for word in show_flags(table, value).split('|') {
                    let known = table.choices.iter().chain(table.bits).find(|at| at.1 == word);
                    spelt |= match (known, word.strip_prefix("0x")) {
                        (Some(&(bits, _)), _) => bits,
                        (None, Some(hex)) => u64::from_str_radix(hex, 16).expect("hexadecimal"),
                        (None, None) => word.parse().expect("zero"),
                    };
                }
                prop_assert_eq!(spelt, value);
            }
        }
    }
}
