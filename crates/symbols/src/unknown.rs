//! The reason why a value is not known, for a reader. No code must ever decide by it.

use std::borrow::Cow;

/// Why a value, its place or a part of it is not known: the rest of a sentence that begins with its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(Cow<'static, str>);

impl From<&'static str> for Unknown {
    fn from(why: &'static str) -> Self {
        Self(why.into())
    }
}

impl From<String> for Unknown {
    fn from(why: String) -> Self {
        Self(why.into())
    }
}
