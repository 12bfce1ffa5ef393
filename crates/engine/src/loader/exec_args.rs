//! The arguments of exec.

use std::fs::File;

/// The program to load.
pub struct Program {
    /// The executable, opened.
    pub file: File,
    /// The name that the program was called by (`AT_EXECFN`).
    pub called: Vec<u8>,
    /// Its canonical path (`/proc/self/exe`).
    pub path: Vec<u8>,
    /// Arguments.
    pub argv: Vec<Vec<u8>>,
    /// Environment.
    pub env: Vec<Vec<u8>>,
}
