//! Sections of the shared memory. Each belongs to the module that declares it: a type that is all
//! atomics, and a static [`Section`] by which that module finds its own in a mapping. Their places are
//! decided once in a process, when [`crate::sections`] places them all: in the same order in every process
//! of a tree, which all are the same executable. A place must never depend on a word of the memory itself.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shm::Shm;
use crate::shm::layout::Declared;

/// A type that may lie in shared memory.
///
/// # Safety
/// All bytes zero are a value, and each field that changes is atomic, or has one owner at a time by a
/// rule of its own.
pub unsafe trait Shareable: 'static {}

/// A place in the shared memory for one `T`.
pub struct Section<T> {
    offset: AtomicUsize,
    /// Whether each copy of a guided replay has this section to itself.
    own: bool,
    holds: PhantomData<fn() -> T>,
}

impl<T: Shareable> Section<T> {
    /// A section that each copy of a guided replay has to itself.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            offset: AtomicUsize::new(0),
            own: true,
            holds: PhantomData,
        }
    }

    /// A section that all processes always share.
    #[must_use]
    pub const fn common() -> Self {
        Self {
            own: false,
            ..Self::new()
        }
    }

    /// The section in a mapping.
    #[must_use]
    pub fn of<'a>(&self, shm: &'a Shm) -> &'a T {
        let offset = self.offset.load(Ordering::Relaxed);
        assert!(offset != 0, "sections are placed before memory is shared");
        // SAFETY: the mapping, which lives as long as the process, has room for a `T` there, alone and
        // aligned; zeros are one, and it changes as its type allows.
        unsafe { &*shm.at(offset).cast::<T>() }
    }
}

impl<T: Shareable> Default for Section<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Shareable> Declared for Section<T> {
    fn room(&self) -> (usize, usize) {
        (size_of::<T>(), align_of::<T>())
    }

    fn is_own(&self) -> bool {
        self.own
    }

    fn place(&self, offset: usize) {
        self.offset.store(offset, Ordering::Relaxed);
    }
}
