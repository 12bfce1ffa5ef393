//! Plain data as bytes: the state that one host hands to the next, which is the same executable, and
//! descriptions of threads and processes, also in session images. Must never accept bytes
//! that [`to_bytes`] does not make: too few, too many, or of another form, they are an error.

use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::{ByteBuf, Bytes};

/// The bytes are no value of the expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the description of a process is damaged")]
pub struct Malformed;

/// Writes a value.
#[must_use]
pub fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value)
        .expect("a vector takes all data, and all sequences know their length")
}

/// Reads bytes that [`to_bytes`] has written.
///
/// # Errors
/// Bytes of another form, too few or too many.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Malformed),
    }
}

/// Lists of byte strings, each written as a whole; for `#[serde(with)]`.
pub mod strings {
    use super::*;

    /// Writes the list.
    pub fn serialize<'a, S, L, B>(list: &'a L, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        &'a L: IntoIterator<Item = &'a B>,
        B: AsRef<[u8]> + 'a,
    {
        to.collect_seq(list.into_iter().map(|b| Bytes::new(b.as_ref())))
    }

    /// Reads it.
    pub fn deserialize<'de, D, L, B>(from: D) -> Result<L, D::Error>
    where
        D: Deserializer<'de>,
        L: IntoIterator<Item = B> + FromIterator<B>,
        B: TryFrom<Vec<u8>>,
    {
        let list = Vec::<ByteBuf>::deserialize(from)?.into_iter();
        let string = |b: ByteBuf| B::try_from(b.into_vec());
        list.map(|b| string(b).map_err(|_| D::Error::custom("a string of another length")))
            .collect()
    }
}

/// Shared text; for `#[serde(with)]`.
pub mod text {
    use std::sync::Arc;

    use super::*;

    /// Writes the text.
    pub fn serialize<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
        text.serialize(to)
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(from).map(Arc::from)
    }
}

/// Paths, which need not be text; for `#[serde(with)]`.
pub mod path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use super::*;

    /// Writes the path.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Bytes::new(path.as_os_str().as_bytes()).serialize(to)
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        ByteBuf::deserialize(from).map(|b| OsString::from_vec(b.into_vec()).into())
    }
}

#[cfg(test)]
mod tests;
