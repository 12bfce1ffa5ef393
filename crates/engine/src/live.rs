//! The loop of a guest thread that really runs: translated only, or recorded.

use relive_dbt::Stop;
use relive_host::context::PLENTY;
use relive_host::signal::install_stack;
use relive_host::{enter, sys};
use relive_trace::Kind;

use crate::failure::{Result, die};
use crate::kernel::apply_mask;
use crate::machine::{Mode, machine};
use crate::spin::{self, Found};
use crate::task::{End, Flow, Task};
use crate::{schedule, signals, stops};

/// Gets a host thread ready for its task: context, signal stack, mask.
pub fn prepare_thread(task: &mut Task) {
    // SAFETY: the context lives in the task's box, which this thread keeps until it ends.
    unsafe { enter::adopt(&raw mut *task.ctx) };
    install_stack();
    apply_mask(task);
}

/// Runs a thread to its end. Returns only for a thread that is not the first of its process.
pub fn run(mut task: Box<Task>) {
    let main = task.tid == std::process::id();
    finish_thread(&mut task, main);
}

/// Runs a vfork child, which ends as a process.
pub fn run_in_place(task: &mut Task) -> ! {
    finish_thread(task, true);
    unreachable!("a process does not outlive its only thread")
}

fn finish_thread(task: &mut Task, main: bool) {
    let flow = match run_until_end(task) {
        Ok(flow) => flow,
        Err(e) => die(&e),
    };
    let m = machine();
    match flow {
        Flow::ProcessEnd(end) => end_process(task, end),
        flow => {
            if let crate::tape::Tape::Out(t) = &task.tape {
                t.close();
            }
            if m.mode == Mode::Record {
                m.baton.count(-1);
                m.baton.release(task);
            }
            if main {
                let code = match flow {
                    Flow::ThreadEnd(code) => code,
                    _ => 0,
                };
                // SAFETY: the first thread's stack is not needed any more; the process lives
                // on with the others, and ends with this code when they have ended.
                unsafe { sys::exit_thread(code) }
            }
        }
    }
}

/// Ends the host process as the guest process ended.
fn end_process(task: &Task, end: End) -> ! {
    if let crate::tape::Tape::Out(t) = &task.tape {
        t.close();
    }
    if machine().mode == Mode::Record {
        match &task.vforked {
            None => {
                machine().schedule().close();
                machine().baton.leave(task);
            }
            // The parent's thread goes on, with the baton.
            Some(parent) => machine().baton.keep([parent.tid(), 0]),
        }
    }
    if task.vforked.is_none() && matches!(end, End::Code(_)) {
        let program = task.process.state().exe.clone();
        crate::translations::save(&machine().memory(), &program);
    }
    if task.vforked.is_none() {
        crate::stats::end();
    }
    match end {
        End::Code(code) => sys::exit_group(code),
        End::Signal(sig) => die_of(sig),
    }
}

/// Dies of a signal as the guest did, without a core file of the host.
pub fn die_of(sig: i32) -> ! {
    use relive_host::signal::{Disposition, Mask, set_disposition, set_mask};
    set_disposition(sig, Disposition::Default);
    // SAFETY: sets a limit of this process, which is about to end, and sends the signal.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        set_mask(Mask::default());
        // To this thread: a signal to the process may land on another one, later.
        libc::syscall(libc::SYS_tgkill, libc::getpid(), sys::gettid(), sig);
    }
    sys::exit_group(128 + sig)
}

fn run_until_end(task: &mut Task) -> Result<Flow> {
    new_slice(task);
    loop {
        if task.exact {
            let flow = signals::deliver_noted(task)?;
            if !matches!(flow, Flow::Continue) {
                return Ok(flow);
            }
            signals::finish_restart(task);
        }
        let stop = task.go(false);
        let flow = match stop {
            Stop::Budget { .. } => {
                task.at_event();
                slice_end(task)?
            }
            Stop::Pause { .. } => {
                task.at_event();
                give_way(task);
                Flow::Continue
            }
            stop => stops::handle(task, stop)?,
        };
        if !matches!(flow, Flow::Continue) {
            return Ok(flow);
        }
        // A thread that steps itself may have used up its slice with an instruction that trapped.
        if !task.ctx.has_budget() {
            let flow = slice_end(task)?;
            if !matches!(flow, Flow::Continue) {
                return Ok(flow);
            }
        }
    }
}

/// Ticks between two looks at the recorder, of a thread that nobody can wait for.
const ALONE: i64 = 1 << 22;

/// Grants the thread a new slice of ticks.
pub fn new_slice(task: &mut Task) {
    let baton = &machine().baton;
    let ticks = match machine().mode {
        Mode::Record if baton.shared() => task.spin.begin((baton.slice() as i64).max(1)),
        Mode::Record => task.spin.all(ALONE),
        _ => task.spin.all(PLENTY),
    };
    grant(task, ticks);
}

fn grant(task: &mut Task, ticks: i64) {
    // Where exactly a slice ends is chance in any case.
    task.ctx.grant_about(ticks, ticks / 8);
}

/// The budget is used up: by a signal, which the loop delivers first, or by the slice.
fn slice_end(task: &mut Task) -> Result<Flow> {
    let signalled = task.ctx.pending != 0;
    if let (Some(shm), Mode::Record) = (&machine().shm, machine().mode) {
        shm.need_supervisor();
    }
    if signalled || machine().mode != Mode::Record || !machine().baton.wanted() {
        go_on(task);
        return Ok(Flow::Continue);
    }
    if task.spin.goes_on() {
        return part_end(task);
    }
    // The steps may pass many ticks; none of them ends anything.
    task.ctx.grant(PLENTY);
    let flow = step_on(task);
    new_slice(task);
    let flow = flow?;
    if matches!(flow, Flow::Continue) && task.exact && task.ctx.pending == 0 {
        switch(task);
    }
    Ok(flow)
}

/// Grants the next part of the slice, or a new one.
fn go_on(task: &mut Task) {
    match task.spin.next_part() {
        Some(ticks) => grant(task, ticks),
        None => new_slice(task),
    }
}

/// A part of a slice is used up, while others wait: whoever spins loses the rest.
fn part_end(task: &mut Task) -> Result<Flow> {
    task.ctx.grant(PLENTY);
    let flow = match spin::look(task)? {
        Found::Spinning => {
            machine().baton.spinning(task.slot);
            switch(task);
            task.spin.wakes();
            new_slice(task);
            return Ok(Flow::Continue);
        }
        Found::Busy => Flow::Continue,
        Found::Other(flow) => flow,
    };
    go_on(task);
    Ok(flow)
}

/// Runs some instructions one by one, up to a safe point.
fn step_on(task: &mut Task) -> Result<Flow> {
    // A switch must be possible between any two instructions, not only at ticks.
    for _ in 0..machine().baton.steps() {
        let before = task.ctx.ticks();
        match task.go(true) {
            Stop::Stepped { .. } if task.ctx.ticks() == before => task.steps += 1,
            Stop::Stepped { .. } => task.at_event(),
            Stop::Budget { .. } | Stop::Pause { .. } => task.at_event(),
            stop => {
                let flow = stops::handle(task, stop)?;
                if !matches!(flow, Flow::Continue) || !task.exact {
                    return Ok(flow);
                }
                break;
            }
        }
        if task.ctx.pending != 0 {
            return Ok(Flow::Continue);
        }
    }
    Ok(Flow::Continue)
}

/// A thread that spins lets the others run.
fn give_way(task: &mut Task) {
    let m = machine();
    if m.mode == Mode::Record && m.baton.wanted() && task.ctx.pending == 0 {
        m.baton.spinning(task.slot);
        switch(task);
    }
}

/// Hands the baton to another thread, at the present safe point.
fn switch(task: &mut Task) {
    let baton = &machine().baton;
    if !baton.wanted() {
        return;
    }
    task.record(Kind::Switch { steps: task.steps });
    let taken = baton.pass(task);
    schedule::turn(task, taken.before);
}
