//! The content that a new map shows. A call names it alike in every mode; the mode decides its source
//! (`Contents::content`): the guest's file where the kernel is asked, the trace in a replay. Must never
//! open a file by its path, which may lead elsewhere by now.

use std::borrow::Cow;
use std::fs::File;

use relive_trace::{FileId, KeptPart};

use super::Source;
use crate::failure::{Failure, Result};

/// Bytes of a file, as a trace keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptContent {
    /// The copy of a whole file.
    Whole(FileId),
    /// A part; the rest of the file is unknown.
    Part(KeptPart),
}

impl KeptContent {
    /// Notes a part in the data of a call: its length and its bytes, or 0 and the name of its copy.
    pub fn note_part(part: &KeptPart, data: &mut Vec<u8>) {
        let (len, bytes) = match part {
            KeptPart::Inline(bytes) => (bytes.len() as u32, &bytes[..]),
            KeptPart::Copy(id) => (0, &id.0[..]),
        };
        data.extend_from_slice(&len.to_le_bytes());
        data.extend_from_slice(bytes);
    }

    /// The part with which some data begins, and the rest; `None`: the data ends within the part.
    #[must_use]
    pub fn part(data: &[u8]) -> Option<(Self, &[u8])> {
        let (len, rest) = data.split_first_chunk()?;
        let (part, rest) = match u32::from_le_bytes(*len) {
            0 => {
                let (id, rest) = rest.split_first_chunk()?;
                (KeptPart::Copy(FileId(*id)), rest)
            }
            len => {
                let (bytes, rest) = rest.split_at_checked(len as usize)?;
                (KeptPart::Inline(bytes.to_vec()), rest)
            }
        };
        Some((Self::Part(part), rest))
    }
}

/// The name of a file's content, as a call's data on the tape has it: the trace's copy of the content,
/// the identity of the file, its path.
#[derive(Debug, PartialEq, Eq)]
pub struct ContentName<'a> {
    shown: Option<KeptContent>,
    identity: u64,
    path: &'a [u8],
}

impl<'a> ContentName<'a> {
    /// In place of a copy's name: a part follows.
    const PART: [u8; 32] = [0; 32];
    /// In place of a copy's name: nothing is kept.
    const NOT_KEPT: [u8; 32] = [0xff; 32];

    /// The name in the data of a call; `None` without any.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn of(bytes: &'a [u8]) -> Result<Option<Self>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let read = || {
            let (id, rest) = bytes.split_first_chunk()?;
            let (identity, rest) = rest.split_first_chunk()?;
            let (shown, path) = match *id {
                Self::PART => KeptContent::part(rest).map(|(shown, path)| (Some(shown), path))?,
                Self::NOT_KEPT => (None, rest),
                id => (Some(KeptContent::Whole(FileId(id))), rest),
            };
            let identity = u64::from_le_bytes(*identity);
            Some(Self {
                shown,
                identity,
                path,
            })
        };
        let named = read();
        named
            .map(Some)
            .ok_or_else(|| Failure::setup("the trace is damaged: a map names no file"))
    }

    /// Notes a name in the data of a call.
    pub fn note(extra: &mut Vec<u8>, shown: Option<&KeptContent>, identity: u64, path: &str) {
        extra.extend_from_slice(match shown {
            None => &Self::NOT_KEPT,
            Some(KeptContent::Whole(id)) => &id.0,
            Some(KeptContent::Part(_)) => &Self::PART,
        });
        extra.extend_from_slice(&identity.to_le_bytes());
        if let Some(KeptContent::Part(part)) = shown {
            KeptContent::note_part(part, extra);
        }
        extra.extend_from_slice(path.as_bytes());
    }

    /// Notes the trace's copy, where it could not be made before the map.
    pub fn note_copy(extra: &mut [u8], copy: FileId) {
        extra[..copy.0.len()].copy_from_slice(&copy.0);
    }

    /// The bytes that the trace has.
    ///
    /// # Errors
    /// A damaged trace: it has no bytes.
    pub fn shown(&self) -> Result<&KeptContent> {
        let lacks = || Failure::setup("the trace is damaged: a map shows nothing");
        self.shown.as_ref().ok_or_else(lacks)
    }

    /// The trace's copy of the whole file, if the map shows that.
    pub fn copy(&self) -> Option<FileId> {
        match self.shown {
            Some(KeptContent::Whole(id)) => Some(id),
            _ => None,
        }
    }

    /// The identity of the file.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Its path.
    pub fn path(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.path)
    }
}

/// The content that a call asks for.
pub struct ContentRequest<'a> {
    /// Other processes may see writes to it.
    pub shared: bool,
    /// The file, or the segment; `None`: zeros.
    pub named: Option<ContentName<'a>>,
    /// Its offset in the file.
    pub offset: u64,
    /// Bytes of it; `None`: as many as the copy has.
    pub len: Option<u64>,
    /// The file as it has been opened, where the kernel was asked.
    pub opened: Option<Opened>,
}

/// A file, or a segment, that the kernel lets the guest map.
pub struct Opened {
    /// The source that a map shows.
    pub source: Source,
    /// Whether a shared map of it may be written, sooner or later.
    pub writable: bool,
    /// The file that must stay open until the map is made.
    pub file: Option<File>,
}

/// Content that can be mapped.
pub struct Content {
    /// The source that a map shows.
    pub source: Source,
    /// Bytes of it.
    pub len: u64,
    /// See [`crate::space::Region::shared`].
    pub shared: bool,
    /// See [`crate::space::Region::common`].
    pub common: bool,
    /// The file that must stay open until the map is made.
    pub _file: Option<File>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileId = FileId([7; 32]);

    #[test]
    fn a_name_is_read_as_it_was_noted_and_half_of_it_is_damage() {
        let all = [
            None,
            Some(KeptContent::Whole(ID)),
            Some(KeptContent::Part(KeptPart::Copy(ID))),
            Some(KeptContent::Part(KeptPart::Inline(vec![1, 2, 3]))),
        ];
        for shown in all {
            let (mut bytes, path) = (Vec::new(), "/lib/\u{e9}");
            ContentName::note(&mut bytes, shown.as_ref(), 0x1234, path);
            let named = ContentName::of(&bytes)
                .expect("it is whole")
                .expect("it is one");
            assert_eq!((named.identity(), &*named.path()), (0x1234, path));
            assert_eq!(named.shown().ok(), shown.as_ref());
            let least = bytes.len() - path.len();
            for len in 1..bytes.len() {
                assert_eq!(
                    ContentName::of(&bytes[..len]).is_ok(),
                    len >= least,
                    "{len}"
                );
            }
        }
        assert!(ContentName::of(&[]).is_ok_and(|n| n.is_none()));
    }

    #[test]
    fn a_copy_that_is_made_late_takes_its_place() {
        let mut extra = Vec::new();
        ContentName::note(&mut extra, None, 1, "x");
        ContentName::note_copy(&mut extra, ID);
        let named = ContentName::of(&extra)
            .expect("it is whole")
            .expect("it is one");
        assert_eq!(named.shown().ok(), Some(&KeptContent::Whole(ID)));
        assert_eq!((named.identity(), &*named.path()), (1, "x"));
    }
}
