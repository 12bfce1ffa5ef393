//! The places of accesses in a recording: positions, modules, call stacks. Must never judge them.

use relive_engine::Failure;
use relive_engine::timeline::{Fine, RaceAccess, Spot, Timeline};
use relive_symbols::{Frame, Named, Space, View, unwind, view};

use crate::names::{self, ReplayedGuest};

/// The position right before an access; right behind that of a system call.
pub fn spot(timeline: &Timeline, access: &RaceAccess) -> Spot {
    Spot {
        event: access.event,
        tick: access.tick,
        fine: match access.call {
            None => Fine::Pc(access.pc),
            Some(_) => Fine::Steps(0),
        },
        thread: Some(access.thread),
        process: Some(timeline.status().process),
    }
}

/// The frames of a thread at the timeline's position, and the view of its variables.
///
/// # Errors
/// The process is gone.
pub fn frames_at(
    timeline: &mut Timeline,
    space: &Space,
    thread: u32,
) -> Result<(Vec<Frame>, Option<View>), Failure> {
    let host = timeline.guest();
    let threads = host.threads()?;
    let Some(slot) = threads.iter().find(|t| t.index == thread).map(|t| t.slot) else {
        return Ok((Vec::new(), None));
    };
    let Some(registers) = host.registers(slot)? else {
        return Ok((Vec::new(), None));
    };
    let mut guest = ReplayedGuest(host);
    let frames = unwind(&mut guest, space, &names::registers(&registers));
    let seen = frames
        .first()
        .map(|frame| view(&mut guest, space, frame, registers.fs_base));
    Ok((frames, seen))
}

/// The modules of a process: looked for again only where one comes up that is not known, as that takes
/// long.
#[derive(Default)]
pub struct Modules(Option<Space>);

impl Modules {
    /// Those at the timeline's position, among which is that of an instruction which is executed there.
    pub fn at(&mut self, timeline: &mut Timeline, pc: u64) -> &Space {
        let known = self.0.take();
        let known = known.filter(|space| space.name(pc).module.is_some());
        self.0
            .insert(known.unwrap_or_else(|| names::space(timeline)))
    }

    /// The name of an instruction, if its module is known.
    pub fn name(&self, pc: u64) -> Option<Named> {
        let named = self.0.as_ref()?.name(pc);
        named.module.is_some().then_some(named)
    }
}
