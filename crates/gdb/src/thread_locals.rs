//! Thread-local variables: gdb leaves it to the server to find them (`qGetTLSAddr`). A server of a
//! live process asks the C library's own helper; this one asks the caller, who has symbols.

use std::path::Path;

use gdbstub::common::Tid;
use relive_engine::timeline::ReplayProcess;

use crate::debuggee::Debuggee;

/// A variable of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLocal {
    /// The addresses of its module less those in the file.
    pub bias: u64,
    /// The thread's pointer.
    pub pointer: u64,
    /// Its offset in the module's block.
    pub offset: u64,
}

/// Finds the address of such a variable in a replay of the trace in this folder.
pub type Locate = fn(&mut ReplayProcess, &Path, ThreadLocal) -> Option<u64>;

/// A client's query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    tid: Tid,
    offset: u64,
    /// Address of the dynamic linker's `struct link_map` for the module; 0 if there is no linker.
    link_map: u64,
}

impl Asked {
    /// The query in a packet, if it is one (`qGetTLSAddr:thread,offset,module`).
    pub fn of(body: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(body.strip_prefix(b"qGetTLSAddr:")?).ok()?;
        let mut parts = rest.split(',');
        let thread = parts.next()?;
        let tid = thread.rsplit('.').next()?;
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (offset, link_map) = (number()?, number()?);
        let tid = usize::from_str_radix(tid, 16).ok().and_then(Tid::new)?;
        parts.next().is_none().then_some(Self {
            tid,
            offset,
            link_map,
        })
    }
}

impl Debuggee {
    /// The address of the requested variable.
    pub(crate) fn thread_local(&mut self, asked: &Asked, locate: Locate) -> Option<u64> {
        let slot = self.slot(asked.tid)?;
        let trace = self.timeline.trace().to_owned();
        let guest = self.timeline.guest();
        let pointer = guest.registers(slot).ok()??.fs_base;
        let bias = match asked.link_map {
            0 => 0,
            // The first member of `link_map` is the bias (link.h).
            at => u64::from_le_bytes(guest.read(at, 8).ok()?.try_into().ok()?),
        };
        let wanted = ThreadLocal {
            bias,
            pointer,
            offset: asked.offset,
        };
        locate(guest, &trace, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_understood_or_none() {
        let of = |text: &str| Asked::of(text.as_bytes());
        let asked = Asked {
            tid: Tid::new(0x2409).unwrap(),
            offset: 0x10,
            link_map: 0x1000_8000_1160,
        };
        assert_eq!(of("qGetTLSAddr:p2409.2409,10,100080001160"), Some(asked));
        assert_eq!(of("qGetTLSAddr:2409,10,100080001160"), Some(asked));
        for wrong in [
            "",
            "p1.-1,0,0",
            "p1.0,0,0",
            "1,0",
            "1,0,0,0",
            "1,x,0",
            "1,,0",
        ] {
            assert_eq!(of(&format!("qGetTLSAddr:{wrong}")), None, "{wrong}");
        }
    }
}
