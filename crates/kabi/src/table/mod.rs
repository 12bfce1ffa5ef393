//! The table: every row of every family, merged, sorted and checked while compiling. The families
//! are only for the reader; all other code uses [`TABLE`].

mod admin;
mod event;
mod file;
mod io;
mod ipc;
mod memory;
mod meta;
mod net;
mod process;
mod sched;
mod signal;
mod time;

use crate::check;
use crate::row::Row;
use crate::sub_table::SubTable;

const FAMILIES: [&[Row]; 12] = [
    admin::ROWS,
    event::ROWS,
    file::ROWS,
    io::ROWS,
    ipc::ROWS,
    memory::ROWS,
    meta::ROWS,
    net::ROWS,
    process::ROWS,
    sched::ROWS,
    signal::ROWS,
    time::ROWS,
];

/// One more than the highest number that the index has room for.
const NUMBERS: usize = 512;

/// The index entry of a number without a row.
const NO_ROW: u16 = u16::MAX;

const COUNT: usize = {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

static SORTED: [Row; COUNT] = {
    let mut rows = [FAMILIES[0][0]; COUNT];
    let (mut filled, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut at = 0;
        while at < FAMILIES[family].len() {
            // Insertion sort: the families are nearly sorted and the compiler has the time.
            let row = FAMILIES[family][at];
            let mut hole = filled;
            while hole > 0 && rows[hole - 1].nr > row.nr {
                rows[hole] = rows[hole - 1];
                hole -= 1;
            }
            rows[hole] = row;
            filled += 1;
            at += 1;
        }
        family += 1;
    }
    rows
};

static INDEX: [u16; NUMBERS] = {
    let mut index = [NO_ROW; NUMBERS];
    let mut at = 0;
    while at < COUNT {
        index[SORTED[at].nr as usize] = at as u16;
        at += 1;
    }
    index
};

/// Every x86-64 system call, sorted by number, each number once.
pub const TABLE: &[Row] = &SORTED;

/// The row of a system call number, or None for a number that Linux 6.12 does not define.
/// The engine answers ENOSYS to those. Takes the whole register: 2^32 + 1 is not `write`.
pub fn row(nr: u64) -> Option<&'static Row> {
    let at = *INDEX.get(usize::try_from(nr).ok()?)?;
    SORTED.get(usize::from(at))
}

const _: () = {
    assert!(check::sorted(&SORTED), "two rows have the same number");
    check::numbers_of_linux_6_12(&SORTED);
    let mut at = 0;
    while at < COUNT {
        check::row(&SORTED[at]);
        at += 1;
    }
    let mut table = 0;
    while table < SubTable::ALL.len() {
        check::sub_table(SubTable::ALL[table].rows());
        table += 1;
    }
};
