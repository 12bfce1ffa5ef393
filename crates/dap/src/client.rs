//! The client: a thread that reads from it, and a pen that writes to it.

use std::io::{BufReader, Read, Write};
use std::sync::mpsc::Sender;
use std::thread;

use serde_json::{Value, json};

use crate::answers::Request;
use crate::event::Event;
use crate::wire;

/// Writes messages, each with its sequence number.
pub struct Pen {
    output: Box<dyn Write + Send>,
    seq: u64,
    /// The client is gone: nothing is written any more.
    gone: bool,
}

impl Pen {
    pub fn new(output: Box<dyn Write + Send>) -> Self {
        Self {
            output,
            seq: 0,
            gone: false,
        }
    }

    pub fn write(&mut self, mut message: Value) {
        if self.gone {
            return;
        }
        self.seq += 1;
        message["seq"] = json!(self.seq);
        // The reading thread notices too that the client is gone.
        self.gone = wire::write(&mut self.output, &message).is_err();
    }

    pub fn event(&mut self, event: &str, body: Value) {
        self.write(json!({ "type": "event", "event": event, "body": body }));
    }

    /// Text in the editor's console.
    pub fn say(&mut self, category: &str, text: &str) {
        if !text.is_empty() {
            self.event("output", json!({ "category": category, "output": text }));
        }
    }
}

/// Reads requests until the client disconnects.
pub fn listen(input: Box<dyn Read + Send>, events: Sender<Event>) {
    thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            let event = match wire::read(&mut input) {
                Ok(Some(bytes)) => match Request::read(&bytes) {
                    Ok(Some(request)) => Event::Request(request),
                    Ok(None) => continue,
                    Err((seq, what)) => Event::Nonsense(seq, what),
                },
                Ok(None) => Event::ClientGone(None),
                Err(e) => Event::ClientGone(Some(e)),
            };
            let last = matches!(event, Event::ClientGone(_));
            // The session is over: its receiver is gone.
            if events.send(event).is_err() || last {
                return;
            }
        }
    });
}
