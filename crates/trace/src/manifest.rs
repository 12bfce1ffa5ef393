//! `manifest.json`: the program recorded, the machine, the recorder, and whether it ended well.
//!
//! Written when the recording begins and again when it ends, each time by replacing the
//! file as a whole. Unknown fields are ignored, so fields can be added within one major
//! version; a field added later must have a default.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::files::{create_private, open_regular};
use crate::version::{EXCERPT_FORMAT, FORMAT, Version};

/// Name of the manifest in a trace.
const NAME: &str = "manifest.json";

/// The manifest of the trace in `directory`.
#[must_use]
pub fn manifest_file(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Command line and environment are at most a few megabytes (execve(2), "Limits on size of
/// arguments and environment"), six bytes each in the worst case of JSON.
const LENGTH_MAX: u64 = 64 << 20;

/// Facts about a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub format: Version,
    /// Version of the program that recorded.
    pub relive: String,
    /// When the recording began, in seconds since 1970 (UTC).
    pub created: u64,
    /// The recorded command line.
    pub command: Vec<Bytes>,
    /// The working directory it was started in.
    pub directory: Bytes,
    /// The environment it was started with, `NAME=value`, in order.
    pub environment: Vec<Bytes>,
    /// The recording machine's system.
    pub system: System,
    /// The recording machine's processor.
    pub cpu: Cpu,
    /// Bytes in a page of memory.
    pub page_size: u64,
    /// How threads ran while it was recorded.
    #[serde(default, skip_serializing_if = "Recorder::is_serial")]
    pub recorder: Recorder,
    /// Plain accesses that were ordered like atomic instructions while it was recorded; the numbers belong to
    /// the translator. Of a recording that is not complete those that were to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<u64>,
    /// How the epochs of a recording were found whose exact tapes these are: there in those, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub epochs: Vec<FoundEpoch>,
    /// Seed of the chaos schedule; absent if the schedule was the ordinary, fair one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chaos_seed: Option<u64>,
    /// How a search for failing runs found that this one failed, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Where the recording begins, if not with its program: there in an excerpt, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<Excerpt>,
    /// The recording was ended in order.
    pub complete: bool,
    /// Length of the tapes file once it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tapes_length: Option<u64>,
    /// Length of the store of input once it is complete, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_length: Option<u64>,
    /// Outcome and totals, once it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

/// The ways to record the threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recorder {
    /// One at a time: the order of turns is on the schedule tapes.
    #[default]
    Serial,
    /// At the same time: edges and moments are on the threads' tapes, and say as much of their order as is
    /// known.
    Sketch,
    /// At the same time, each line of memory in the hands of those who may access it: marks and what comes behind
    /// them are on the tapes too, and say all of their order.
    Coherence,
}

/// How the order of the threads was found in an epoch, the stretch between two session images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundEpoch {
    /// Orders that were tried; 1: what was recorded led to its end at once.
    pub attempts: u32,
    /// CPU time of that, in microseconds.
    pub cpu_us: u64,
}

impl Recorder {
    /// Whether threads ran one at a time, so that the tapes say all.
    pub fn is_serial(&self) -> bool {
        *self == Self::Serial
    }
}

/// Facts from uname(2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// `Linux`.
    pub name: String,
    /// Kernel release.
    pub release: String,
    /// Kernel build.
    pub version: String,
    /// `x86_64`.
    pub machine: String,
}

/// Facts from `/proc/cpuinfo`; empty where it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name.
    pub model: String,
    /// Feature flags, in the kernel's spelling.
    pub features: Vec<String>,
}

/// Outcome and totals of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How the first process ended.
    pub exit: ExitStatus,
    /// Processes recorded.
    pub processes: u64,
    /// Threads recorded, over all processes.
    pub threads: u64,
    /// Events on all tapes.
    pub events: u64,
    /// Ticks of all threads.
    pub ticks: u64,
    /// Bytes of events; filled in by [`crate::TraceWriter::finish`].
    pub raw_bytes: u64,
    /// Bytes of the tapes file; filled in by [`crate::TraceWriter::finish`].
    pub stored_bytes: u64,
    /// Duration of the recording in milliseconds.
    pub wall_ms: u64,
    /// It was ended while all threads slept in calls, for good as far as could be seen: each had come to a call that its tape does not have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asleep: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl Manifest {
    /// See [`Summary::asleep`].
    #[must_use]
    pub fn ends_asleep(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.asleep)
    }

    /// Whether signals that find an action are operations of their threads: in a sketch, since version 1.7.
    #[must_use]
    pub fn orders_signals(&self) -> bool {
        self.format >= Version { major: 1, minor: 7 }
    }

    /// The rule by which plain accesses near atomic instructions are operations of their threads, and marks of robust locks of
    /// the thread that ends: in a sketch, 1 since version 1.8, and 2 since 1.12 (and 2.1); 0: none of them is.
    #[must_use]
    pub fn neighbour_rule(&self) -> u32 {
        let Version { major, minor } = self.format;
        match (major, minor) {
            (1, ..8) => 0,
            (1, ..12) | (2, ..1) => 1,
            _ => 2,
        }
    }

    /// The manifest of a recording that begins now on this machine.
    pub fn new(command: Vec<Bytes>, directory: Bytes, environment: Vec<Bytes>) -> Self {
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Self {
            format: FORMAT,
            relive: env!("CARGO_PKG_VERSION").to_owned(),
            created,
            command,
            directory,
            environment,
            system: System::this(),
            cpu: Cpu::this(),
            page_size: rustix::param::page_size() as u64,
            recorder: Recorder::Serial,
            sites: Vec::new(),
            epochs: Vec::new(),
            chaos_seed: None,
            failure: None,
            excerpt: None,
            complete: false,
            tapes_length: None,
            input_length: None,
            summary: None,
        }
    }

    /// The same recording, written anew and not complete yet.
    pub fn begun(self) -> Self {
        Self {
            complete: false,
            tapes_length: None,
            input_length: None,
            summary: None,
            ..self
        }
    }

    /// An excerpt of this recording, not complete yet; it is none before it says where it begins.
    #[must_use]
    pub fn of_excerpt(&self) -> Self {
        Self {
            format: EXCERPT_FORMAT,
            excerpt: None,
            ..self.clone().begun()
        }
    }

    /// Reads the manifest of the trace in `directory`.
    ///
    /// # Errors
    /// When there is none, when it is damaged, and when its major version is not ours.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = manifest_file(directory);
        let file = match open_regular(&path) {
            Err(Error::Read { source, .. })
                if matches!(
                    source.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(Error::NotATrace {
                    path: directory.to_owned(),
                });
            }
            other => other?,
        };
        let mut text = Vec::new();
        file.take(LENGTH_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|source| Error::read(&path, source))?;
        if text.len() as u64 > LENGTH_MAX {
            return Err(Error::Damaged {
                path,
                what: "a manifest longer than 64 MiB",
            });
        }
        Self::parse(&text, path)
    }

    fn parse(text: &[u8], path: PathBuf) -> Result<Self> {
        /// The fields that every major version promises to keep.
        #[derive(Deserialize)]
        struct Promise {
            format: Version,
            #[serde(default)]
            relive: Option<serde_json::Value>,
        }
        let promise: Promise = match serde_json::from_slice(text) {
            Ok(promise) => promise,
            Err(source) => return Err(Error::Manifest { path, source }),
        };
        if ![FORMAT.major, EXCERPT_FORMAT.major].contains(&promise.format.major) {
            return Err(Error::Version {
                path,
                found: promise.format,
                supported: [FORMAT, EXCERPT_FORMAT],
                recorder: promise
                    .relive
                    .as_ref()
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or("of unknown version")
                    .to_owned(),
            });
        }
        let manifest: Self = match serde_json::from_slice(text) {
            Ok(manifest) => manifest,
            Err(source) => return Err(Error::Manifest { path, source }),
        };
        match manifest.check() {
            Ok(()) => Ok(manifest),
            Err(what) => Err(Error::Damaged { path, what }),
        }
    }

    /// Whether it could be the manifest of a recording; if not, why.
    fn check(&self) -> std::result::Result<(), &'static str> {
        match (&self.excerpt, self.format.major == EXCERPT_FORMAT.major) {
            (None, false) => Ok(()),
            (Some(excerpt), true) => excerpt.check(),
            // So is one that was not written to its end.
            (None, true) => Err("it does not say where the recording begins"),
            (Some(_), false) => Err("a whole recording that begins elsewhere"),
        }
    }

    /// Says how the epoch was found whose exact tapes are in `directory`.
    ///
    /// # Errors
    /// There are none, or the manifest cannot be written.
    pub fn note_found(directory: &Path, found: FoundEpoch) -> Result<()> {
        let mut manifest = Self::read(directory)?;
        manifest.epochs = vec![found];
        manifest.write(directory)
    }

    /// Says how a search found that the recording in `directory` failed.
    ///
    /// # Errors
    /// There is none, or the manifest cannot be written.
    pub fn note_failure(directory: &Path, failure: String) -> Result<()> {
        let mut manifest = Self::read(directory)?;
        manifest.failure = Some(failure);
        manifest.write(directory)
    }

    /// Replaces the manifest in `directory`, if any, as a whole.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        let path = manifest_file(directory);
        let temporary = directory.join(".manifest.json.new");
        let mut text = serde_json::to_vec_pretty(self).map_err(|source| Error::Manifest {
            path: path.clone(),
            source,
        })?;
        text.push(b'\n');
        let written = create_private(&temporary, true)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| std::fs::rename(&temporary, &path));
        written.map_err(|source| {
            let _ = std::fs::remove_file(&temporary);
            Error::write(&path, source)
        })
    }
}

impl System {
    fn this() -> Self {
        let uname = rustix::system::uname();
        let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
        Self {
            name: text(uname.sysname()),
            release: text(uname.release()),
            version: text(uname.version()),
            machine: text(uname.machine()),
        }
    }
}

impl Cpu {
    fn this() -> Self {
        std::fs::File::open("/proc/cpuinfo")
            .and_then(first_processor)
            .map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    fn parse(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map_or("", |(_, value)| value.trim())
        };
        Self {
            model: field("model name").to_owned(),
            features: field("flags")
                .split(' ')
                .filter(|flag| !flag.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// Reads `/proc/cpuinfo` up to the empty line behind the first processor: the kernel takes long to
/// describe hundreds of equal ones.
fn first_processor(mut cpuinfo: impl Read) -> std::io::Result<String> {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while !text.windows(2).any(|two| two == b"\n\n") {
        match cpuinfo.read(&mut part)? {
            0 => break,
            n => text.extend_from_slice(&part[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut manifest = Manifest::new(
            vec!["prog".into(), Bytes(vec![0xff])],
            "/tmp".into(),
            vec!["A=b".into()],
        );
        manifest.summary = Some(Summary {
            exit: ExitStatus::Signal(11),
            processes: 1,
            threads: 2,
            events: 3,
            ticks: 4,
            raw_bytes: 5,
            stored_bytes: 6,
            wall_ms: 7,
            asleep: false,
        });
        manifest
    }

    #[test]
    fn round_trip_and_unknown_fields() {
        let manifest = manifest();
        let mut json = serde_json::to_value(&manifest).unwrap();
        json["added_later"] = serde_json::json!({"deep": [1, 2]});
        json["system"]["added_later"] = serde_json::json!(1);
        json["format"]["minor"] = serde_json::json!(99);
        let text = serde_json::to_vec(&json).unwrap();
        let read = Manifest::parse(&text, PathBuf::new()).unwrap();
        assert_eq!(read.format.minor, 99);
        assert_eq!(
            Manifest {
                format: FORMAT,
                ..read
            },
            manifest
        );
    }

    #[test]
    fn another_major_version_is_refused_whatever_else_it_says() {
        let text = br#"{"format": {"major": 3, "minor": 7}, "relive": "9.1", "other": true}"#;
        let error = Manifest::parse(text, PathBuf::from("m")).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, Error::Version { .. }), "{message}");
        for part in ["3.7", "9.1", &FORMAT.to_string()] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn cpuinfo_is_taken_from_the_first_processor() {
        let cpu = Cpu::parse(
            "processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu  sse\n\nmodel name\t: C\n",
        );
        assert_eq!(cpu.model, "A: B");
        assert_eq!(cpu.features, ["fpu", "sse"]);
        assert_eq!(Cpu::parse(""), Cpu::default());
    }

    #[test]
    fn of_many_processors_the_first_is_read() {
        let one = format!("processor\t: 0\nflags\t\t: {}\n\n", "fpu ".repeat(2000));
        let all = one.repeat(100);
        let read = first_processor(all.as_bytes()).unwrap();
        assert!(read.starts_with(&one) && read.len() < 2 * one.len());
        assert_eq!(first_processor(&b"none"[..]).unwrap(), "none");
    }
}
