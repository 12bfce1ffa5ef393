//! Where a recording goes, and which one is meant.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use relive_engine::Failure;
use relive_engine::timeline::{Patient, Timeline, crashes, processes};
use relive_gdb::At;
use relive_kabi::signal_name;
use relive_trace::{ExitStatus, Trace};

use crate::{info, output, packed};

/// The folder of a recording that is about to begin.
pub struct Place {
    path: PathBuf,
    numbered: Option<Numbered>,
}

/// A folder that was made here, and may be removed here.
struct Numbered {
    base: PathBuf,
    latest_before: Option<PathBuf>,
}

impl Place {
    /// The folder that the user named; the one it lies in is made if need be.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn named(path: &Path) -> Result<Self, Failure> {
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            std::fs::create_dir_all(above).map_err(|error| {
                Failure::setup(format!(
                    "{} cannot be made ({error}): name a folder that can be written",
                    above.display()
                ))
            })?;
        }
        Ok(Self {
            path: path.to_owned(),
            numbered: None,
        })
    }

    /// A new numbered folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn numbered(program: &OsStr) -> Result<Self, Failure> {
        let base = relive_trace::default_dir().map_err(Failure::setup)?;
        let path = relive_trace::new_numbered(&base, program).map_err(Failure::setup)?;
        let latest_before = std::fs::read_link(base.join("latest")).ok();
        Ok(Self {
            path,
            numbered: Some(Numbered {
                base,
                latest_before,
            }),
        })
    }

    /// Lets `latest` lead here, if this is a numbered one. Best done before the recording
    /// begins, so that the next command finds it even if the recorder is killed.
    ///
    /// # Errors
    /// The link cannot be made.
    pub fn make_latest(&self) -> Result<(), Failure> {
        let made = self
            .numbered
            .as_ref()
            .map(|n| relive_trace::set_latest(&n.base, &self.path));
        made.unwrap_or(Ok(())).map_err(Failure::setup)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to type for this trace in the next command.
    pub fn name(&self) -> String {
        let short = self
            .numbered
            .as_ref()
            .and_then(|n| self.path.strip_prefix(&n.base).ok());
        short.unwrap_or(&self.path).display().to_string()
    }

    /// Whether it has a number of its own in the folder for recordings.
    pub fn is_numbered(&self) -> bool {
        self.numbered.is_some()
    }

    /// Takes a recording back that did not even begin: what was recorded stays.
    pub fn withdraw(self) {
        if self.numbered.is_some() && std::fs::remove_dir(&self.path).is_ok() {
            self.restore_latest();
        }
    }

    /// Removes a recording that nobody wants, if its folder was made here.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(self) -> Result<(), Failure> {
        if self.numbered.is_some() {
            std::fs::remove_dir_all(&self.path).map_err(|error| {
                Failure::setup(format!(
                    "{} cannot be removed: {error}",
                    self.path.display()
                ))
            })?;
            self.restore_latest();
        }
        Ok(())
    }

    fn restore_latest(&self) {
        let Some(Numbered {
            base,
            latest_before,
        }) = &self.numbered
        else {
            return;
        };
        let link = base.join("latest");
        // Another recording may have become the latest meanwhile.
        if std::fs::read_link(&link).is_ok_and(|to| base.join(to) == self.path) {
            let _ = match latest_before {
                Some(before) => relive_trace::set_latest(base, &base.join(before)).map_err(drop),
                None => std::fs::remove_file(link).map_err(drop),
            };
        }
    }
}

/// The trace that is meant: by name or folder, or the latest; of a packed one the folder where
/// it is unpacked.
///
/// # Errors
/// There is none.
pub fn find(name: Option<&Path>) -> Result<PathBuf, Failure> {
    // A name in the folder for recordings comes before a file of that name.
    match relive_trace::resolve(name) {
        Ok(found) => Ok(found),
        Err(e) => match name.filter(|path| path.is_file()) {
            Some(file) => packed::folder(file),
            None => Err(Failure::setup(e)),
        },
    }
}

/// Finds and opens a trace.
///
/// # Errors
/// There is none, or it is damaged.
pub fn open(name: Option<&Path>) -> Result<Trace, Failure> {
    relive_engine::raise_descriptor_limit()?;
    Trace::open(&find(name)?).map_err(Failure::setup)
}

/// Finds and opens a trace whose program is about to be executed again, and says what this
/// machine lacks for that.
///
/// # Errors
/// There is none, or it is damaged.
pub fn open_to_replay(name: Option<&Path>) -> Result<Trace, Failure> {
    let trace = open(name)?;
    tell_what_lacks(&trace);
    Ok(trace)
}

/// Says which instruction sets this machine lacks that the recording one had.
pub fn tell_what_lacks(trace: &Trace) {
    let missing = info::missing(trace.manifest());
    if !missing.is_empty() {
        output::complain(&format!(
            "this machine lacks {}, which the recorded one had: if the program used it, a replay fails here",
            missing.join(" ")
        ));
    }
}

/// Says so if a timeline was to go to an event that there is not: it is at the end then.
pub fn tell_if_beyond(asked: u64, timeline: &Timeline) {
    let status = timeline.status();
    if status.ended.is_some() && status.point.event < asked {
        output::complain(&format!(
            "p{} has {} events and no more: this is its end",
            status.process, status.point.event
        ));
    }
}

/// Whether the end of a recording is missing.
pub fn is_cut_off(trace: &Trace) -> bool {
    trace.truncated() || !trace.manifest().complete
}

/// Goes to a place of a recording.
///
/// # Errors
/// Divergence.
pub fn go(timeline: &mut Timeline, at: At) -> Result<(), Failure> {
    at.go(timeline, &mut Patient)?;
    if let At::Event(n) = at {
        tell_if_beyond(n, timeline);
    }
    Ok(())
}

/// The function in which a panic can be found, where the exit status is that of one.
fn panic_place(trace: &Trace) -> Option<&'static str> {
    match trace.manifest().summary.as_ref()?.exit {
        ExitStatus::Code(101) => Some("rust_panic"),
        ExitStatus::Code(2) => Some("runtime.gopanic"),
        _ => None,
    }
}

/// The process that `--process` and `--at` mean: with a crash the one that died.
///
/// # Errors
/// Nobody died, or the trace is damaged.
pub fn process(trace: &Trace, given: Option<u32>, at: At) -> Result<u32, Failure> {
    match (given, at) {
        (Some(n), _) => Ok(n),
        (None, At::Crash) => {
            let all = crashes(trace)?;
            let Some((process, _)) = all.first() else {
                let count = processes(trace).len();
                let what = if count == 1 {
                    "The program"
                } else {
                    "None of its processes"
                };
                let none = if count == 1 { "not " } else { "" };
                let panic = panic_place(trace).map(|function| {
                    format!(". A panic is no signal: break {function} and reverse-continue lead to one from there")
                });
                return Err(Failure::setup(format!(
                    "nothing crashed in this recording. {what} was {none}killed by a signal; \
                     --at end shows how it ended, relive info all processes{}",
                    panic.unwrap_or_default()
                )));
            };
            if all.len() > 1 {
                let name = |sig: i32| signal_name(sig).unwrap_or("a signal".into());
                let each: Vec<String> = all
                    .iter()
                    .map(|(process, sig)| format!("p{process} by {}", name(*sig)))
                    .collect();
                output::complain(&format!(
                    "{} processes were killed: {}. This is p{process}; --process shows another",
                    all.len(),
                    each.join(", ")
                ));
            }
            Ok(*process)
        }
        (None, At::Spot(spot)) => Ok(spot.process.unwrap_or(0)),
        (None, _) => Ok(0),
    }
}
