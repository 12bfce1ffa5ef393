//! The content of a new map where the kernel is asked: the file that the guest has opened, or the copy
//! of it that a recording shows instead.

use crate::memory::Source;
use crate::memory::content::{Content, ContentRequest};

/// See `Mode::content`.
pub fn content(wanted: ContentRequest<'_>) -> Content {
    let len = wanted.len.unwrap_or(0);
    let (source, writable, file) = match wanted.opened {
        Some(o) => (o.source, o.writable, o.file),
        None => (Source::Anon, true, None),
    };
    Content {
        source,
        len,
        shared: wanted.shared,
        common: wanted.shared && writable,
        _file: file,
    }
}
