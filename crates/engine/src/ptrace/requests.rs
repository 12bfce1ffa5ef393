//! Numbers of ptrace(2), and of the requests that a tracer makes to its stopped tracee.

/// The requests of ptrace(2).
pub mod ptrace {
    pub const TRACEME: u32 = 0;
    pub const PEEKTEXT: u32 = 1;
    pub const PEEKDATA: u32 = 2;
    pub const PEEKUSER: u32 = 3;
    pub const POKETEXT: u32 = 4;
    pub const POKEDATA: u32 = 5;
    pub const POKEUSER: u32 = 6;
    pub const CONT: u32 = 7;
    pub const KILL: u32 = 8;
    pub const SINGLESTEP: u32 = 9;
    pub const GETREGS: u32 = 12;
    pub const SETREGS: u32 = 13;
    pub const GETFPREGS: u32 = 14;
    pub const SETFPREGS: u32 = 15;
    pub const ATTACH: u32 = 16;
    pub const DETACH: u32 = 17;
    pub const SYSCALL: u32 = 24;
    pub const SETOPTIONS: u32 = 0x4200;
    pub const GETEVENTMSG: u32 = 0x4201;
    pub const GETSIGINFO: u32 = 0x4202;
    pub const SETSIGINFO: u32 = 0x4203;
    pub const GETREGSET: u32 = 0x4204;
    pub const SETREGSET: u32 = 0x4205;
    pub const SEIZE: u32 = 0x4206;
    pub const INTERRUPT: u32 = 0x4207;
    pub const LISTEN: u32 = 0x4208;
    pub const GETSIGMASK: u32 = 0x420a;
    pub const SETSIGMASK: u32 = 0x420b;
    pub const GET_SYSCALL_INFO: u32 = 0x420e;
}

/// The options of PTRACE_SETOPTIONS.
pub mod option {
    pub const SYSGOOD: u32 = 1;
    pub const FORK: u32 = 2;
    pub const VFORK: u32 = 4;
    pub const CLONE: u32 = 8;
    pub const EXEC: u32 = 16;
    pub const VFORKDONE: u32 = 32;
    pub const EXIT: u32 = 64;
    pub const EXITKILL: u32 = 1 << 20;
    /// All that are known.
    pub const ALL: u32 = SYSGOOD | FORK | VFORK | CLONE | EXEC | VFORKDONE | EXIT | EXITKILL;
}

/// The events in bits 16 and up of a status.
pub mod event {
    pub const FORK: u32 = 1;
    pub const VFORK: u32 = 2;
    pub const CLONE: u32 = 3;
    pub const EXEC: u32 = 4;
    pub const VFORK_DONE: u32 = 5;
    pub const EXIT: u32 = 6;
    pub const STOP: u32 = 128;
}

/// Requests of a tracer to its stopped tracee.
pub mod ask {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const REGISTERS: u32 = 3;
    pub const SET_REGISTERS: u32 = 4;
    pub const EXTENDED: u32 = 5;
    pub const SET_EXTENDED: u32 = 6;
    pub const SIGINFO: u32 = 7;
    pub const SET_SIGINFO: u32 = 8;
    pub const MASK: u32 = 9;
    pub const SET_MASK: u32 = 10;
    pub const CALL: u32 = 11;
    /// The argument is one of [`super::file`], and the offset from bit 8 on.
    pub const FILE: u32 = 12;
}

/// The files in `/proc` that show the guest instead of its host.
pub mod file {
    pub const MAPS: u64 = 0;
    pub const AUXV: u64 = 1;
    pub const ENVIRON: u64 = 2;
    pub const EXE: u64 = 3;
}
