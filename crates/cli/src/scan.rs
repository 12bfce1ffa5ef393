//! One pass over all tapes: their content, and how they ended.

use relive_engine::Failure;
use relive_engine::timeline::{Beginning, beginning};
use relive_trace::{Ending, Image, Kind, TapeId, Trace};

use crate::progress::Bar;

/// The content of a trace's tapes.
pub struct Scan {
    /// One for each tape, schedules included, in order.
    pub tapes: Vec<TapeScan>,
}

/// The content of one tape.
pub struct TapeScan {
    /// The tape.
    pub id: TapeId,
    /// Events on it.
    pub events: u64,
    /// Number of events with a digest of the registers.
    pub digests: u64,
    /// Ticks of the thread at its last event.
    pub ticks: u64,
    /// Kernel thread id while it was recorded.
    pub tid: u32,
    /// How it ended, if it did: the kind, and exit code or signal.
    pub end: Option<(Ending, i32)>,
    /// Paths of the programs that began on it, in order.
    pub programs: Vec<String>,
}

impl TapeScan {
    /// Takes over the facts about a thread of which an excerpt has the rest of its tape only.
    fn goes_on(&mut self, begins: &Beginning) {
        let index = self.id.thread;
        if let Some((_, tid)) = begins.threads.iter().find(|(thread, _)| *thread == index) {
            self.tid = *tid;
            let program = String::from_utf8_lossy(&begins.program).into_owned();
            self.programs.insert(0, program);
        }
    }
}

impl Scan {
    /// Reads all tapes.
    ///
    /// # Errors
    /// A tape is damaged.
    pub fn of(trace: &Trace) -> Result<Self, Failure> {
        let total = trace.tapes().iter().map(|tape| tape.raw_bytes).sum();
        let bar = Bar::bytes(total, "reading");
        let mut before = 0;
        let mut tapes = Vec::new();
        for info in trace.tapes() {
            tapes.push(tape(trace, info.id, &bar, before, info.raw_bytes).map_err(Failure::setup)?);
            before += info.raw_bytes;
        }
        for tapes in tapes.chunk_by_mut(|a, b| a.id.process == b.id.process) {
            if let Some(begins) = beginning(trace, tapes[0].id.process)? {
                tapes.iter_mut().for_each(|tape| tape.goes_on(&begins));
            }
        }
        Ok(Self { tapes })
    }

    fn all_threads(&self) -> impl Iterator<Item = &TapeScan> {
        self.tapes.iter().filter(|tape| !tape.id.is_schedule())
    }

    /// The threads of one process.
    pub fn threads_of(&self, process: u32) -> impl Iterator<Item = &TapeScan> {
        self.all_threads()
            .filter(move |tape| tape.id.process == process)
    }

    /// Indexes of the processes.
    pub fn processes(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.tapes.iter().map(|tape| tape.id.process).collect();
        all.dedup();
        all
    }

    /// Threads of all processes.
    pub fn threads(&self) -> u64 {
        self.all_threads().count() as u64
    }

    /// Events on all tapes, schedules included.
    pub fn events(&self) -> u64 {
        self.tapes.iter().map(|tape| tape.events).sum()
    }

    /// Events with a digest of the registers.
    pub fn digests(&self) -> u64 {
        self.tapes.iter().map(|tape| tape.digests).sum()
    }

    /// Ticks of all threads.
    pub fn ticks(&self) -> u64 {
        self.tapes.iter().map(|tape| tape.ticks).sum()
    }

    /// How a process ended, according to its own tapes.
    pub fn end_of(&self, process: u32) -> Option<(Ending, i32)> {
        let ends = || self.threads_of(process).filter_map(|thread| thread.end);
        let whole = ends().find(|(how, _)| *how != Ending::ThreadExit);
        // Without an end of the whole process, its first thread's end counts.
        whole.or_else(|| ends().next())
    }
}

fn tape(
    trace: &Trace,
    id: TapeId,
    bar: &Bar,
    before: u64,
    bytes: u64,
) -> relive_trace::Result<TapeScan> {
    let mut tape = trace.tape(id)?;
    // An excerpt has the rest of a tape.
    let base = trace.base(id);
    let mut scan = TapeScan {
        id,
        events: 0,
        digests: 0,
        ticks: 0,
        tid: 0,
        end: None,
        programs: Vec::new(),
    };
    // A reader's byte position is not known; a usual event has about this many.
    const USUAL: u64 = 24;
    while let Some(event) = tape.next()? {
        scan.events += 1;
        scan.digests += u64::from(event.digest != 0);
        scan.ticks = event.ticks.saturating_sub(base.ticks);
        match event.kind {
            Kind::Start(start) => scan.tid = start.tid,
            Kind::Exec(image) => {
                let image = Image::decode(image)?;
                scan.programs
                    .push(String::from_utf8_lossy(&image.path).into_owned());
            }
            Kind::End { how, code, .. } => scan.end = Some((how, code)),
            _ => {}
        }
        if scan.events.is_multiple_of(4096) {
            bar.at(before + bytes.min(scan.events * USUAL));
        }
    }
    Ok(scan)
}
