//! What the answers to questions about a recording have in common.

use relive_engine::timeline::Place;

/// Where something happens, in words.
pub fn place_text(place: &Place) -> String {
    format!(
        "p{}.t{} (thread {}), event {}, tick {}, pc {:#x}",
        place.process, place.thread, place.tid, place.event, place.tick, place.pc
    )
}

/// Bytes as they lie in memory.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
