//! Primitives that most services have: time, randomness, identifiers, environment and configuration.
//!
//! Each is a [`nondet`] with a name of its own, and adds nothing to it: no state, no thread.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::primitives::nondet;

/// The time of day.
pub fn now() -> SystemTime {
    let since = nondet("now", || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap_or_default()
    });
    UNIX_EPOCH + since
}

/// How long something takes.
pub fn elapsed(since: Instant) -> Duration {
    nondet("elapsed", || since.elapsed())
}

fn any() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random number, for choices and as a seed, not for secrets: `StdRng::seed_from_u64(random())` is a
/// generator of which each replay draws the same.
pub fn random() -> u64 {
    nondet("random", any)
}

/// A random number below `bound`.
///
/// # Panics
/// If `bound` is 0.
pub fn random_below(bound: u64) -> u64 {
    assert!(bound > 0, "no number is below 0");
    nondet("random-below", || {
        ((u128::from(any()) * u128::from(bound)) >> 64) as u64
    })
}

/// An identifier that nothing else has: a random UUID (version 4), and printed as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UniqueId(u128);

impl UniqueId {
    /// As a number, for `Uuid::from_u128`.
    pub fn get(self) -> u128 {
        self.0
    }
}

impl Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |from: u32, bits: u32| (self.0 >> from) & ((1 << bits) - 1);
        let [a, b, c, d] = [group(96, 32), group(80, 16), group(64, 16), group(48, 16)];
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}", group(0, 48))
    }
}

/// A new identifier, of an order or of a message.
pub fn unique_id() -> UniqueId {
    UniqueId(nondet("unique-id", || {
        let bits = u128::from(any()) << 64 | u128::from(any());
        // Version and variant.
        bits & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62
    }))
}

/// A variable of the environment; `None` also where it is no text.
pub fn var(name: &str) -> Option<String> {
    nondet("var", || env::var(name).ok())
}

/// All variables of the environment that begin like this and are text, by the rest of their names.
pub fn vars(prefix: &str) -> BTreeMap<String, String> {
    nondet("vars", || {
        let texts = env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((
                name.strip_prefix(prefix)?.to_owned(),
                value.into_string().ok()?,
            ))
        });
        texts.collect()
    })
}

/// Why there is no configuration, in the words of the recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The configuration that `load` reads, from wherever it is: a file, flags, a server of settings. The replay
/// has it from the recording, or fails in the same words, and reads nothing.
pub fn config<T: Serialize + DeserializeOwned, E: Display>(
    name: &str,
    load: impl FnOnce() -> Result<T, E>,
) -> Result<T, ConfigError> {
    nondet(name, || {
        load().map_err(|error| ConfigError(error.to_string()))
    })
}

/// The bytes of a file of 1 MiB at most, which a replay does not look at. An error keeps its kind and its
/// words.
pub fn file(path: impl AsRef<std::path::Path>) -> io::Result<Vec<u8>> {
    let read = nondet("file", || {
        let failed = |error: io::Error| {
            let known = KINDS.iter().position(|kind| *kind == error.kind());
            (known.unwrap_or(KINDS.len()) as u8, error.to_string())
        };
        fs::read(path).map_err(failed)
    });
    read.map_err(|(kind, text)| {
        let kind = KINDS.get(usize::from(kind)).copied();
        io::Error::new(kind.unwrap_or(io::ErrorKind::Other), text)
    })
}

/// Kinds that a tape tells apart, by their places.
const KINDS: [io::ErrorKind; 4] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::IsADirectory,
    io::ErrorKind::Interrupted,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_prints_as_a_uuid_of_version_4() {
        let (one, other) = (unique_id(), unique_id());
        assert_ne!(one, other);
        let text = one.to_string();
        let lengths: Vec<_> = text.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&text[14..15], "4", "{text}");
        assert!("89ab".contains(&text[19..20]), "{text}");
        let parsed = u128::from_str_radix(&text.replace('-', ""), 16);
        assert_eq!(parsed, Ok(one.get()));
    }

    #[test]
    fn numbers_are_below_their_bound() {
        assert!((0..1000).all(|_| random_below(7) < 7));
        assert!((0..100).all(|_| random_below(1) == 0));
    }
}
