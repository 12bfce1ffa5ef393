//! How a host process begins: from its start data ([`crate::start_data`]) to the first instruction of its guest's
//! program ([`program`]).
//!
//! A host process is this very executable, started with the guest's own arguments (so that
//! others see them in `/proc`) and one environment variable that names a descriptor with
//! the rest.

mod program;

use std::convert::Infallible;
use std::ffi::CString;
use std::sync::Mutex;

use relive_dbt::Ordered;
use relive_host::signal;
use relive_host::{cpu, order};

pub use crate::start_data::requested;

use crate::descriptor_kinds::DescriptorKinds;
use crate::descriptor_limit::{self, Room};
use crate::failure::{Failure, FailureClass, Result, die};
use crate::machine::{Machine, count_translations, install, machine};
use crate::memory::Memory;
use crate::mode::Name;
use crate::modes::{self, serial};
use crate::received::RECEIVED;
use crate::registry::Registry;
use crate::shm::{Shm, share, shared};
use crate::start_data::{self, Boot, Continuation, Lifted};
use crate::{ordered_sites, stack_limit, stats, translations};

/// Runs this process as a host. Does not return while the guest lives.
pub fn host_main(fd: i32) -> ! {
    crate::logging::init();
    crate::failure::report_panics();
    crate::failure::tell_by(tell_supervisor);
    match start_data::read(fd).and_then(|(lifted, boot)| begin(boot, lifted)) {
        Ok(never) => match never {},
        Err(e) => die(&e),
    }
}

/// The first failure of a tree of processes is kept in the shared memory, for the supervisor to print.
fn tell_supervisor(class: FailureClass, text: &str) -> bool {
    // Nobody sees the memory of a guided replay.
    let shm = shared().filter(|_| !crate::guide::start_variable::is_guided());
    shm.inspect(|shm| shm.fail(class, text)).is_some()
}

fn begin(boot: Boot, lifted: Lifted) -> Result<Infallible> {
    stack_limit::restore(lifted.stack);
    if matches!(boot.mode, Name::Replay | Name::Parallel) {
        crate::modes::replay::inherited::close()?;
    }
    match &boot.go_on {
        // The old program's host has looked: CPUID is slow where a hypervisor answers it.
        Some(c) => {
            cpu::adopt(c.cpu);
            crate::cpuid::adopt(&c.cpuid);
            crate::vdso::adopt(c.vdso);
        }
        None => cpu::check().map_err(|what| Failure::setup(format!("this machine lacks {what:?}: Relive needs Linux 5.9 or later and a processor with XSAVE and FSGSBASE")))?,
    }
    signal::on_host_fault(|sig, rip, addr| {
        die(&Failure::internal(format!(
            "signal {sig} in the host at {rip:#x} (address {addr:#x})"
        )))
    });
    set_name(&boot.called);
    let go_on = boot.go_on.as_ref();
    let fds = go_on.and_then(|c| c.process.state.retained_fds);
    if let Some(fds) = fds {
        fds.adopt();
    }
    crate::sections::place();
    let found = match fds {
        Some(fds) => fds.shared_memory()?,
        None => boot.supervisor.map(Shm::find).transpose()?,
    };
    // A program that is only run uses it for its counters alone.
    let shm = found.filter(|_| boot.mode != Name::Run);
    if let Some(shm) = shm {
        share(shm);
    }
    let mut options = relive_dbt::Options::from_env();
    options.fd_floor = descriptor_limit::floor();
    options.own_file = go_on.and_then(Continuation::kept_host);
    let process = match (go_on, &shm) {
        (Some(c), _) => c.process.index,
        (None, Some(shm)) if boot.mode.records() => shm.new_process(),
        _ => 0,
    };
    if let (0, true, Some(shm)) = (process, boot.mode.records(), shared()) {
        RECEIVED.of(shm).begin();
    }
    let slot = go_on.map_or(0, |c| c.task.index);
    let start = serial::Start {
        process,
        slot,
        goes_on: go_on.is_some(),
        handed_on: boot.handed_on,
    };
    let mode = modes::choose(boot.mode, shm, start)?;
    let traits = mode.traits();
    options.together = traits.together;
    options.at_pause = traits.at_pause;
    options.order = traits.operations;
    if traits.operations != Ordered::Off {
        options.sites = ordered_sites::of(shm.as_ref());
        options.neighbours = ordered_sites::neighbours(shm.as_ref());
    }
    if traits.operations == Ordered::Record {
        let no = |errno| {
            Failure::setup(format!(
                "no memory for the order of operations (errno {errno})"
            ))
        };
        order::install().map_err(no)?;
    }
    let fd_floor = options.fd_floor;
    let memory = Memory::new(options, !traits.confined)?;
    crate::vdso::prepare(traits.clocks);
    translations::store::attach();
    let machine = install(Machine {
        mode,
        name: boot.mode,
        memory: Mutex::new(memory),
        registry: Registry::new(traits.together),
        shm,
        trace: boot.trace.clone(),
        descriptor_kinds: DescriptorKinds::new(),
        fd_floor,
    });
    if let Some(shm) = found {
        stats::attach(shm, traits.together, count_translations);
    }
    match boot.mode {
        Name::Replay => return crate::modes::replay::start::main(machine),
        Name::Parallel => return crate::modes::parallel::thread_loop::main(machine),
        Name::Run | Name::Serial | Name::Sketch | Name::Coherence => {}
    }
    machine.memory().translator.ask_for_memory(own_memory);
    program::run(machine, boot, process, lifted.descriptors)
}

/// Opens this process's memory, in place of the descriptor that it has from the one that it was
/// forked from.
fn own_memory(old: i32, floor: i32) -> Option<i32> {
    let _room = Room::for_host(machine().mode.traits().keeps);
    relive_dbt::open_memory(old, floor)
}

/// Shows the guest's name as the thread's name.
fn set_name(called: &[u8]) {
    let base = called.rsplit(|&b| b == b'/').next().unwrap_or(called);
    if let Ok(name) = CString::new(base) {
        // Only shown.
        let _ = rustix::thread::set_name(&name);
    }
}
