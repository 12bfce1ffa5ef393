//! The variables of one module that have a permanent place, by address. It knows no frame.

use crate::types::Type;

/// A variable.
pub(crate) struct Global {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
    pub(crate) of: Type,
}

/// The variables of a module, in order of addresses.
#[derive(Default)]
pub(crate) struct Globals(Vec<Global>);

impl Globals {
    pub(crate) fn new(mut all: Vec<Global>) -> Self {
        all.sort_by_key(|global| global.start);
        Self(all)
    }

    /// The variable at an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Global> {
        let behind = self.0.partition_point(|global| global.start <= address);
        let last = self.0.get(behind.checked_sub(1)?)?;
        (address < last.end).then_some(last)
    }
}
