//! Source files: their places and their text.
//!
//! A packed recording contains its sources; gdb gets that folder, and then names the files in it,
//! so that the client opens them itself.

use std::io::Read;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::answers::Answer;
use crate::mi::{Value, quote};
use crate::session::Session;

/// Longest file that is sent.
const TEXT_MAX: u64 = 16 << 20;

/// The source of a frame or a breakpoint.
pub fn of(place: &Value) -> Option<Json> {
    let path = place.text("fullname").or(place.text("file"))?;
    let name = Path::new(path).file_name()?.to_string_lossy();
    let mut source = json!({ "name": name, "path": path });
    if !Path::new(path).is_file() {
        source["origin"] = json!("not on this machine");
        source["presentationHint"] = json!("deemphasize");
    }
    Some(source)
}

impl Session {
    /// The text of a file that the program was compiled from.
    pub(crate) fn source(&mut self, given: &Json) -> Answer {
        let path = given["source"]["path"].as_str().unwrap_or("");
        let Some(name) = Path::new(path).file_name() else {
            return Err("a source has a path".into());
        };
        // A file is only read if gdb knows it as a source of the program.
        let command = format!(
            "-file-list-exec-source-files --basename -- {}",
            quote(&format!("^{}$", escape(&name.to_string_lossy())))
        );
        let answer = self.ask(&command)?;
        let known = answer
            .list("files")
            .iter()
            .any(|f| f.text("fullname") == Some(path) || f.text("file") == Some(path));
        if !known {
            return Err(format!("{path} is no source of the program").into());
        }
        let mut text = Vec::new();
        let file = std::fs::File::open(path);
        let read = file.and_then(|f| f.take(TEXT_MAX).read_to_end(&mut text));
        match read {
            Ok(_) => Ok(json!({ "content": String::from_utf8_lossy(&text) })),
            Err(e) => Err(format!("{path}: {e}").into()),
        }
    }
}

/// A regular expression that matches exactly this text.
pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if !c.is_alphanumeric() && c != '_' {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
