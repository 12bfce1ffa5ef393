//! The heap of every `relive` process: the C library's, and a sentence where it has no memory any more.
//! Rust's own answer is SIGABRT, which would look like a fault of Relive.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::failure::die_without_memory;

/// The allocator; a program that uses this crate names it as its global one.
pub struct Heap;

fn some(p: *mut u8) -> *mut u8 {
    if p.is_null() {
        die_without_memory();
    }
    p
}

// SAFETY: all is done by the system's allocator; where that fails, the process ends.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the rules of this very function.
        some(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(p, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        some(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        some(unsafe { System.realloc(p, layout, size) })
    }
}
