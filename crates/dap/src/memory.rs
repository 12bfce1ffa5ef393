//! Memory and instructions.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::mi::Value;
use crate::session::Session;

/// Most bytes that are read at once.
const BYTES_MAX: u64 = 4 << 20;
/// Most instructions that are shown at once.
const INSTRUCTIONS_MAX: i64 = 10_000;
/// Bytes of the longest instruction.
const INSTRUCTION: u64 = 15;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadMemory {
    memory_reference: String,
    #[serde(default)]
    offset: i64,
    count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Disassemble {
    memory_reference: String,
    #[serde(default)]
    offset: i64,
    #[serde(default)]
    instruction_offset: i64,
    instruction_count: i64,
}

/// The address in a text of the client, plus an offset.
///
/// # Errors
/// When the text is not a number.
pub fn address(text: &str, offset: i64) -> Result<u64, Refusal> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let base = parsed.map_err(|_| format!("'{text}' is no address"))?;
    Ok(base.wrapping_add_signed(offset))
}

impl Session {
    pub(crate) fn read_memory(&mut self, given: &Json) -> Answer {
        let wanted: ReadMemory = arguments(given)?;
        let at = address(&wanted.memory_reference, wanted.offset)?;
        if wanted.count > BYTES_MAX {
            return Err(format!("more than {BYTES_MAX} bytes at once").into());
        }
        let mut bytes = Vec::new();
        if wanted.count > 0 {
            let command = format!("-data-read-memory-bytes {at:#x} {}", wanted.count);
            // Unreadable memory is an answer.
            let answer = self.ask(&command);
            let blocks = answer.as_ref().map_or(&[][..], |a| a.list("memory"));
            let first = blocks.iter().find(|b| {
                let begin = b.text("begin").and_then(|t| address(t, 0).ok());
                begin == Some(at)
            });
            bytes = first
                .and_then(|b| unhex(b.text("contents")?))
                .unwrap_or_default();
        }
        let missing = wanted.count.saturating_sub(bytes.len() as u64);
        let mut body = json!({ "address": format!("{at:#x}"), "data": base64(&bytes) });
        if missing > 0 {
            body["unreadableBytes"] = json!(missing);
        }
        Ok(body)
    }

    pub(crate) fn disassemble(&mut self, given: &Json) -> Answer {
        let wanted: Disassemble = arguments(given)?;
        let at = address(&wanted.memory_reference, wanted.offset)?;
        let (from, count) = (wanted.instruction_offset, wanted.instruction_count);
        if !(0..=INSTRUCTIONS_MAX).contains(&count)
            || !(-INSTRUCTIONS_MAX..=INSTRUCTIONS_MAX).contains(&from)
        {
            return Err(format!("more than {INSTRUCTIONS_MAX} instructions at once").into());
        }
        let before = match usize::try_from(from.unsigned_abs()) {
            Ok(wanted) if from < 0 => self.instructions_before(at, wanted),
            _ => Vec::new(),
        };
        let behind = match from + count {
            n @ 1.. => self.instructions_from(at, n as u64)?,
            _ => Vec::new(),
        };
        let one = |n: i64| -> Option<&Value> {
            match usize::try_from(n) {
                Ok(n) => behind.get(n),
                Err(_) => {
                    let back = usize::try_from(n.unsigned_abs()).ok()?;
                    before.get(before.len().checked_sub(back)?)
                }
            }
        };
        // Unknown instructions take a byte each, below and above all known ones: the client expects
        // ascending addresses.
        let low = before.first().and_then(address_of).unwrap_or(at);
        let high = behind.last().map_or(at, end_of);
        let unknown = |n: i64| match n < 0 {
            true => low.wrapping_add_signed(n + before.len() as i64),
            false => high.wrapping_add_signed(n - behind.len() as i64),
        };
        let all: Vec<Json> = (from..from + count)
            .map(|n| match one(n) {
                Some(instruction) => shown(instruction),
                None => json!({
                    "address": format!("{:#x}", unknown(n)),
                    "instruction": "??", "presentationHint": "invalid",
                }),
            })
            .collect();
        Ok(json!({ "instructions": all }))
    }

    /// At least this many instructions before an address, if functions contain so many: only
    /// functions tell where instructions begin.
    fn instructions_before(&mut self, at: u64, wanted: usize) -> Vec<Value> {
        let mut found: Vec<Value> = Vec::new();
        let (mut end, mut inside) = (at, at);
        while found.len() < wanted {
            let answer = self.ask(&format!("-data-disassemble -a {inside:#x} -- 2"));
            let Ok(answer) = answer else { break };
            let all = answer.list("asm_insns").iter();
            let mut more: Vec<Value> = all
                .take_while(|i| address_of(i).is_some_and(|a| a < end))
                .cloned()
                .collect();
            match more.first().and_then(address_of) {
                Some(first) => end = first,
                // Another function lies before the first instruction of a function.
                None if inside == at => {}
                None => break,
            }
            more.append(&mut found);
            found = more;
            inside = end.wrapping_sub(1);
        }
        found
    }

    fn instructions_from(&mut self, at: u64, count: u64) -> Result<Vec<Value>, Refusal> {
        let mut end = at.saturating_add(count * INSTRUCTION);
        for _ in 0..2 {
            match self.ask(&format!("-data-disassemble -s {at:#x} -e {end:#x} -- 2")) {
                Ok(answer) => {
                    let all = answer.list("asm_insns").iter().take(count as usize);
                    return Ok(all.cloned().collect());
                }
                Err(refusal) => {
                    // "Cannot access memory at address 0x…": up to there, then.
                    let limit = refusal.message.rsplit(' ').next();
                    match limit.and_then(|l| address(l, 0).ok()) {
                        Some(limit) if limit > at && limit < end => end = limit,
                        _ => return Ok(Vec::new()),
                    }
                }
            }
        }
        Ok(Vec::new())
    }
}

fn address_of(instruction: &Value) -> Option<u64> {
    address(instruction.text("address")?, 0).ok()
}

/// The address behind an instruction.
fn end_of(instruction: &Value) -> u64 {
    let bytes = instruction.text("opcodes").unwrap_or("");
    let length = bytes.split_whitespace().count() as u64;
    address_of(instruction).map_or(0, |at| at.saturating_add(length))
}

fn shown(instruction: &Value) -> Json {
    let mut shown = json!({
        "address": instruction.text("address"),
        "instruction": instruction.text("inst"),
    });
    if let Some(bytes) = instruction.text("opcodes") {
        shown["instructionBytes"] = json!(bytes);
    }
    if let (Some(name), Some(offset)) = (instruction.text("func-name"), instruction.text("offset"))
    {
        shown["symbol"] = json!(format!("{name}+{offset}"));
    }
    shown
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Bytes in base64, as in the protocol (RFC 4648, 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let padded = [0, 1, 2].map(|i| u32::from(group.get(i).copied().unwrap_or(0)));
        let all = padded[0] << 16 | padded[1] << 8 | padded[2];
        for i in 0..4 {
            match i <= group.len() {
                true => text.push(DIGITS[(all >> (18 - 6 * i)) as usize & 63] as char),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_text() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xff\xff", "////"),
        ] {
            assert_eq!(base64(bytes), expected);
        }
        assert_eq!(unhex("00ff"), Some(vec![0, 255]));
        assert_eq!(unhex("0g"), None);
    }

    #[test]
    fn addresses() {
        assert_eq!(address("0x10", -1), Ok(15));
        assert_eq!(address("16", 1), Ok(17));
        assert!(address("x", 0).is_err());
    }
}
