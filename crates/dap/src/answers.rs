//! Requests with their arguments, and the answers to them.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A request of the client's.
#[derive(Clone, Debug)]
pub struct Request {
    /// The client's sequence number.
    pub seq: i64,
    /// Name of the request.
    pub command: String,
    /// Its arguments; `null` if there are none.
    pub arguments: Value,
}

impl Request {
    /// Reads a message. `Ok(None)`: it is not a request, and needs no answer.
    ///
    /// # Errors
    /// The fault, and the message's number, if it has one.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, (i64, String)> {
        let message: Value =
            serde_json::from_slice(bytes).map_err(|e| (0, format!("no JSON: {e}")))?;
        let seq = message["seq"].as_i64().unwrap_or(0);
        match message["type"].as_str() {
            Some("request") => {}
            Some("response" | "event") => return Ok(None),
            _ => return Err((seq, "a message has the type 'request'".to_owned())),
        }
        let Some(command) = message["command"].as_str() else {
            return Err((seq, "a request has a command".to_owned()));
        };
        Ok(Some(Self {
            seq,
            command: command.to_owned(),
            arguments: message["arguments"].clone(),
        }))
    }
}

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Text for the user of the editor.
    pub message: String,
    /// Whether the editor should show it although it does not look at the answer.
    pub show: bool,
}

impl Refusal {
    /// A refusal that the editor should show.
    pub fn shown(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            show: true,
        }
    }
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(message: T) -> Self {
        Self {
            message: message.into(),
            show: false,
        }
    }
}

/// The body of an answer.
pub type Answer = Result<Value, Refusal>;

/// Reads the arguments of a request.
///
/// # Errors
/// The argument that is missing or of another type.
pub fn arguments<T: DeserializeOwned>(value: &Value) -> Result<T, Refusal> {
    let value = match value {
        Value::Null => json!({}),
        other => other.clone(),
    };
    serde_json::from_value(value).map_err(|e| format!("arguments: {e}").into())
}

/// The message that answers a request.
pub fn response(request: &Request, answer: &Answer) -> Value {
    let mut message = json!({
        "type": "response",
        "request_seq": request.seq,
        "command": request.command,
        "success": answer.is_ok(),
    });
    match answer {
        Ok(Value::Null) => {}
        Ok(body) => message["body"] = body.clone(),
        Err(refusal) => {
            message["message"] = json!(refusal.message);
            // A format may have variables in braces, and the text may contain braces.
            message["body"] = json!({ "error": {
                "id": 1,
                "format": "{reason}",
                "variables": { "reason": refusal.message },
                "showUser": refusal.show,
            }});
        }
    }
    message
}
