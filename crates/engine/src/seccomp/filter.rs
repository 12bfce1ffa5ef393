//! Filters as data: the programs that a thread has set, and their answer to a call. Must know nothing
//! of tasks.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bpf;

pub(crate) const KILL_PROCESS: u32 = 0x8000_0000;
pub(crate) const KILL_THREAD: u32 = 0;
pub(crate) const TRAP: u32 = 0x0003_0000;
pub(crate) const ERRNO: u32 = 0x0005_0000;
pub(crate) const NOTIFY: u32 = 0x7fc0_0000;
pub(crate) const TRACE: u32 = 0x7ff0_0000;
pub(crate) const LOG: u32 = 0x7ffc_0000;
pub(crate) const ALLOW: u32 = 0x7fff_0000;
pub(crate) const ACTION: u32 = 0xffff_0000;
pub(crate) const VALUE: u32 = 0xffff;
/// The largest errno of the kernel.
pub(crate) const MAX_ERRNO: u32 = 4095;

/// The calls that a confined thread may make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confined {
    /// read, write, exit and rt_sigreturn only.
    Strict,
    /// The calls that all filters allow.
    Filter(Filters),
}

/// A filter and those below it, the newest first. Written as a list, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<FilterProgram>", try_from = "Vec<FilterProgram>")]
pub struct Filters(Arc<Filter>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) program: FilterProgram,
    older: Option<Filters>,
}

/// The program of one filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FilterProgram {
    /// The thread that has set it, as process and thread. Each filter of a thread has more filters below
    /// it than the one before: the setter and that number name a filter in its process.
    pub(crate) setter: (u32, u32),
    pub(crate) insns: Vec<bpf::Insn>,
}

impl From<Filters> for Vec<FilterProgram> {
    fn from(filters: Filters) -> Self {
        let mut all: Self = filters.iter().map(|f| f.program.clone()).collect();
        all.reverse();
        all
    }
}

impl TryFrom<Vec<FilterProgram>> for Filters {
    type Error = &'static str;

    fn try_from(programs: Vec<FilterProgram>) -> std::result::Result<Self, Self::Error> {
        let above = |older, program| Some(Self::with(program, older));
        let newest = programs.into_iter().fold(None, above);
        newest.ok_or("filters without a program")
    }
}

impl Filters {
    pub(crate) fn with(program: FilterProgram, older: Option<Self>) -> Self {
        Self(Arc::new(Filter { program, older }))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Filter> {
        std::iter::successors(Some(&*self.0), |f| Some(&*f.older.as_ref()?.0))
    }

    /// Whether `other` are these, or below them.
    pub(crate) fn are_above(&self, other: &Self) -> bool {
        let newer = self.iter().count().checked_sub(other.iter().count());
        let same_height = newer.and_then(|n| self.iter().nth(n));
        same_height.is_some_and(|f| f.program.setter == other.0.program.setter)
    }

    /// The answer with the strictest action, the newest filter's value winning among equals.
    pub(crate) fn answer(&self, data: &[u8; bpf::DATA]) -> u32 {
        // The kernel compares actions as signed numbers: killing the process is least.
        let action = |answer: u32| (answer & ACTION) as i32;
        self.iter()
            .map(|f| bpf::run(&f.program.insns, data))
            .reduce(|best, next| {
                if action(next) < action(best) {
                    next
                } else {
                    best
                }
            })
            .unwrap_or(ALLOW)
    }
}
