//! The place of a module in its target.

use crate::module::Module;
use crate::target::Target;
use crate::tls;
use crate::unknown::Unknown;

/// A module where it is mapped.
pub(crate) struct Placed {
    pub(crate) module: Module,
    /// The difference of its addresses in the target and in the file.
    pub(crate) bias: u64,
    pub(crate) path: String,
    /// First address and one behind the last of each of its maps.
    pub(crate) ranges: Vec<(u64, u64)>,
}

impl Placed {
    /// The address of the variable at an offset in the module's thread-local block, for the thread
    /// with this pointer.
    ///
    /// # Errors
    /// Why it is not known.
    pub(crate) fn thread_local(
        &self,
        target: &mut dyn Target,
        pointer: Option<u64>,
        offset: u64,
    ) -> Result<u64, Unknown> {
        tls::address(target, self.module.tls.as_ref(), self.bias, pointer, offset)
    }
}
