//! What the answers to questions about a recording have in common.

use relive_engine::timeline::Place;
use serde_json::{Value, json};

/// Where something happens, in words.
pub fn place_text(place: &Place) -> String {
    format!(
        "p{}.t{} (thread {}), event {}, tick {}, pc {:#x}",
        place.process, place.thread, place.tid, place.event, place.tick, place.pc
    )
}

/// The same for programs; `at` is what other commands take.
pub fn place_object(place: &Place) -> Value {
    let mut object = json!(place);
    object["at"] = place.spot().to_string().into();
    object
}

/// Bytes as they lie in memory.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
