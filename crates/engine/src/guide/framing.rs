//! The form of a message between a timeline and its replaying processes, over a socket: a header of two
//! lengths, a JSON text and bytes that belong to it.
//!
//! The replaying side runs a program that may be hostile. Must never trust it: lengths are bounded, and a
//! message that does not parse ends the conversation.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// Most bytes of a message.
const MESSAGE_MAX: usize = 64 << 20;

/// Sends a message.
///
/// # Errors
/// The other side is gone.
pub fn send(to: &mut impl Write, message: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut whole = Vec::with_capacity(8 + text.len() + bytes.len());
    whole.extend_from_slice(&(text.len() as u32).to_le_bytes());
    whole.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    whole.extend_from_slice(&text);
    whole.extend_from_slice(bytes);
    to.write_all(&whole)
}

/// Receives a message.
///
/// # Errors
/// The other side is gone, or the message cannot be read.
pub fn receive<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<(M, Vec<u8>)> {
    let mut header = [0; 8];
    from.read_exact(&mut header)?;
    let [a, b, c, d, e, f, g, h] = header;
    let text_len = u32::from_le_bytes([a, b, c, d]) as usize;
    let bytes_len = u32::from_le_bytes([e, f, g, h]) as usize;
    if text_len > MESSAGE_MAX || bytes_len > MESSAGE_MAX {
        return Err(io::Error::other("a message of that length is none"));
    }
    let mut text = vec![0; text_len];
    from.read_exact(&mut text)?;
    let mut bytes = vec![0; bytes_len];
    from.read_exact(&mut bytes)?;
    Ok((serde_json::from_slice(&text)?, bytes))
}
