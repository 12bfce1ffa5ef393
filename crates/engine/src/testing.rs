//! A guest for unit tests: a task of a process that never runs, in a machine whose mode notes the engine's
//! questions. One test at a time has it. Must never enter translated code.

pub mod all_states;
mod fake;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use relive_dbt::Options;
use relive_host::Reg;

pub use fake::{Fake, ModeQuery};

use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::descriptor_kinds::DescriptorKinds;
use crate::failure::Result;
use crate::machine::{self, Machine};
use crate::memory::Memory;
use crate::mode::Name;
use crate::process::Process;
use crate::process::state::ProcessState;
use crate::registry::Registry;
use crate::retained_fds::RetainedFds;
use crate::shm::Shm;
use crate::tape::Tape;
use crate::task::Task;
use crate::task::parent::Parent;

/// The mode of all tests.
static MODE: Fake = Fake::new();

/// The machine of all tests.
pub fn machine() -> &'static Machine {
    static MACHINE: OnceLock<&'static Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        machine::install(Machine {
            mode: &MODE,
            name: Name::Run,
            memory: Mutex::new(Memory::new(Options::default(), true).expect("there is room")),
            registry: Registry::new(false),
            shm: Some(shared_memory()),
            trace: std::path::PathBuf::new(),
            descriptor_kinds: DescriptorKinds::new(),
            fd_floor: i32::MAX,
        })
    })
}

fn shared_memory() -> Shm {
    crate::sections::place();
    let (shm, descriptor) = Shm::create().expect("there is memory");
    // It is opened again by its descriptor's name.
    std::mem::forget(descriptor);
    shm
}

/// The one guest of all tests, with empty memory.
pub struct Guest {
    /// Its task.
    pub task: Box<Task>,
    _alone: MutexGuard<'static, ()>,
}

impl Guest {
    /// Waits until no other test has it.
    pub fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        // A test that fails must not fail the others.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        MODE.forget();
        empty();
        let process = Process::restore(ProcessState::new(0, std::process::id()));
        Self {
            task: Box::new(Task::new(
                machine(),
                process,
                0,
                std::process::id(),
                Tape::None,
            )),
            _alone: alone,
        }
    }

    /// The questions of the engine to its mode since the last time, in order.
    pub fn asked(&self) -> Vec<ModeQuery> {
        MODE.take()
    }

    /// The mode, for a test to set its answers.
    pub fn mode(&self) -> &'static Fake {
        &MODE
    }

    /// A call by its number and arguments.
    pub fn call(&mut self, nr: i64, args: &[u64]) -> Call {
        const ARGUMENTS: [Reg; 6] = [Reg::Rdi, Reg::Rsi, Reg::Rdx, Reg::R10, Reg::R8, Reg::R9];
        self.task.ctx.set_reg(Reg::Rax, nr as u64);
        for (i, reg) in ARGUMENTS.into_iter().enumerate() {
            let value = args.get(i).copied().unwrap_or(0);
            self.task.ctx.set_reg(reg, value);
        }
        Call::at(&self.task.ctx)
    }

    /// It is a vfork child from now on: its parent is put aside.
    pub fn is_vforked(&mut self) {
        self.task.vforked = Some(Box::new(Parent {
            state: self.task.capture(),
            keeper: self.task.tid,
            process: Arc::clone(&self.task.process),
            tape: Tape::None,
            shares: CloneArgs::default(),
            outer: None,
            answer: None,
            becoming: AtomicU64::new(0),
        }));
    }

    /// It is recorded from now on: the engine follows its descriptors.
    pub fn is_recorded(&mut self) {
        MODE.keeps();
        self.task.set_mode(&MODE);
    }

    /// The host has kept descriptors open already: nothing but this one of `/proc`, or -1.
    pub fn has_retained(&mut self, proc: i32) {
        self.task.process.state().retained_fds = Some(RetainedFds {
            memory: -1,
            copies: -1,
            proc,
            paths_changed: false,
            other_ids: false,
        });
    }

    /// The descriptors that the host has kept open.
    pub fn retained(&self) -> Option<RetainedFds> {
        self.task.process.state().retained_fds
    }

    /// The result of a call that is made.
    pub fn live(&mut self, nr: i64, args: &[u64]) -> Result<i64> {
        self.outcome(nr, args, None)
    }

    /// The result of a call of which the tape has this result and these data.
    pub fn told(&mut self, nr: i64, args: &[u64], result: i64, extra: &[u8]) -> Result<i64> {
        let mut answer = Answer::default();
        answer.result = result;
        answer.extra.extend_from_slice(extra);
        self.outcome(nr, args, Some(&answer))
    }

    fn outcome(&mut self, nr: i64, args: &[u64], told: Option<&Answer>) -> Result<i64> {
        let call = self.call(nr, args);
        self.task.log.clear();
        // SAFETY: the context lives in its box, and no test enters another one in the midst of a call.
        unsafe { relive_host::enter::adopt(&raw mut *self.task.ctx) };
        match crate::kernel::syscall::outcome(&mut self.task, &call, told)? {
            Reply::Value(result) => Ok(result),
            Reply::Flow(_) | Reply::Returned => panic!("{call} has no result"),
        }
    }

    /// Maps pages of zeros that may be read and written, at this address.
    pub fn map(&mut self, at: u64, len: u64) {
        let args = [at, len, 3, 0x32, u64::MAX, 0];
        let result = self.told(libc::SYS_mmap, &args, at as i64, &[]);
        assert_eq!(result.ok(), Some(at as i64), "{at:#x} is free");
        self.asked();
    }
}

fn empty() {
    let mut memory = machine().memory();
    let all: Vec<(u64, u64)> = memory.space.iter().map(|r| (r.start, r.end)).collect();
    for (start, end) in all {
        memory.unmap(start, end).expect("there are few maps");
    }
    memory.lock_future(false);
    memory.space.brk = (0, 0);
    memory.space.take_dropped();
    machine().descriptor_kinds.forget_many(false);
}
