//! The beginning of a program at its seam: from start data and a file to the first instruction, in a
//! process that never gets there.

use std::io::Write;

use object::elf::{EM_X86_64, ET_DYN, FileHeader64, PF_R, PF_X, PT_LOAD, ProgramHeader64};
use object::{LittleEndian as LE, pod};
use relive_host::Reg;
use relive_host::addr::PAGE;
use relive_host::cpu::known;
use relive_host::signal::{KernelAction, Mask};
use tempfile::NamedTempFile;

use super::*;
use crate::failure::FailureClass;
use crate::mode::Name;
use crate::resource_limits::Limit as ResourceLimit;
use crate::shm::Shm;
use crate::sigaction::SIG_DFL;
use crate::space::{EXEC, READ};
use crate::tape::Tape;
use crate::task::signal_state::AltStack;
use crate::testing::{Guest, ModeQuery, machine};

const TAPE: TapeId = TapeId::new(3, 0);
/// Where the program's only segment begins in it, and its first instruction.
const CODE: u64 = 0x2000;
const ENTRY: u64 = CODE + 0x80;

/// A program of one segment, which begins at the file's first byte.
fn program() -> NamedTempFile {
    let mut header: FileHeader64<LE> = zeros();
    header.e_ident.magic = *b"\x7fELF";
    (header.e_ident.class, header.e_ident.data) = (2, 1);
    header.e_type.set(LE, ET_DYN);
    header.e_machine.set(LE, EM_X86_64);
    header.e_entry.set(LE, ENTRY);
    header.e_phoff.set(LE, size_of_val(&header) as u64);
    let entry = size_of::<ProgramHeader64<LE>>();
    header.e_phentsize.set(LE, entry as u16);
    header.e_phnum.set(LE, 1);
    let mut segment: ProgramHeader64<LE> = zeros();
    segment.p_type.set(LE, PT_LOAD);
    segment.p_flags.set(LE, PF_R | PF_X);
    segment.p_vaddr.set(LE, CODE);
    for size in [&mut segment.p_filesz, &mut segment.p_memsz] {
        size.set(LE, PAGE);
    }
    let mut bytes = [pod::bytes_of(&header), pod::bytes_of(&segment)].concat();
    bytes.resize(PAGE as usize, 0x90);
    file(&bytes)
}

fn zeros<T: pod::Pod>() -> T {
    let bytes = [0; 64];
    *pod::from_bytes(&bytes).expect("it needs no alignment").0
}

fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("there is room");
    file
}

fn start_data(file: &NamedTempFile) -> Boot {
    let path = file.path().as_os_str().as_bytes().to_vec();
    Boot {
        path,
        argv: vec![b"one".to_vec(), b"two".to_vec()],
        env: vec![b"A=b".to_vec()],
        ..Boot::new(Name::Run, "/".into(), None, b"./called")
    }
}

/// Loads it in process 3. The host thread is not made ready.
fn loaded(boot: Boot) -> Result<Box<Task>> {
    let mask = signal::set_mask(Mask::default());
    let task = load(machine(), boot, TAPE.process, |_| Ok(()));
    signal::set_mask(mask);
    task
}

fn refusal(boot: Boot) -> String {
    match loaded(boot) {
        Err(failure) if failure.class() == FailureClass::Setup => failure.text().to_owned(),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

/// The string that a word of guest memory points to.
fn string(at: u64) -> Vec<u8> {
    let text = word(at).to_le_bytes();
    let end = text.iter().position(|&b| b == 0).expect("it is short");
    text[..end].to_vec()
}

fn word(at: u64) -> u64 {
    let mut bytes = [0; 8];
    relive_host::copy::read(relive_host::GuestAddr(at), &mut bytes).expect("it is mapped");
    u64::from_le_bytes(bytes)
}

#[test]
fn a_program_begins_with_its_stack_and_clear_registers() {
    let guest = Guest::new();
    let file = program();
    let task = loaded(start_data(&file)).expect("it is a program");
    let regions = || -> Vec<_> {
        let memory = machine().memory();
        let named = memory.space.iter().map(|r| (r.start, r.end, r.prot));
        named.collect()
    };
    let code = regions()[0];
    assert_eq!((code.1 - code.0, code.2), (PAGE, READ | EXEC));
    assert_eq!(task.ctx.rip, code.0 + ENTRY - CODE);
    let sp = task.ctx.reg(Reg::Rsp);
    assert!(regions().iter().any(|r| (r.0..r.1).contains(&sp)));
    let cleared = Reg::Rsp as usize;
    let rest = (0..16).filter(|&i| i != cleared);
    assert!(rest.map(|i| task.ctx.gpr[i]).all(|r| r == 0));
    let words = [8, 16, 32].map(|at| string(word(sp + at)));
    assert_eq!(words, [&b"one"[..], b"two", b"A=b"]);
    assert_eq!([0, 24, 40].map(|at| word(sp + at)), [2, 0, 0]);
    assert!(task.exact, "the first instruction is a safe point");
    let called = file.path().file_name().expect("it has one").as_bytes();
    assert_eq!(task.name(), called[..called.len().min(15)]);
    let process = task.process.state();
    assert_eq!(process.exe, file.path().as_os_str().as_bytes());
    assert_eq!(process.environ, b"A=b\0");
    assert_eq!(guest.asked(), [ModeQuery::Tape(TAPE, None)]);
}

#[test]
fn the_first_event_of_a_first_program_is_its_start() {
    let guest = Guest::new();
    crate::sections::place();
    let (shm, _) = Shm::create().expect("there is memory");
    guest.mode().writes_tapes(shm);
    let task = loaded(start_data(&program())).expect("it is a program");
    let Tape::Out(tape) = &task.tape else {
        panic!("the mode writes tapes")
    };
    let mut bytes = Vec::new();
    shm.pull(tape.ring, |part| bytes.extend_from_slice(part));
    let mut decoder = relive_trace::Decoder::new();
    let (event, length) = decoder.decode(&bytes).expect("it is whole");
    assert_eq!(length, bytes.len(), "there is no other");
    let pid = std::process::id();
    let start = Start {
        origin: Origin::Root,
        parent: TAPE,
        tid: pid,
        pid,
    };
    assert_eq!(event.kind, Kind::Start(start));
}

/// A thread and its process at a call of execve(2), with all that exec hands on or takes away.
fn caller() -> (TaskState, ProcessState) {
    let pid = std::process::id();
    let (mut task, mut process) = (TaskState::new(0, 99), ProcessState::new(TAPE.process, pid));
    (task.ticks, task.steps, task.exact) = (500, 7, false);
    task.registers.gpr = [11; 16];
    task.registers.fs = 0x1000;
    task.signals.mask = Mask::default();
    task.signals.altstack = AltStack {
        sp: 0x5000,
        flags: 0,
        size: 0x1000,
    };
    task.clear_tid = 0x6000;
    for (sig, handler) in [(libc::SIGUSR1, 0x7000), (libc::SIGUSR2, SIG_IGN)] {
        process.state.actions[sig as usize] = KernelAction {
            handler,
            ..KernelAction::default()
        };
    }
    let limit: ResourceLimit = (1 << 40, 1 << 41);
    process.state.limits.space = limit;
    process.state.dumpable = 0;
    (task, process)
}

#[test]
fn a_program_goes_on_with_the_part_of_the_last_one_that_exec_keeps() {
    let guest = Guest::new();
    let file = program();
    let (caller, process) = caller();
    let limits = process.state.limits;
    let boot = Boot {
        handed_on: HandedOn {
            ring: Some(4),
            ..HandedOn::default()
        },
        go_on: Some(Continuation {
            task: caller,
            process,
            cpu: *known(),
            cpuid: Vec::new(),
            vdso: None,
            host: -1,
        }),
        ..start_data(&file)
    };
    let task = loaded(boot).expect("it is a program");
    assert_eq!(task.tid, std::process::id(), "it is the first thread now");
    assert_eq!((task.ctx.ticks(), task.steps, task.exact), (500, 0, true));
    assert_eq!((task.ctx.reg(Reg::Rax), task.ctx.guest_fs), (0, 0));
    assert_eq!(task.signals.altstack, AltStack::default());
    assert_eq!(task.clear_tid, 0);
    let state = task.process.state();
    assert_eq!((state.limits, state.dumpable), (limits, 1));
    let told = guest.mode().actions();
    assert_eq!(told.len(), 64, "the kernel is told of each signal");
    let others = told.iter().filter(|a| a.1 != SIG_DFL);
    assert_eq!(others.collect::<Vec<_>>(), [&(libc::SIGUSR2, SIG_IGN)]);
    assert_eq!(guest.asked(), [ModeQuery::Tape(TAPE, Some(4))]);
}

#[test]
fn a_file_that_is_no_program_is_refused_in_one_sentence() {
    let guest = Guest::new();
    let text = file(b"no program");
    let name = text.path().to_string_lossy().into_owned();
    let refused = refusal(start_data(&text));
    assert!(
        refused.starts_with(&format!("cannot load {name}: ")),
        "{refused}"
    );
    let gone = start_data(&text);
    drop(text);
    let refused = refusal(gone);
    assert!(
        refused.starts_with(&format!("cannot open {name}: ")),
        "{refused}"
    );
    assert_eq!(guest.asked(), [], "nothing has begun");
}
