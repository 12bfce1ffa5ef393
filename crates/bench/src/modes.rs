//! The ways in which a workload is run: natively, by Relive, by other tools.

use std::ffi::OsString;
use std::path::Path;

use relive_tests::needs::find_tool;
use serde::Serialize;

/// One way to run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// As the program is.
    Native,
    /// `relive run`.
    Run,
    /// `relive record`.
    Record,
    /// `relive record --mode sketch`: threads on all cores.
    Sketch,
    /// `relive record --mode coherence`: the same, with all accesses to memory in order.
    Coherence,
    /// `relive record --mode uniparallel`: each epoch is run again meanwhile.
    Uniparallel,
    /// `relive replay` of the serial recording.
    Replay,
    /// qemu-user, another translator.
    Qemu,
    /// valgrind without a tool, another translator.
    Valgrind,
}

impl Way {
    /// The ways of Relive.
    pub const OWN: [Self; 3] = [Self::Run, Self::Record, Self::Replay];
    /// The ways to record threads on all cores.
    pub const ON_ALL_CORES: [Self; 3] = [Self::Sketch, Self::Coherence, Self::Uniparallel];
    /// Other tools.
    pub const PEERS: [Self; 2] = [Self::Qemu, Self::Valgrind];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Run => "run",
            Self::Record => "record",
            Self::Sketch => "sketch",
            Self::Coherence => "coherence",
            Self::Uniparallel => "uniparallel",
            Self::Replay => "replay",
            Self::Qemu => "qemu-user",
            Self::Valgrind => "valgrind --tool=none",
        }
    }

    /// Words in front of the command, or all of them for a replay. `None` if the tool is not
    /// installed.
    fn prefix(self, relive: &Path, trace: &Path) -> Option<Vec<OsString>> {
        let words = |all: &[&dyn AsRef<std::ffi::OsStr>]| {
            Some(all.iter().map(|word| word.as_ref().to_owned()).collect())
        };
        match self {
            Self::Native => words(&[]),
            Self::Run => words(&[&relive, &"run", &"--"]),
            Self::Record => words(&[&relive, &"record", &"-o", &trace, &"--"]),
            Self::Sketch | Self::Coherence | Self::Uniparallel => words(&[
                &relive,
                &"record",
                &"--mode",
                &self.name(),
                &"-o",
                &trace,
                &"--",
            ]),
            Self::Replay => words(&[&relive, &"replay", &trace]),
            Self::Qemu => words(&[&find_tool("qemu-x86_64")?]),
            Self::Valgrind => words(&[&find_tool("valgrind")?, &"-q", &"--tool=none"]),
        }
    }

    /// The command line for a command; `None` if a tool for it is not installed.
    pub fn command(
        self,
        relive: &Path,
        trace: &Path,
        command: &[OsString],
    ) -> Option<Vec<OsString>> {
        let mut all = self.prefix(relive, trace)?;
        if self != Self::Replay {
            all.extend_from_slice(command);
        }
        Some(all)
    }
}
