//! What the client has numbers for in the recorded program: threads, frames, and what has
//! variables in it.

use crate::mi::Value;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The recorded id.
    pub id: i64,
    /// gdb's number.
    pub gdb: u32,
    /// Its name, and where its tape is: `worker p0.t3`.
    pub name: String,
}

impl Thread {
    /// From gdb's own list.
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

/// A frame, as gdb finds it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// gdb's number of the thread.
    pub thread: u32,
    /// 0 is the innermost.
    pub level: u32,
}

impl Frame {
    /// For commands of gdb's.
    pub fn options(self) -> String {
        format!("--thread {} --frame {}", self.thread, self.level)
    }

    /// The same, nothing for no frame.
    pub fn options_of(frame: Option<Self>) -> String {
        frame.map_or(String::new(), Self::options)
    }
}

/// What has variables in it.
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
    /// What the function that was just left has returned: gdb's name for it.
    Returned(Frame, String),
    /// The parts of a variable.
    Parts(Object),
}

/// A variable object.
#[derive(Clone, Debug)]
pub struct Object {
    /// gdb's name for it.
    pub name: String,
    /// The frame that it is of.
    pub frame: Option<Frame>,
    /// A pretty-printer says what its parts are.
    pub dynamic: bool,
    /// Its parts are keys and values by turns.
    pub map: bool,
    /// Its parts are numbered.
    pub list: bool,
}
