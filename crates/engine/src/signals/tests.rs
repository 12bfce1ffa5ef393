//! Delivery at its seam: registers, masks and frames of a guest that never runs, and the questions to its
//! mode.

use relive_host::Reg;
use relive_host::signal::{KernelAction, Mask};

use super::deliver::{deliver, deliver_recorded, fault, finish_restart, kill, return_from_handler};
use crate::flow::{End, Flow};
use crate::sigaction::SIG_IGN;
use crate::siginfo::fault_info;
use crate::task::signal_state::{AltStack, Interrupted};
use crate::testing::{Guest, ModeQuery};

const STACK: u64 = 0x1000_4000_0000;
const STACK_BYTES: u64 = 0x1_0000;
const SP: u64 = STACK + STACK_BYTES - 0x1000;
const CODE: u64 = 0x1000_5000_0000;
const HANDLER: u64 = 0x1000_5000_1000;
const SA_RESTORER: u64 = 0x0400_0000;
const READ: u32 = libc::SYS_read as u32;
/// Exception number and error code of a page fault.
const PAGE_FAULT: (u64, u64) = (14, 4);

/// A guest with a stack, in the midst of its code.
fn guest() -> Guest {
    let mut guest = Guest::new();
    guest.map(STACK, STACK_BYTES);
    guest.task.ctx.rip = CODE;
    guest.task.ctx.set_reg(Reg::Rsp, SP);
    guest
}

impl Guest {
    fn act(&mut self, sig: i32, handler: u64, flags: i32) {
        self.task.process.state().actions[sig as usize] = KernelAction {
            handler,
            flags: flags as u64 | SA_RESTORER,
            restorer: CODE,
            mask: 1 << (libc::SIGUSR2 - 1),
        };
    }

    fn deliver(&mut self, sig: i32) -> Flow {
        deliver(&mut self.task, &fault_info(sig, 0, 0), false).expect("nothing diverges")
    }

    /// Notes an interrupted call; the thread stands behind it.
    fn interrupted(&mut self, always: bool, with_handler: bool, without_handler: bool) {
        self.task.ctx.rip = CODE + 2;
        self.task.signals.restart = Some(Interrupted {
            nr: READ,
            always,
            with_handler,
            without_handler,
        });
    }

    /// The handler executes its `ret`, and the restorer calls rt_sigreturn(2).
    fn returns(&mut self) -> Flow {
        let sp = self.task.ctx.reg(Reg::Rsp) + 8;
        self.task.ctx.set_reg(Reg::Rsp, sp);
        return_from_handler(&mut self.task).expect("nothing diverges")
    }

    fn at(&self) -> (u64, u64) {
        (self.task.ctx.rip, self.task.ctx.reg(Reg::Rax))
    }
}

fn ends_by(sig: i32) -> Flow {
    Flow::ProcessEnd(End::Signal(sig))
}

#[test]
fn a_handler_begins_with_its_frame_and_gives_all_back() {
    let mut guest = guest();
    guest.act(libc::SIGUSR1, HANDLER, 0);
    guest.task.ctx.set_reg(Reg::R12, 77);
    let before = guest.task.signals.mask;
    assert_eq!(guest.deliver(libc::SIGUSR1), Flow::Continue);
    let ctx = &guest.task.ctx;
    assert_eq!(
        (ctx.rip, ctx.reg(Reg::Rdi)),
        (HANDLER, libc::SIGUSR1 as u64)
    );
    assert_eq!((ctx.reg(Reg::Rsp) + 8) % 16, 0, "as at a function's entry");
    assert!(ctx.reg(Reg::Rsp) < SP - 128, "the red zone is kept");
    let masked = |sig| guest.task.signals.mask.has(sig);
    assert!(masked(libc::SIGUSR1) && masked(libc::SIGUSR2) && !masked(libc::SIGTERM));
    guest.task.ctx.set_reg(Reg::R12, 0);
    assert_eq!(guest.returns(), Flow::Continue);
    let ctx = &guest.task.ctx;
    assert_eq!(
        (ctx.rip, ctx.reg(Reg::R12), ctx.reg(Reg::Rsp)),
        (CODE, 77, SP)
    );
    assert_eq!(guest.task.signals.mask, before);
}

#[test]
fn without_a_handler_the_default_or_nothing_happens() {
    for (sig, flow) in [
        (libc::SIGCHLD, Flow::Continue),
        (libc::SIGCONT, Flow::Continue),
        (libc::SIGTSTP, Flow::Continue),
        (libc::SIGTERM, ends_by(libc::SIGTERM)),
        (libc::SIGRTMIN(), ends_by(libc::SIGRTMIN())),
    ] {
        let mut guest = guest();
        assert_eq!(guest.deliver(sig), flow, "signal {sig}");
        assert_eq!(guest.task.ctx.rip, CODE);
        guest.act(sig, SIG_IGN, 0);
        assert_eq!(guest.deliver(sig), Flow::Continue, "signal {sig} ignored");
    }
}

#[test]
fn a_recorded_signal_that_would_do_nothing_is_a_divergence() {
    let mut guest = guest();
    for (handler, diverges) in [(SIG_IGN, true), (HANDLER, false)] {
        guest.act(libc::SIGURG, handler, 0);
        let delivered = deliver_recorded(&mut guest.task, &fault_info(libc::SIGURG, 0, 0));
        assert_eq!(delivered.is_err(), diverges);
    }
}

#[test]
fn a_handler_for_once_is_the_default_action_afterwards() {
    let mut guest = guest();
    guest.act(libc::SIGUSR1, HANDLER, libc::SA_RESETHAND);
    assert_eq!(guest.deliver(libc::SIGUSR1), Flow::Continue);
    assert_eq!(guest.deliver(libc::SIGUSR1), ends_by(libc::SIGUSR1));
}

#[test]
fn a_fault_that_is_blocked_or_ignored_ends_the_process() {
    let info = fault_info(libc::SIGSEGV, 1, 0x1234);
    for blocked in [true, false] {
        let mut guest = guest();
        match blocked {
            true => {
                guest.act(libc::SIGSEGV, HANDLER, 0);
                guest.task.signals.mask = Mask(1 << (libc::SIGSEGV - 1));
            }
            false => guest.act(libc::SIGSEGV, SIG_IGN, 0),
        }
        let flow = fault(&mut guest.task, &info, PAGE_FAULT).expect("nothing diverges");
        assert_eq!(flow, ends_by(libc::SIGSEGV));
        assert_eq!(guest.task.signals.trap.cr2, 0x1234);
        assert_eq!(guest.asked(), [ModeQuery::Raised(libc::SIGSEGV)]);
    }
}

#[test]
fn a_frame_without_room_is_a_fault_of_its_own() {
    let mut guest = guest();
    guest.task.ctx.set_reg(Reg::Rsp, 0x100);
    guest.act(libc::SIGUSR1, HANDLER, 0);
    assert_eq!(guest.deliver(libc::SIGUSR1), ends_by(libc::SIGSEGV));
    let raised = guest.asked().contains(&ModeQuery::Raised(libc::SIGSEGV));
    assert!(raised, "a tape has to say so");
    // On a stack of its own the handler of that fault runs.
    guest.act(libc::SIGSEGV, HANDLER + 64, libc::SA_ONSTACK);
    guest.task.signals.altstack = AltStack {
        sp: STACK,
        flags: 0,
        size: STACK_BYTES / 2,
    };
    assert_eq!(guest.deliver(libc::SIGUSR1), Flow::Continue);
    assert_eq!(guest.task.ctx.rip, HANDLER + 64);
    let sp = guest.task.ctx.reg(Reg::Rsp);
    assert!((STACK..STACK + STACK_BYTES / 2).contains(&sp), "{sp:#x}");
}

#[test]
fn an_interrupted_call_fails_or_is_made_again_as_its_handler_says() {
    let again = (CODE, u64::from(READ));
    let fails = (CODE + 2, -i64::from(libc::EINTR) as u64);
    for (flags, always, with_handler, then) in [
        (libc::SA_RESTART, false, true, again),
        (0, false, true, fails),
        (libc::SA_RESTART, false, false, fails),
        (0, true, false, again),
    ] {
        let mut guest = guest();
        guest.act(libc::SIGUSR1, HANDLER, flags);
        guest.interrupted(always, with_handler, true);
        assert_eq!(guest.deliver(libc::SIGUSR1), Flow::Continue);
        assert_eq!(guest.returns(), Flow::Continue);
        assert_eq!(guest.at(), then, "{flags:#x} {always} {with_handler}");
    }
    for (without_handler, then) in [(true, again), (false, fails)] {
        let mut guest = guest();
        guest.interrupted(false, false, without_handler);
        finish_restart(&mut guest.task);
        assert_eq!(guest.at(), then);
        assert_eq!(guest.task.signals.restart, None);
    }
}

#[test]
fn one_thread_of_several_ends_alone() {
    let mut guest = guest();
    let flow = kill(&mut guest.task, libc::SIGSYS, true).expect("nothing diverges");
    assert_eq!(flow, ends_by(libc::SIGSYS), "it is the only one");
    guest.mode().has_other_threads();
    let flow = kill(&mut guest.task, libc::SIGSYS, true).expect("nothing diverges");
    assert_eq!(flow, Flow::ThreadEnd(libc::SIGSYS));
    let flow = kill(&mut guest.task, libc::SIGSYS, false).expect("nothing diverges");
    assert_eq!(flow, ends_by(libc::SIGSYS));
}
