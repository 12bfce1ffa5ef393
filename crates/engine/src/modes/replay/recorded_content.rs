//! The content of a new map in a replay: the trace's copy of a file, for all to share that the recording
//! mapped shared. It must never open a file of the recorded program.

use std::os::fd::AsRawFd;

use super::hook_state;
use super::hook_state::alone;
use super::mapped_copies::{open_copy, shared_copy};
use crate::failure::{Failure, Result};
use crate::memory::Source;
use crate::memory::content::{Content, ContentName, ContentRequest};
use crate::sharing::objects;
use crate::space::pages;

/// See `Mode::content`.
///
/// # Errors
/// The trace lacks the copy, or there is no memory for it.
pub fn content(wanted: &ContentRequest<'_>) -> Result<Content> {
    let Some(named) = &wanted.named else {
        return Ok(zeros(wanted));
    };
    if !wanted.shared {
        let copy = open_copy(named.shown()?)?;
        return Ok(Content {
            source: Source::File(copy.as_raw_fd(), wanted.offset),
            len: wanted.len.unwrap_or(0),
            shared: false,
            common: false,
            _file: Some(copy),
        });
    }
    let len = match wanted.len {
        Some(len) => {
            hook_state::maps_shared();
            len
        }
        None => length(named)?,
    };
    let range = (wanted.offset, wanted.offset.saturating_add(len));
    let (pool, base) = shared_copy(named.identity(), named.shown()?, range)?;
    Ok(Content {
        source: Source::File(pool.as_raw_fd(), base.saturating_add(wanted.offset)),
        len,
        shared: true,
        common: true,
        _file: Some(pool),
    })
}

/// A replay of one process alone shares memory with its own copies only, which must not see its
/// writes.
fn zeros(wanted: &ContentRequest<'_>) -> Content {
    Content {
        source: Source::Anon,
        len: wanted.len.unwrap_or(0),
        shared: wanted.shared && !alone(),
        common: wanted.shared,
        _file: None,
    }
}

/// Whole pages of a copy.
fn length(named: &ContentName<'_>) -> Result<u64> {
    let copy = open_copy(named.shown()?)?;
    let length = objects::length(&copy).map_err(Failure::setup)?;
    pages(length).ok_or_else(|| Failure::setup("the trace is damaged: a segment is empty"))
}
