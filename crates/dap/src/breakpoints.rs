//! The breakpoints of all kinds that gdb has for the client.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// What belongs together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The lines of a source file, as the client calls it.
    Source(String),
    /// Functions.
    Functions,
    /// Addresses.
    Instructions,
    /// Watched memory.
    Data,
}

/// All that are set.
#[derive(Debug, Default)]
pub struct Breakpoints {
    pub(crate) groups: BTreeMap<Group, Vec<Kept>>,
    /// gdb's catchpoints, by filter.
    pub(crate) catchpoints: Vec<(&'static str, u32)>,
    /// Signals stop nothing.
    pub(crate) signals_pass: bool,
}

/// One that gdb has.
#[derive(Debug)]
pub struct Kept {
    /// What the client wants.
    pub wanted: Wanted,
    /// gdb's number for it.
    pub number: u32,
    /// As the client knows it.
    pub shown: Json,
}

/// One as the client wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The command that sets it, but for its options.
    pub command: &'static str,
    /// Where, in words of gdb's.
    pub place: String,
    /// What the person calls it.
    pub name: String,
    /// When it counts.
    pub condition: Option<String>,
    /// Which time it counts for the first time.
    pub hit: Option<String>,
    /// The language of the place, if it is not the program's.
    pub language: Option<&'static str>,
}

impl Breakpoints {
    /// The reason for a stop at a breakpoint, and what the person reads.
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

    /// What the person calls a watchpoint.
    pub fn name_of_watch(&self, number: u32) -> Option<&str> {
        let mut data = self.groups.get(&Group::Data)?.iter();
        data.find(|k| k.number == number)
            .map(|k| k.wanted.name.as_str())
    }
}
