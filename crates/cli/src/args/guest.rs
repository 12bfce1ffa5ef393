//! The program to run, with its arguments.

use std::ffi::{OsStr, OsString};

use clap::Args;

// The guest program and its own arguments.
#[derive(Debug, Clone, Args)]
pub struct Guest {
    /// The program and its arguments, passed on as they are
    #[arg(
        value_name = "PROGRAM [ARGS]",
        required = true,
        trailing_var_arg = true
    )]
    pub(super) words: Vec<OsString>,
}

impl Guest {
    /// The program as it was given.
    pub fn program(&self) -> &OsStr {
        &self.words[0]
    }

    /// Its arguments.
    pub fn args(&self) -> &[OsString] {
        &self.words[1..]
    }
}
