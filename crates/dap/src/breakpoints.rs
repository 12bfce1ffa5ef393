//! The breakpoints of all kinds that gdb has for the client.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// A group of breakpoints that the client replaces together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The lines of a source file, by the client's path.
    Source(String),
    /// Functions.
    Functions,
    /// Addresses.
    Instructions,
    /// Watched memory.
    Data,
}

/// All breakpoints that are set.
#[derive(Debug, Default)]
pub struct Breakpoints {
    pub(crate) groups: BTreeMap<Group, Vec<Kept>>,
    /// gdb's catchpoints, by filter.
    pub(crate) catchpoints: Vec<(&'static str, u32)>,
    /// Signals stop nothing.
    pub(crate) signals_pass: bool,
}

/// A breakpoint of gdb's.
#[derive(Debug)]
pub struct Kept {
    /// The client's request.
    pub wanted: Wanted,
    /// gdb's number for it.
    pub number: u32,
    /// The client's description of it.
    pub shown: Json,
}

/// A breakpoint as the client requests it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The command that sets it, without its options.
    pub command: &'static str,
    /// Its location, in gdb's syntax.
    pub place: String,
    /// Its name for the user.
    pub name: String,
    /// Its condition.
    pub condition: Option<String>,
    /// The first hit that counts.
    pub hit: Option<String>,
    /// The language of the place, if it is not the program's.
    pub language: Option<&'static str>,
}

impl Breakpoints {
    /// The reason for a stop at a breakpoint, and its text for the user.
    pub fn kind(&self, number: Option<u32>) -> (&'static str, &'static str) {
        let caught = self.catchpoints.iter();
        for (filter, catchpoint) in caught {
            if Some(*catchpoint) == number {
                return match *filter {
                    "throw" => ("exception", "Paused on a thrown exception"),
                    _ => ("exception", "Paused on a caught exception"),
                };
            }
        }
        let mut groups = self.groups.iter();
        let group = groups.find(|(_, all)| all.iter().any(|k| Some(k.number) == number));
        match group.map(|g| g.0) {
            Some(Group::Functions) => ("function breakpoint", "Paused on a function"),
            Some(Group::Instructions) => ("instruction breakpoint", "Paused on an instruction"),
            _ => ("breakpoint", "Paused on a breakpoint"),
        }
    }

    /// The user's name of a watchpoint.
    pub fn name_of_watch(&self, number: u32) -> Option<&str> {
        let mut data = self.groups.get(&Group::Data)?.iter();
        data.find(|k| k.number == number)
            .map(|k| k.wanted.name.as_str())
    }
}
