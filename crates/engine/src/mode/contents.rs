//! The content of guest memory that calls bring there.

use crate::failure::Result;
use crate::memory::content::{Content, ContentRequest, KeptContent};

/// The source of content.
pub trait Contents {
    /// The content of a map that is about to be made.
    ///
    /// # Errors
    /// It cannot be opened or read.
    fn content(&self, wanted: ContentRequest<'_>) -> Result<Content>;

    /// A shared map of the file `file` (an identity) is about to show a further part of it. Its content
    /// is `shown`, if the trace has it.
    ///
    /// # Errors
    /// There is no memory for it.
    fn shows_file(
        &self,
        _file: u64,
        _shown: Option<&KeptContent>,
        _part: (u64, u64),
    ) -> Result<()> {
        Ok(())
    }

    /// The engine is about to write guest memory.
    fn wrote(&self, _addr: u64, _len: u64) {}
}
