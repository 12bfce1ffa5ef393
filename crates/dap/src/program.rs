//! The objects of the recorded program that the client refers to by number: threads, frames, and
//! containers of variables.

use crate::mi::Value;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The recorded id.
    pub id: i64,
    /// gdb's number.
    pub gdb: u32,
    /// Its name and its tape: `worker p0.t3`.
    pub name: String,
}

impl Thread {
    /// From an entry of gdb's list.
    pub fn read(value: &Value) -> Option<Self> {
        let gdb = value.number("id")?;
        // "Thread PID.TID"
        let target = value.text("target-id").unwrap_or("");
        let id = target
            .rsplit(['.', ' '])
            .next()
            .and_then(|id| id.parse().ok());
        let name = value.text("details").or(value.text("name"));
        Some(Self {
            id: id.unwrap_or(i64::from(gdb)),
            gdb,
            name: name.unwrap_or(target).to_owned(),
        })
    }
}

/// A frame, as gdb identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// gdb's number of the thread.
    pub thread: u32,
    /// 0 is the innermost.
    pub level: u32,
}

impl Frame {
    /// Options for gdb's commands.
    pub fn options(self) -> String {
        format!("--thread {} --frame {}", self.thread, self.level)
    }

    /// The same, empty without a frame.
    pub fn options_of(frame: Option<Self>) -> String {
        frame.map_or(String::new(), Self::options)
    }
}

/// A container of variables.
#[derive(Clone, Debug)]
pub enum Container {
    /// Arguments of a frame's function.
    Arguments(Frame),
    /// Local variables of a frame.
    Locals(Frame),
    /// Registers, as a frame has them.
    Registers(Frame),
    /// The vector registers.
    Vectors(Frame),
    /// The return value of the function that was just left, by gdb's name for it.
    Returned(Frame, String),
    /// The parts of a variable.
    Parts(Object),
}

/// A variable object.
#[derive(Clone, Debug)]
pub struct Object {
    /// gdb's name for it.
    pub name: String,
    /// Its frame.
    pub frame: Option<Frame>,
    /// A pretty-printer determines its parts.
    pub dynamic: bool,
    /// Its parts are keys and values by turns.
    pub map: bool,
    /// Its parts are numbered.
    pub list: bool,
}
