//! The processes of a client: the one that is debugged, and children of it that the client follows
//! or holds (gdb's `set follow-fork-mode child`, `set detach-on-fork off`). Each is a timeline of
//! its own.
//!
//! gdbstub knows one process. This module routes each packet to its process, and answers packets
//! that concern several, or a child that is not open. A child's timeline is opened when a packet
//! needs it: most children are let go at once.

use std::path::PathBuf;

use relive_engine::Failure;
use relive_engine::timeline::{child, follow};
use relive_trace::Trace;

use crate::at::At;
use crate::debuggee::Debuggee;
use crate::packets;
use crate::thread_locals::Locate;
use crate::vfile::{MOST_OPEN, decode};

/// Most children that a client may hold at a time: each is a replay.
const MOST: usize = 16;
/// The answer to an impossible request.
const NO: &str = "E01";

/// A process, and whether the client still has it.
struct Member {
    debuggee: Debuggee,
    held: bool,
}

/// The destination of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    /// This member.
    To(usize),
    /// None: this is the answer.
    Answer(Vec<u8>),
}

/// All processes of a client. The first one is the session's own, and always there.
pub struct Family {
    members: Vec<Member>,
    /// The process that packets refer to.
    current: usize,
    /// Children that were reported to the client and are not open: process id, and parent.
    told: Vec<(u32, usize)>,
    /// The one of these children that packets refer to.
    away: Option<u32>,
    /// Its thread, from the packet `Hg`, until the library has heard of it.
    unheard: Option<(u32, Vec<u8>)>,
    trace: PathBuf,
    /// Finds thread-local variables.
    pub locate: Locate,
}

impl Family {
    /// Of one process.
    pub fn of(debuggee: Debuggee, trace: PathBuf, locate: Locate) -> Self {
        Self {
            members: vec![Member {
                debuggee,
                held: true,
            }],
            current: 0,
            told: Vec::new(),
            away: None,
            unheard: None,
            trace,
            locate,
        }
    }

    /// The process of the session.
    pub fn first(&mut self) -> &mut Debuggee {
        &mut self.members[0].debuggee
    }

    /// The process that packets refer to.
    pub fn current(&self) -> usize {
        self.current
    }

    /// One of them.
    pub fn get(&mut self, member: usize) -> &mut Debuggee {
        &mut self.members[member].debuggee
    }

    /// Forgets the settings of a client that has gone. Only the first process stays.
    pub fn forget_client(&mut self) {
        self.members.truncate(1);
        self.members[0].held = true;
        self.members[0].debuggee.forget_client();
        (self.current, self.away, self.unheard) = (0, None, None);
        self.told.clear();
    }

    /// The choice of a thread that the library must hear before a member's next packet.
    pub fn take_unheard(&mut self, member: usize) -> Option<Vec<u8>> {
        let pid = self.members[member].debuggee.pid;
        let unheard = self.unheard.take_if(|(other, _)| *other == pid);
        unheard.map(|(_, body)| body)
    }

    /// Notes a child that is reported to the client.
    pub fn tell(&mut self, pid: u32) {
        self.told.retain(|(other, _)| *other != pid);
        self.told.push((pid, self.current));
    }

    fn member(&self, pid: u32) -> Option<usize> {
        let same = |m: &Member| m.held && m.debuggee.pid == pid;
        self.members.iter().position(same)
    }

    fn held(&self) -> impl Iterator<Item = &Debuggee> {
        self.members.iter().filter(|m| m.held).map(|m| &m.debuggee)
    }

    fn is_told(&self, pid: u32) -> bool {
        self.told.iter().any(|(other, _)| *other == pid)
    }

    /// Opens a child that was reported. `None`: there is no such child, or there are too many.
    fn open(&mut self, pid: u32) -> Result<Option<usize>, Failure> {
        if let Some(member) = self.member(pid) {
            return Ok(Some(member));
        }
        let Some(at) = self.told.iter().position(|(other, _)| *other == pid) else {
            return Ok(None);
        };
        if self.members.len() >= MOST {
            return Ok(None);
        }
        let (_, parent) = self.told.remove(at);
        let parent = &mut self.members[parent].debuggee;
        let trace = Trace::open(&self.trace).map_err(Failure::setup)?;
        let Some(process) = child(&trace, parent.status().process, pid)? else {
            return Ok(None);
        };
        let way = follow(&trace, process)?;
        let mut debuggee = Debuggee::open(&self.trace, &way, At::Start)?;
        debuggee.inherit(parent);
        parent.known.push(pid);
        debuggee.number = self.members.len() as u32;
        self.members.push(Member {
            debuggee,
            held: true,
        });
        Ok(Some(self.members.len() - 1))
    }

    /// Opens a child if a packet needs it; a failure becomes a message for the client.
    fn try_open(&mut self, pid: u32) -> Option<usize> {
        match self.open(pid) {
            Ok(found) => found,
            Err(e) => {
                let current = self.current;
                self.get(current).news.push(e.to_string());
                None
            }
        }
    }

    /// The destination of a packet.
    pub fn route(&mut self, body: &[u8]) -> Route {
        let Ok(text) = std::str::from_utf8(body) else {
            return self.real(body);
        };
        if let Some(id) = text.strip_prefix("Hg") {
            return self.select(id);
        }
        if let Some(id) = text.strip_prefix("Hc") {
            if let Some(member) = process(id).and_then(|pid| self.try_open(pid)) {
                self.current = member;
            }
            return Route::To(self.current);
        }
        if let Some(id) = text.strip_prefix("D;") {
            return self.let_go(id);
        }
        if let Some(id) = text.strip_prefix("vKill;") {
            // A client that starts again at a fork kills the new child too.
            let is_told = u32::from_str_radix(id, 16).is_ok_and(|pid| self.is_told(pid));
            if is_told || self.held().count() > 1 {
                return self.let_go(id);
            }
        }
        if let Some(actions) = text.strip_prefix("vCont;") {
            let id = actions.split_once(':').map_or("", |(_, id)| id);
            if let Some(member) = process(id).and_then(|pid| self.try_open(pid)) {
                self.current = member;
            }
            self.away = None;
            return Route::To(self.current);
        }
        if text.starts_with("vRun") {
            self.members[0].held = true;
            (self.current, self.away) = (0, None);
            return Route::To(0);
        }
        if let Some(id) = text.strip_prefix('T') {
            return match process(id) {
                Some(pid) if self.is_told(pid) => answer("OK"),
                Some(pid) => self.member(pid).map_or_else(|| answer(NO), Route::To),
                None => Route::To(self.current),
            };
        }
        if let Some(member) = self.named(text) {
            return Route::To(member);
        }
        if self.held().count() > 1 {
            if text == "qfThreadInfo" {
                return answer(&self.threads());
            }
            if text == "qsThreadInfo" {
                return answer("l");
            }
        }
        self.real(body)
    }

    /// The member that a query itself names, regardless of the current one.
    fn named(&mut self, text: &str) -> Option<usize> {
        let hex = |word: &str| u32::from_str_radix(word, 16).ok();
        if let Some(id) = text.strip_prefix("qThreadExtraInfo,") {
            return self.member(process(id)?);
        }
        if let Some(rest) = text.strip_prefix("qXfer:exec-file:read:") {
            return self.try_open(hex(rest.split(':').next()?)?);
        }
        let rest = text.strip_prefix("vFile:")?;
        let (what, rest) = rest.split_once(':')?;
        let first = rest.split(',').next()?;
        match what {
            "open" | "readlink" => {
                let path = String::from_utf8(decode(first)?).ok()?;
                let pid = path.strip_prefix("/proc/")?.split('/').next()?;
                self.try_open(pid.parse().ok()?)
            }
            "pread" | "close" | "fstat" => {
                let member = hex(first)? as usize / MOST_OPEN;
                (member < self.members.len()).then_some(member)
            }
            _ => None,
        }
    }

    /// The client selects another process.
    fn select(&mut self, id: &str) -> Route {
        (self.away, self.unheard) = (None, None);
        let Some(pid) = process(id) else {
            return Route::To(self.current);
        };
        if let Some(member) = self.member(pid) {
            self.current = member;
            return Route::To(member);
        }
        self.away = Some(pid);
        self.unheard = Some((pid, format!("Hg{id}").into_bytes()));
        answer("OK")
    }

    /// The client detaches from a process.
    fn let_go(&mut self, id: &str) -> Route {
        let Ok(pid) = u32::from_str_radix(id, 16) else {
            return Route::To(self.current);
        };
        let Some(member) = self.member(pid) else {
            self.told.retain(|(other, _)| *other != pid);
            if self.away == Some(pid) {
                self.away = None;
            }
            return answer("OK");
        };
        // A client that lets a parent go right after a fork follows the child.
        let child = self.told.iter().rev().find(|(_, parent)| *parent == member);
        let child = child.map(|(pid, _)| *pid);
        let child = child.and_then(|pid| self.try_open(pid));
        if self.held().count() == 1 {
            return Route::To(member);
        }
        self.members[member].held = false;
        if self.current == member {
            let other = child.or_else(|| self.members.iter().position(|m| m.held));
            self.current = other.unwrap_or(0);
        }
        answer("OK")
    }

    /// A packet that needs the current process.
    fn real(&mut self, body: &[u8]) -> Route {
        let Some(pid) = self.away else {
            return Route::To(self.current);
        };
        // gdb removes its breakpoints from a child's memory and lets it go. They are not there.
        if body.first().is_some_and(|b| b"zZ".contains(b)) {
            return answer("OK");
        }
        // Packets that concern no process.
        if body.first().is_some_and(|b| b"qQ?!v".contains(b)) {
            return Route::To(self.current);
        }
        match self.try_open(pid) {
            Some(member) => {
                (self.current, self.away) = (member, None);
                Route::To(member)
            }
            None => answer(NO),
        }
    }

    /// All threads, in the protocol's syntax.
    fn threads(&self) -> String {
        let each: Vec<String> = self
            .held()
            .flat_map(|d| {
                let pid = d.pid;
                d.threads
                    .iter()
                    .map(move |t| format!("p{pid:x}.{:x}", t.tid))
            })
            .collect();
        format!("m{}", each.join(","))
    }
}

fn answer(text: &str) -> Route {
    Route::Answer(packets::packet(text))
}

/// The process in a thread's id `pPID.TID`; `None`: any, or all.
fn process(id: &str) -> Option<u32> {
    let pid = id.strip_prefix('p')?.split('.').next()?;
    let pid = u32::from_str_radix(pid, 16).ok()?;
    (pid != 0).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_named_by_threads() {
        assert_eq!(process("p1f.20"), Some(0x1f));
        assert_eq!(process("p1f.-1"), Some(0x1f));
        assert_eq!(process("p1f"), Some(0x1f));
        for any in ["p0.0", "p-1.-1", "-1", "0", "1f", "", "p", "px.1"] {
            assert_eq!(process(any), None, "{any}");
        }
    }
}
