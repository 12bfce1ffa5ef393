//! Descriptions and start data come back as they were written, and nothing else comes back.

use proptest::prelude::*;
use relive_host::context::XSAVE_BYTES;
use relive_host::signal::{KernelAction, Mask};

use super::{Malformed, from_bytes, to_bytes};
use crate::mode::Name;
use crate::process::state::ProcessState;
use crate::retained_fds::RetainedFds;
use crate::seccomp::filter::{Confined, Filters};
use crate::start_data::{Boot, Continuation};
use crate::task::plain_task::TaskState;
use crate::task::signal_state::Interrupted;
use crate::trap_flag::TrapFlag;

fn filters() -> impl Strategy<Value = Filters> {
    // As they are written: threads, and instructions of two small and one large field and a byte.
    type Written = Vec<((u32, u32), Vec<(u16, u8, u8, u32)>)>;
    let read = |written: Written| from_bytes(&to_bytes(&written)).unwrap_or_else(|e| panic!("{e}"));
    let program = (
        any::<(u32, u32)>(),
        prop::collection::vec(any::<(u16, u8, u8, u32)>(), 1..9),
    );
    prop::collection::vec(program, 1..4).prop_map(read)
}

fn confined() -> impl Strategy<Value = Option<Confined>> {
    prop_oneof![
        Just(None),
        Just(Some(Confined::Strict)),
        filters().prop_map(|f| Some(Confined::Filter(f))),
    ]
}

prop_compose! {
    fn task()(
        ids in any::<(u32, u32, u32)>(),
        position in any::<(u64, u32, bool, bool)>(),
        words in any::<([u64; 16], [u64; 4], [u64; 4])>(),
        extended in prop::collection::vec(any::<u8>(), XSAVE_BYTES),
        held in prop::collection::vec(prop::collection::vec(any::<u8>(), 128), 0..3),
        masks in any::<(u64, Option<u64>)>(),
        restart in any::<Option<(u32, bool, bool, bool)>>(),
        comm in any::<[u8; 16]>(),
        trap_flag in prop_oneof![Just(TrapFlag::Off), Just(TrapFlag::On), Just(TrapFlag::Due)],
        forbidden in any::<(bool, bool)>(),
        seccomp in confined(),
    ) -> TaskState {
        let mut task = TaskState::new(ids.0, ids.1);
        task.slot = ids.2;
        (task.ticks, task.steps, task.exact, task.parked) = position;
        let (gpr, [rflags, rip, fs, gs], others) = words;
        let registers = &mut task.registers;
        (registers.gpr, registers.rflags, registers.rip) = (gpr, rflags, rip);
        (registers.fs, registers.gs) = (fs, gs);
        registers.extended.0.copy_from_slice(&extended);
        let held = held.into_iter().map(<[u8; 128]>::try_from);
        task.signals.held = held.map(|info| info.unwrap_or([0; 128])).collect();
        (task.signals.mask, task.signals.saved_mask) = (Mask(masks.0), masks.1.map(Mask));
        task.signals.restart = restart.map(|(nr, always, with_handler, without_handler)| {
            Interrupted { nr, always, with_handler, without_handler }
        });
        (task.signals.altstack.sp, task.signals.trap.cr2) = (others[0], others[1]);
        (task.clear_tid, task.robust) = (others[2], (others[3], 24));
        (task.comm, task.trap_flag) = (comm, trap_flag);
        (task.forbidden.counter, task.forbidden.cpuid) = forbidden;
        task.seccomp = seccomp;
        task
    }
}

prop_compose! {
    fn process()(
        ids in any::<(u32, u32, u32, u32)>(),
        actions in prop::collection::vec((1..65_usize, any::<[u64; 4]>()), 0..9),
        strings in any::<[Vec<u8>; 3]>(),
        robust in any::<std::collections::BTreeMap<u32, (u64, u32)>>(),
        numbers in any::<(i64, i32, u64, (u64, u64), (u64, u64))>(),
        filter in prop::option::of(filters()),
        retained in any::<Option<(i32, i32, bool)>>(),
    ) -> ProcessState {
        let mut process = ProcessState::new(ids.0, ids.1);
        (process.next_thread, process.filters_set) = (ids.2, ids.3);
        let state = &mut process.state;
        for (sig, [handler, flags, restorer, mask]) in actions {
            state.actions[sig] = KernelAction { handler, flags, restorer, mask };
        }
        state.streams.leads(ids.0 as i32, 2);
        [state.exe, state.environ, state.auxv] = strings;
        (state.robust, state.filter) = (robust, filter);
        (state.dumpable, state.death_signal, state.personality) = (numbers.0, numbers.1, numbers.2);
        (state.limits.space, state.limits.data) = (numbers.3, numbers.4);
        state.retained_fds = retained.map(|(memory, copies, paths_changed)| {
            RetainedFds { memory, copies, proc: copies, paths_changed, other_ids: paths_changed }
        });
        process
    }
}

prop_compose! {
    fn boot()(
        task in task(),
        process in process(),
        strings in any::<[Vec<Vec<u8>>; 2]>(),
        trace in any::<Vec<u8>>(),
        goes_on in any::<bool>(),
        vdso in any::<Option<[u64; 2]>>(),
        file in any::<Option<i32>>(),
        ring in any::<Option<u32>>(),
    ) -> Boot {
        use std::os::unix::ffi::OsStringExt;
        let trace = std::ffi::OsString::from_vec(trace).into();
        let cpu = *relive_host::cpu::known();
        crate::cpuid::ask(7, 0);
        let cpuid = crate::cpuid::kept();
        let [argv, env] = strings;
        let mut boot = Boot { file, argv, env, ..Boot::new(Name::Serial, trace, None, b"program") };
        boot.handed_on.ring = ring;
        boot.go_on = goes_on.then_some(Continuation { task, process, cpu, cpuid, vdso, host: 7 });
        boot
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn values_are_read_as_they_were_written(boot in boot(), task in task(), process in process()) {
        prop_assert!(from_bytes(&to_bytes(&boot)) == Ok(boot));
        prop_assert!(from_bytes(&to_bytes(&task)) == Ok(task));
        prop_assert!(from_bytes(&to_bytes(&process)) == Ok(process));
    }

    #[test]
    fn too_few_or_too_many_bytes_are_an_error(boot in boot(), cut in any::<prop::sample::Index>()) {
        let mut bytes = to_bytes(&boot);
        prop_assert!(from_bytes::<Boot>(&bytes[..cut.index(bytes.len())]) == Err(Malformed));
        bytes.push(0);
        prop_assert!(from_bytes::<Boot>(&bytes) == Err(Malformed));
    }

    /// A value that comes of it is written again as it was read.
    #[test]
    fn damaged_bytes_are_an_error_or_another_value(
        boot in boot(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        garbage in prop::collection::vec(any::<u8>(), 0..512),
    ) {
        let mut bytes = to_bytes(&boot);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        for bytes in [bytes, garbage] {
            if let Ok(value) = from_bytes::<Boot>(&bytes) {
                prop_assert!(from_bytes(&to_bytes(&value)) == Ok(value));
            }
        }
    }
}

#[test]
fn filters_without_a_program_are_an_error() {
    let none: Vec<((u32, u32), Vec<u8>)> = Vec::new();
    assert_eq!(from_bytes::<Filters>(&to_bytes(&none)), Err(Malformed));
}

#[test]
fn an_action_of_no_signal_is_an_error() {
    let mut process = ProcessState::new(0, 1);
    process.state.actions[64].handler = 5;
    let bytes = to_bytes(&process);
    let at = bytes.iter().position(|&b| b == 64).unwrap_or_default();
    let mut bad = bytes.clone();
    bad[at] = 65;
    assert!(from_bytes::<ProcessState>(&bytes).is_ok());
    assert_eq!(from_bytes::<ProcessState>(&bad), Err(Malformed));
}
