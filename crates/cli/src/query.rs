//! Common parts of the answers to queries about a recording.

use relive_engine::timeline::EventPlace;
use serde_json::{Value, json};

/// The place of an event, as text.
pub fn place_text(place: &EventPlace) -> String {
    format!(
        "p{}.t{} (thread {}), event {}, tick {}, pc {:#x}",
        place.process, place.thread, place.tid, place.event, place.tick, place.pc
    )
}

/// The same as JSON; other commands accept `at`.
pub fn place_object(place: &EventPlace) -> Value {
    let mut object = json!(place);
    object["at"] = place.spot().to_string().into();
    object
}

/// Bytes as they lie in memory.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
