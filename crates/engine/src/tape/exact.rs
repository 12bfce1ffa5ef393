//! The exact tape of a thread: the output of a replay that has found the turns of threads which were recorded at
//! the same time. Each event is copied when it has happened, with the turns between them.

use relive_trace::{Event, Kind, Readings, Syscall};

use super::out::{SYNCHRONOUS, TapeOut};
use crate::shm::Logged;

/// An exact tape that is written.
pub struct ExactTape {
    out: TapeOut,
    /// The thread has given up its turn inside the call that its next event ends.
    pub parked: bool,
    /// The last switch: its tick, and instructions since the last event or tick of the recording. Steps
    /// behind it are counted from there.
    switch: Option<(u64, u32)>,
}

impl ExactTape {
    /// A tape that goes into a ring.
    pub fn new(out: TapeOut) -> Self {
        Self {
            out,
            parked: false,
            switch: None,
        }
    }

    /// It goes on from another one, on which the thread lost its turn so many steps behind that tick.
    pub fn goes_on(&mut self, ticks: u64, steps: u32) {
        self.switch = Some((ticks, steps));
    }

    /// The readings of clocks that the thread has made since its last event or switch.
    ///
    /// # Errors
    /// No supervisor stores them.
    pub fn readings(
        &mut self,
        ticks: u64,
        since: u64,
        readings: &[relive_trace::Reading],
    ) -> Logged {
        if readings.is_empty() {
            return Ok(());
        }
        let kind = Kind::Readings {
            full: false,
            since,
            readings: Readings::new(readings),
        };
        self.out.note(ticks, kind)
    }

    /// The thread loses its turn here, at a position.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn switch(&mut self, ticks: u64, digest: u32, steps: u32) -> Logged {
        let kind = Kind::Switch {
            steps: steps - self.behind(ticks),
        };
        self.out.append(&Event {
            ticks,
            digest,
            kind,
        })?;
        self.switch = Some((ticks, steps));
        Ok(())
    }

    /// Steps that are counted from the last switch, and not from before it.
    fn behind(&self, ticks: u64) -> u32 {
        match self.switch {
            Some((at, steps)) if at == ticks => steps,
            _ => 0,
        }
    }

    /// An event of the recording has happened.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn copy(&mut self, event: &Event<'_>) -> Logged {
        let behind = self.behind(event.ticks);
        let less = |steps: u32| match steps {
            SYNCHRONOUS => steps,
            _ => steps.saturating_sub(behind),
        };
        let kind = match event.kind {
            Kind::Syscall(call) => Kind::Syscall(Syscall {
                switched: call.switched | std::mem::take(&mut self.parked),
                ..call
            }),
            Kind::Signal(mut signal) => {
                signal.steps = less(signal.steps);
                Kind::Signal(signal)
            }
            Kind::Switch { steps } => Kind::Switch { steps: less(steps) },
            Kind::End { how, code, steps } => Kind::End {
                how,
                code,
                steps: less(steps),
            },
            kind => kind,
        };
        self.out.append(&Event { kind, ..*event })?;
        self.switch = None;
        Ok(())
    }

    /// This host process writes it from now on, by the supervisor's id.
    pub fn is_of(&self, pid: u32) {
        self.out.is_of(pid);
    }

    /// No event follows.
    pub fn close(&self) {
        self.out.close();
    }
}
