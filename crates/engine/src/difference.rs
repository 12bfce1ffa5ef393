//! Two values that should be the same, and are not: where they differ, in so far as a reader can take it in.

use std::fmt::Debug;

/// Characters of each side that are shown.
const SHOWN: usize = 200;

/// Both sides from shortly before the first difference on, an image's and a replay's; `None`: there is none.
pub fn differs<T: PartialEq + Debug>(what: &str, image: &T, replay: &T) -> Option<String> {
    if image == replay {
        return None;
    }
    let (a, b) = (format!("{image:?}"), format!("{replay:?}"));
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(SHOWN / 2);
    let part = |text: &str| -> String {
        String::from_utf8_lossy(&text.as_bytes()[from.min(text.len())..])
            .chars()
            .take(SHOWN)
            .collect()
    };
    Some(format!(
        "{what}\n  image:  …{}\n  replay: …{}",
        part(&a),
        part(&b)
    ))
}
