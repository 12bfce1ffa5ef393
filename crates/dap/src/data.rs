//! Data breakpoints: watched memory.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::breakpoints::{Group, Wanted};
use crate::memory::address;
use crate::mi::quote;
use crate::program::Frame;
use crate::session::Session;

/// Size of the largest variable that can be watched.
const LENGTH_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataBreakpointInfo {
    name: String,
    variables_reference: Option<i64>,
    frame_id: Option<i64>,
    #[serde(default)]
    as_address: bool,
    bytes: Option<u64>,
}

/// The id that the client returns to set a breakpoint: memory, independent of any frame.
#[derive(Deserialize, Serialize)]
struct DataId {
    name: String,
    address: u64,
    bytes: u64,
    /// Its type, in the syntax of its language.
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct SetDataBreakpoints {
    breakpoints: Vec<DataBreakpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataBreakpoint {
    data_id: String,
    access_type: Option<String>,
    condition: Option<String>,
    hit_condition: Option<String>,
}

impl Session {
    pub(crate) fn data_breakpoint_info(&mut self, given: &Json) -> Answer {
        let wanted: DataBreakpointInfo = arguments(given)?;
        match self.without_calls(|session| session.data_id(&wanted))? {
            Ok(id) => Ok(json!({
                "dataId": json!(id).to_string(),
                "description": format!("{} ({} bytes at {:#x})", id.name, id.bytes, id.address),
                "accessTypes": ["read", "write", "readWrite"],
                "canPersist": false,
            })),
            // A refusal is an answer here.
            Err(refusal) => Ok(json!({ "dataId": null, "description": refusal.message })),
        }
    }

    fn data_id(&mut self, wanted: &DataBreakpointInfo) -> Result<DataId, Refusal> {
        let name = wanted.name.clone();
        let id = if wanted.as_address {
            DataId {
                address: address(&name, 0)?,
                bytes: wanted.bytes.unwrap_or(8),
                kind: None,
                name,
            }
        } else {
            let (frame, expression) = match (wanted.variables_reference, wanted.frame_id) {
                (Some(reference), _) if reference > 0 => self.expression(reference, &name)?,
                (_, Some(frame)) => (Some(self.frame_of(frame)?), name.clone()),
                _ => (None, name.clone()),
            };
            let address = self.address_of(frame, &expression)?;
            // Go has no sizeof.
            let behind = self.address_in(frame, &format!("&({expression}) + 1"))?;
            let size = behind.wrapping_sub(address);
            let object = self.object(frame, &expression)?;
            DataId {
                name,
                address,
                bytes: wanted.bytes.unwrap_or(size),
                kind: object
                    .text("type")
                    .filter(|_| wanted.bytes.is_none_or(|n| n == size))
                    .map(str::to_owned),
            }
        };
        match id.bytes {
            1..=LENGTH_MAX => Ok(id),
            n => Err(format!("{n} bytes cannot be watched").into()),
        }
    }

    /// The address of an expression's value.
    pub(crate) fn address_of(
        &mut self,
        frame: Option<Frame>,
        expression: &str,
    ) -> Result<u64, Refusal> {
        self.address_in(frame, &format!("&({expression})"))
    }

    /// The value of a pointer.
    fn address_in(&mut self, frame: Option<Frame>, pointer: &str) -> Result<u64, Refusal> {
        let text = self.value_of(frame, pointer)?;
        // "(int *) 0x1234 <name>"
        let digits = text.split("0x").nth(1).unwrap_or("");
        let end = digits.find(|c: char| !c.is_ascii_hexdigit());
        let digits = &digits[..end.unwrap_or(digits.len())];
        u64::from_str_radix(digits, 16).map_err(|_| format!("{pointer} is no address").into())
    }

    /// gdb's text for the value of an expression.
    pub(crate) fn value_of(
        &mut self,
        frame: Option<Frame>,
        expression: &str,
    ) -> Result<String, Refusal> {
        let options = Frame::options_of(frame);
        let command = format!("-data-evaluate-expression {options} {}", quote(expression));
        let answer = self.ask(&command)?;
        Ok(answer.text("value").unwrap_or("").to_owned())
    }

    pub(crate) fn set_data_breakpoints(&mut self, given: &Json) -> Answer {
        let set: SetDataBreakpoints = arguments(given)?;
        let mut all = Vec::new();
        for b in set.breakpoints {
            all.push(self.data_wanted(b));
        }
        self.replace(Group::Data, all)
    }

    fn data_wanted(&mut self, b: DataBreakpoint) -> Result<Wanted, Refusal> {
        let id: DataId = serde_json::from_str(&b.data_id)
            .map_err(|_| "a dataId is one of dataBreakpointInfo's")?;
        let command = match b.access_type.as_deref() {
            Some("read") => "-break-watch -r",
            Some("readWrite") => "-break-watch -a",
            Some("write") | None => "-break-watch",
            Some(other) => return Err(format!("there is no access '{other}'").into()),
        };
        let typed = self.watched(&id);
        let language = typed.is_none().then_some("c");
        Ok(Wanted {
            command,
            place: quote(&typed.unwrap_or_else(|| untyped(&id))),
            name: id.name,
            condition: b.condition,
            hit: b.hit_condition,
            language,
        })
    }

    /// An expression for the memory that is valid everywhere, of the variable's own type, if the
    /// current language can express that.
    fn watched(&mut self, id: &DataId) -> Option<String> {
        let DataId { address, bytes, .. } = id;
        let kind = id.kind.as_ref()?;
        [
            format!("*({kind} *) {address:#x}"),
            format!("*({address:#x} as *mut {kind})"),
        ]
        .into_iter()
        .find(|typed| {
            let size = self.value_of(None, &format!("sizeof({typed})"));
            size.is_ok_and(|s| s.parse() == Ok(*bytes))
        })
    }

    /// Runs a closure during which gdb calls no functions of the program.
    pub(crate) fn without_calls<T>(
        &mut self,
        what: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, Refusal> {
        self.ask("-gdb-set may-call-functions off")?;
        let done = what(self);
        self.ask("-gdb-set may-call-functions on")?;
        Ok(done)
    }
}

/// Memory as one of C's integers, or as bytes.
fn untyped(id: &DataId) -> String {
    let DataId { address, bytes, .. } = id;
    match bytes {
        1 => format!("*(unsigned char *) {address:#x}"),
        2 => format!("*(short *) {address:#x}"),
        4 => format!("*(int *) {address:#x}"),
        8 => format!("*(long *) {address:#x}"),
        n => format!("*(unsigned char (*)[{n}]) {address:#x}"),
    }
}
