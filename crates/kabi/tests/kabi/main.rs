//! The crate's tests, as one program.

mod coverage_page;
mod lengths;
mod libc_numbers;
mod table;
