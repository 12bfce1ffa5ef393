//! Where the parts of the shared memory lie: the same in every process of a tree.

use std::sync::OnceLock;

use super::ring::{RING_BYTES, RINGS};

/// A section of the memory, of any type: [`crate::section`].
pub trait Declared: Sync {
    /// Size and alignment in bytes.
    fn room(&self) -> (usize, usize);
    /// Whether a guided replay has it for itself.
    fn is_own(&self) -> bool;
    /// It lies there from now on.
    fn place(&self, offset: usize);
}

/// Where the parts of the memory lie behind the header and the sections that a guided replay has for
/// itself: the rings' data, the other sections, the end.
#[derive(Debug)]
pub struct Layout {
    /// Where the data of rings begin.
    pub data: usize,
    /// The end.
    pub size: usize,
}

/// The places of all sections. Process-wide: they are those of the executable, the same in all processes of
/// a tree.
static LAYOUT: OnceLock<Layout> = OnceLock::new();

const PAGE: usize = 4096;

/// Decides where all sections lie, behind a header of so many bytes. Once in a process, before memory
/// is shared.
pub fn place(header: usize, sections: &[&dyn Declared]) {
    let mut end = header;
    let put = |end: &mut usize, own: bool| {
        for section in sections.iter().filter(|s| s.is_own() == own) {
            let (size, align) = section.room();
            *end = end.next_multiple_of(align);
            section.place(*end);
            *end += size;
        }
    };
    put(&mut end, true);
    let data = end.next_multiple_of(PAGE);
    end = data + RINGS * RING_BYTES as usize;
    put(&mut end, false);
    let size = end.next_multiple_of(PAGE);
    LAYOUT
        .set(Layout { data, size })
        .expect("sections are placed once");
}

/// The layout that [`place`] has chosen.
pub fn layout() -> &'static Layout {
    LAYOUT
        .get()
        .expect("sections are placed before memory is shared")
}
