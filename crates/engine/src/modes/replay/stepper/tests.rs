//! The seam between a tape and the stops of a run, without guest code: all tests end before any runs.

use std::convert::Infallible;

use relive_dbt::{InstrOp, Stop};
use relive_host::{GuestAddr, Reg};
use relive_trace::{
    Args, Encoder, Ending, Event, Kind, Manifest, Reading, Readings, Refs, Syscall, TapeId, Trace,
    TraceWriter, Writes,
};
use tempfile::TempDir;

use super::execute::{Began, Toward};
use super::process::Stepper;
use super::stops::{NoStops, Pace, Stops};
use crate::failure::Result;
use crate::flow::Flow;
use crate::guide::protocol::Ended;
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::hook_state::{self, ReplayState};
use crate::modes::replay::mode::Replay;
use crate::modes::replay::session::Session;
use crate::sharing::objects;
use crate::task::Task;
use crate::testing::{Guest, machine};

const TAPE: TapeId = TapeId::new(0, 0);
const GETPPID: u32 = libc::SYS_getppid as u32;

/// A process that is to be replayed, before its first event.
struct Replayed {
    stepper: Stepper,
    _trace: TempDir,
    /// One test at a time has the machine.
    _guest: Guest,
}

fn event(ticks: u64, kind: Kind<'_>) -> Event<'_> {
    Event {
        ticks,
        digest: 0,
        kind,
    }
}

/// A switch so many instructions behind a tick.
fn switch(ticks: u64, steps: u32) -> Event<'static> {
    event(ticks, Kind::Switch { steps })
}

fn killed(ticks: u64) -> Event<'static> {
    let (how, code, steps) = (Ending::Killed, libc::SIGKILL, 0);
    event(ticks, Kind::End { how, code, steps })
}

fn getppid(ticks: u64, switched: bool) -> Event<'static> {
    let call = Syscall {
        nr: GETPPID,
        args: Args::new(&[]),
        result: 77,
        switched,
        order: None,
        stream: 0,
        writes: Writes::NONE,
        refs: Refs::NONE,
        extra: &[],
    };
    event(ticks, Kind::Syscall(call))
}

/// A process of one thread with these events, and so many turns behind its first one.
fn replay(events: &[Event<'_>], turns: usize) -> Replayed {
    let guest = Guest::new();
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("trace");
    let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
    let mut writer = TraceWriter::create(&folder, &manifest).expect("a trace");
    let mut put = |tape, events: &[Event<'_>]| {
        let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
        for event in events {
            encoder.encode(event, &mut bytes);
        }
        writer.append(tape, &bytes).expect("there is room");
    };
    put(TAPE, events);
    let turn = event(0, Kind::Turn { thread: 0 });
    put(TapeId::schedule(0), &vec![turn; turns]);
    writer.flush_all().expect("there is room");
    let trace = Trace::open(&folder).expect("it is whole");
    let pool = objects::pool().expect("a memory file");
    // The first test makes it for all.
    let _ = ReplayState::new(trace.clone(), pool, Some(vec![0]), None).install(machine());
    hook_state::with(|s| s.trace = trace);
    let tape = hook_state::open_tape(TAPE).expect("it is there");
    let process = guest.task.process.clone();
    let mut task = Box::new(Task::new(machine(), process, 0, 1, tape));
    task.set_mode(&Replay);
    task.ctx.rip = 0x1000;
    let session = Session::first(machine()).expect("no other process writes");
    Replayed {
        stepper: Stepper::new(session, task),
        _trace: base,
        _guest: guest,
    }
}

/// The questions to the stops of a run, in order.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// Guest code is about to run; `true`: one instruction.
    Code(bool),
    /// An event that happens to the thread, not caused by it.
    Position,
    /// The thread comes back into a call.
    Resumed,
    OtherEvent,
    Happened,
    Settled,
}

/// Where a run of a test ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    BeforeEvent,
    BehindEvent,
    /// At guest code, in any case.
    Code,
}

struct Asks {
    end: End,
    asked: Vec<Asked>,
}

impl Asks {
    fn until(end: End) -> Self {
        let asked = Vec::new();
        Self { end, asked }
    }

    fn end(&self, here: End) -> Option<()> {
        (self.end == here).then_some(())
    }
}

impl Stops for Asks {
    type Why = ();

    fn before_code(&mut self, _: &mut Stepper, step: bool) -> Result<Pace<()>> {
        self.asked.push(Asked::Code(step));
        Ok(Pace::Stop(()))
    }

    fn takes(&mut self, _: &mut Stepper, _: &Stop, _: u64) -> Result<bool> {
        unreachable!("no guest code runs")
    }

    fn before_event(&mut self, _: &mut Stepper, due: &DueEvent) -> Result<Option<()>> {
        self.asked.push(match due {
            DueEvent::Position(_) => Asked::Position,
            DueEvent::Resumed => Asked::Resumed,
            _ => Asked::OtherEvent,
        });
        Ok(self.end(End::BeforeEvent))
    }

    fn happened(&mut self, _: &mut Stepper, _: &Flow) -> Result<()> {
        self.asked.push(Asked::Happened);
        Ok(())
    }

    fn settled(&mut self, _: &mut Stepper) -> Option<()> {
        self.asked.push(Asked::Settled);
        self.end(End::BehindEvent)
    }
}

/// The questions to the stops until the run ends there.
fn asked(replayed: &mut Replayed, end: End) -> Vec<Asked> {
    let mut stops = Asks::until(end);
    replayed.stepper.run(&mut stops).expect("it is as recorded");
    stops.asked
}

fn failure(replayed: &mut Replayed) -> String {
    let failure = replayed.stepper.run(&mut Asks::until(End::Code));
    failure.expect_err("it is not as recorded").to_string()
}

#[test]
fn code_runs_towards_an_event_of_the_thread_and_towards_a_position() {
    for next in [getppid(5, false), switch(5, 0), killed(5)] {
        let mut replayed = replay(&[next], 1);
        assert_eq!(asked(&mut replayed, End::Code), [Asked::Code(false)]);
    }
}

#[test]
fn a_call_is_caused_by_the_thread_at_any_instruction_behind_its_tick() {
    let mut replayed = replay(&[getppid(0, false)], 1);
    assert_eq!(asked(&mut replayed, End::Code), [Asked::Code(false)]);
}

#[test]
fn instructions_before_a_position_are_stepped() {
    let mut replayed = replay(&[switch(0, 3)], 1);
    assert_eq!(asked(&mut replayed, End::Code), [Asked::Code(true)]);
    replayed.stepper.steps = Some(2);
    assert_eq!(asked(&mut replayed, End::Code), [Asked::Code(true)]);
    replayed.stepper.steps = Some(3);
    assert_eq!(
        asked(&mut replayed, End::BehindEvent),
        [Asked::Position, Asked::Happened, Asked::Settled]
    );
}

#[test]
fn a_reading_of_a_clock_is_a_step_and_no_event() {
    let readings = [Reading {
        source: 0,
        value: 7,
        extra: 0,
    }];
    let readings = Kind::Readings {
        full: false,
        since: 0,
        readings: Readings::new(&readings),
    };
    let mut replayed = replay(&[event(0, readings), getppid(0, false)], 1);
    let (stepper, toward) = (&mut replayed.stepper, Toward::own(0));
    stepper.task.tape.outline().expect("it is whole");
    stepper.steps = Some(2);
    let began = Began::here(&mut stepper.task, toward).expect("it is as recorded");
    let stop = Stop::Instr {
        op: InstrOp::Rdtsc,
        pc: GuestAddr(0x1000),
        next: GuestAddr(0x1002),
    };
    let why = stepper.ran(&mut NoStops, toward, began, stop);
    assert_eq!(why.expect("it is as recorded"), None);
    assert_eq!(stepper.steps, Some(3));
    let ctx = &stepper.task.ctx;
    assert_eq!((ctx.reg(Reg::Rax), ctx.rip), (7, 0x1002));
}

#[test]
fn a_run_that_stops_before_an_event_leaves_it_on_the_tape() {
    let mut replayed = replay(&[switch(0, 0), killed(0)], 1);
    let events = hook_state::events();
    for _ in 0..2 {
        assert_eq!(asked(&mut replayed, End::BeforeEvent), [Asked::Position]);
        assert_eq!((hook_state::events(), replayed.stepper.turn), (events, 0));
    }
}

#[test]
fn a_run_that_stops_behind_an_event_has_taken_the_next_turn() {
    let mut replayed = replay(&[switch(0, 0), killed(0)], 1);
    let events = hook_state::events();
    asked(&mut replayed, End::BehindEvent);
    let stepper = &replayed.stepper;
    assert_eq!((hook_state::events(), stepper.turn), (events + 1, 1));
    assert_eq!((stepper.steps, stepper.ended), (Some(0), None));
}

#[test]
fn with_and_without_stops_a_process_ends_in_the_same_way() {
    let events = [switch(0, 0), switch(0, 0), killed(0)];
    let mut plain = replay(&events, 2);
    let ended = plain.stepper.run_to_end(&mut NoStops);
    assert_eq!(ended.ok(), Some(Ended::Signal(libc::SIGKILL)));
    let turn = plain.stepper.turn;
    drop(plain);
    let mut stopped = replay(&events, 2);
    while stopped.stepper.ended.is_none() {
        asked(&mut stopped, End::BehindEvent);
    }
    let ended = stopped.stepper.ended;
    assert_eq!(ended, Some(Ended::Signal(libc::SIGKILL)));
    assert_eq!((stopped.stepper.turn, turn), (2, 2));
}

#[test]
fn a_thread_with_the_baton_back_comes_back_into_its_call() {
    let mut replayed = replay(&[getppid(0, true), killed(0)], 1);
    let task = &mut replayed.stepper.task;
    task.parked = true;
    task.ctx.set_reg(Reg::Rax, GETPPID.into());
    assert_eq!(
        asked(&mut replayed, End::BehindEvent),
        [Asked::Resumed, Asked::Happened, Asked::Settled]
    );
    let task = &replayed.stepper.task;
    assert!(!task.parked);
    assert_eq!((task.ctx.reg(Reg::Rax), task.ctx.rip), (77, 0x1002));
}

#[test]
fn a_thread_past_its_event_has_diverged() {
    for next in [getppid(5, false), switch(5, 0)] {
        let mut replayed = replay(&[next], 1);
        replayed.stepper.task.ctx.restart_ticks(6);
        let text = failure(&mut replayed);
        assert!(text.contains("at tick 5\n"), "{text}");
        let actual = "replayed: the thread is past that tick";
        assert!(text.contains(actual), "{text}");
    }
}

#[test]
fn a_divergence_shows_both_sides() {
    let mut replayed = replay(
        &[
            switch(0, 0),
            Event {
                digest: 1,
                ..switch(0, 0)
            },
        ],
        2,
    );
    let text = failure(&mut replayed);
    for part in [
        "recorded: switch after 0 steps at tick 0\n",
        "replayed: other register values at that position",
        "the thread's last events:\n    switch after 0 steps at tick 0\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_recording_that_is_cut_off_ends_without_a_result() {
    let mut replayed = replay(&[switch(0, 0)], 0);
    let ended: Result<Ended> = replayed.stepper.run_to_end(&mut NoStops);
    assert_eq!(ended.ok(), Some(Ended::CutOff));
    let why: Option<Infallible> = replayed.stepper.run(&mut NoStops).expect("it has ended");
    assert!(why.is_none());
}
