//! The classes of instructions for translation: a table over all opcodes, filled as they come up.
//!
//! Instructions that could change or reveal state that neither the translator nor the recorder
//! controls are refused by name here. Privileged instructions are copied: they fault by themselves,
//! at the right place.

use std::sync::atomic::{AtomicU16, Ordering};

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// A question about an opcode.
type Test = fn(Code) -> bool;

/// The ways of translating an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Byte for byte, apart from a RIP-relative operand.
    Copy,
    /// Conditional jump on flags.
    Jcc,
    /// loop, loope, loopne, jrcxz, jecxz.
    Loop,
    Jmp,
    Call,
    JmpIndirect,
    CallIndirect,
    Ret,
    Syscall,
    Pause,
    Int3,
    Int1,
    Undefined,
    /// The engine provides the result.
    Instr,
    Popf,
    /// Stores the x87 instruction pointer, or the address of a table of the kernel, or loads DS or
    /// ES: the host corrects the result.
    StoresFip,
    /// `int n`.
    Int,
    /// Index into [`UNSUPPORTED`].
    Unsupported(u8),
}

const LOAD: &str = "load of a segment register";

/// Refused instructions and their names in messages.
const UNSUPPORTED: &[(Mnemonic, &str)] = &[
    (Mnemonic::Lgs, LOAD),
    (Mnemonic::Lfs, LOAD),
    (Mnemonic::Iret, "iret"),
    (Mnemonic::Iretd, "iret"),
    (Mnemonic::Iretq, "iret"),
    (Mnemonic::Retf, "far return"),
    (Mnemonic::Lsl, "read of a segment descriptor"),
];

/// Instructions of extensions that `cpuid` hides from guests: undefined, as on a processor without
/// them. `sysenter` is so on AMD's in 64-bit mode.
const HIDDEN: &[Mnemonic] = &[
    Mnemonic::Sysenter,
    Mnemonic::Xbegin,
    Mnemonic::Xabort,
    Mnemonic::Xend,
    Mnemonic::Xtest,
    Mnemonic::Xsusldtrk,
    Mnemonic::Xresldtrk,
    Mnemonic::Rdpru,
    Mnemonic::Rdpkru,
    Mnemonic::Wrpkru,
    Mnemonic::Umonitor,
    Mnemonic::Umwait,
    Mnemonic::Tpause,
    Mnemonic::Monitorx,
    Mnemonic::Mwaitx,
    Mnemonic::Vmcall,
    Mnemonic::Vmmcall,
    Mnemonic::Vmfunc,
    Mnemonic::Vmgexit,
    Mnemonic::Enclu,
    Mnemonic::Senduipi,
    Mnemonic::Uiret,
    Mnemonic::Clui,
    Mnemonic::Stui,
    Mnemonic::Testui,
    Mnemonic::Xstore,
];

const STORES_FIP: &[Mnemonic] = &[
    Mnemonic::Fnstenv,
    Mnemonic::Fstenv,
    Mnemonic::Fnsave,
    Mnemonic::Fsave,
    Mnemonic::Fxsave,
    Mnemonic::Fxsave64,
    Mnemonic::Xsave,
    Mnemonic::Xsave64,
    Mnemonic::Xsavec,
    Mnemonic::Xsavec64,
    Mnemonic::Xsaveopt,
    Mnemonic::Xsaveopt64,
    Mnemonic::Sgdt,
    Mnemonic::Sidt,
];

const INSTR: &[Mnemonic] = &[
    Mnemonic::Rdtsc,
    Mnemonic::Rdtscp,
    Mnemonic::Cpuid,
    Mnemonic::Rdrand,
    Mnemonic::Rdseed,
    Mnemonic::Rdpid,
    Mnemonic::Xgetbv,
    Mnemonic::Wrfsbase,
    Mnemonic::Rdgsbase,
    Mnemonic::Wrgsbase,
];

const SEGMENT_LOADS: &[Code] = &[
    Code::Mov_Sreg_rm16,
    Code::Mov_Sreg_r32m16,
    Code::Mov_Sreg_r64m16,
    Code::Popw_FS,
    Code::Popq_FS,
    Code::Popw_GS,
    Code::Popq_GS,
];

/// More than there are opcodes.
const CODES: usize = 1 << 13;
/// [`KNOWN`]: the class is [`Class::Unsupported`] with the number in the low byte.
const REFUSED: u16 = 1 << 8;

/// Encoded classes by opcode; 0 where none has been computed yet.
/// Process-wide: a cache of pure computation.
static KNOWN: [AtomicU16; CODES] = [const { AtomicU16::new(0) }; CODES];

/// The class of an opcode, computed when first asked for: a start of a program needs few of them,
/// and computing all costs more than translating many fragments.
pub(crate) fn class_of(code: Code) -> Class {
    let known = &KNOWN[code as usize];
    match known.load(Ordering::Relaxed) {
        0 => {
            let class = classify(code);
            known.store(class.encode(), Ordering::Relaxed);
            class
        }
        word => Class::decode(word),
    }
}

/// The class of an instruction: its opcode's, unless that is refused for some operands only.
pub(crate) fn class_of_insn(insn: &Instruction) -> Class {
    let class = class_of(insn.code());
    let from_register = insn.op1_kind() == OpKind::Register;
    match (class, insn.mnemonic(), insn.op0_register()) {
        // The processor itself checks selectors.
        (Class::Unsupported(_), Mnemonic::Mov, Register::SS) => Class::Copy,
        (Class::Unsupported(_), Mnemonic::Mov, Register::DS | Register::ES) => Class::StoresFip,
        (Class::Unsupported(_), Mnemonic::Mov, Register::CS) => Class::Undefined,
        (Class::Unsupported(_), Mnemonic::Mov | Mnemonic::Lsl, _) if from_register => Class::Instr,
        _ => class,
    }
}

impl Class {
    /// All classes that are one word.
    const PLAIN: [Self; 17] = [
        Self::Copy,
        Self::Jcc,
        Self::Loop,
        Self::Jmp,
        Self::Call,
        Self::JmpIndirect,
        Self::CallIndirect,
        Self::Ret,
        Self::Syscall,
        Self::Pause,
        Self::Int3,
        Self::Int1,
        Self::Undefined,
        Self::Instr,
        Self::Popf,
        Self::StoresFip,
        Self::Int,
    ];

    /// A word that is not 0.
    fn encode(self) -> u16 {
        match self {
            Self::Unsupported(number) => REFUSED | u16::from(number),
            plain => {
                let at = Self::PLAIN.iter().position(|c| *c == plain);
                1 + at.expect("the list has all of them") as u16
            }
        }
    }

    fn decode(word: u16) -> Self {
        match word & REFUSED {
            0 => Self::PLAIN[usize::from(word) - 1],
            _ => Self::Unsupported(word as u8),
        }
    }
}

/// The name of a refused instruction.
pub(crate) fn unsupported_name(index: u8) -> &'static str {
    UNSUPPORTED[usize::from(index)].1
}

fn classify(code: Code) -> Class {
    let mnemonic = code.mnemonic();
    if let Some(i) = UNSUPPORTED.iter().position(|row| row.0 == mnemonic) {
        return Class::Unsupported(i as u8);
    }
    if SEGMENT_LOADS.contains(&code) {
        return class_of_unsupported(Mnemonic::Lgs);
    }
    if code.is_jmp_far()
        || code.is_call_far()
        || code.is_jmp_far_indirect()
        || code.is_call_far_indirect()
    {
        return class_of_unsupported(Mnemonic::Retf);
    }
    let by_mnemonic: &[(&[Mnemonic], Class)] = &[
        (STORES_FIP, Class::StoresFip),
        (HIDDEN, Class::Undefined),
        (INSTR, Class::Instr),
        (&[Mnemonic::Syscall], Class::Syscall),
        (&[Mnemonic::Pause], Class::Pause),
        (&[Mnemonic::Int3], Class::Int3),
        (&[Mnemonic::Int1], Class::Int1),
        (&[Mnemonic::Int], Class::Int),
        (
            &[Mnemonic::Ud0, Mnemonic::Ud1, Mnemonic::Ud2],
            Class::Undefined,
        ),
        (
            &[Mnemonic::Popf, Mnemonic::Popfd, Mnemonic::Popfq],
            Class::Popf,
        ),
        (&[Mnemonic::Ret], Class::Ret),
    ];
    if let Some(row) = by_mnemonic.iter().find(|row| row.0.contains(&mnemonic)) {
        return row.1;
    }
    let by_kind: &[(Test, Class)] = &[
        (|c| c.is_jcc_short_or_near(), Class::Jcc),
        (
            |c| c.is_loop() || c.is_loopcc() || c.is_jcx_short(),
            Class::Loop,
        ),
        (|c| c.is_jmp_short_or_near(), Class::Jmp),
        (|c| c.is_call_near(), Class::Call),
        (|c| c.is_jmp_near_indirect(), Class::JmpIndirect),
        (|c| c.is_call_near_indirect(), Class::CallIndirect),
    ];
    by_kind
        .iter()
        .find(|row| row.0(code))
        .map_or(Class::Copy, |row| row.1)
}

fn class_of_unsupported(mnemonic: Mnemonic) -> Class {
    let index = UNSUPPORTED.iter().position(|row| row.0 == mnemonic);
    Class::Unsupported(index.unwrap_or_default() as u8)
}

/// The number of a general register for encoding, for any part of it.
pub(crate) fn gpr_number(reg: Register) -> Option<u8> {
    reg.is_gpr().then(|| reg.full_register().number() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Privileged, not in 64-bit mode, or unknown to processors that are still around: they
    /// fault by themselves.
    const FAULTING: &str = "Into Jmpe Vmlaunch Vmresume Vmrun Skinit Sysret Sysexit Sysexitq Sysretq \
        Rsm Smint Dmint Rdm Altinst Tdcall Seamret Seamcall Eretu Erets Jkzd Jknzd";

    #[test]
    fn every_flow_change_has_a_class_of_its_own() {
        use iced_x86::FlowControl as F;
        for code in Code::values() {
            let flow = code.flow_control();
            let changes = !matches!(flow, F::Next | F::Exception);
            let name = format!("{:?}", code.mnemonic());
            if changes && classify(code) == Class::Copy {
                assert!(FAULTING.split(' ').any(|f| f == name), "{code:?} is copied");
            }
        }
    }

    #[test]
    fn a_class_that_is_known_is_the_one_that_was_found() {
        for code in Code::values() {
            let found = classify(code);
            assert_eq!((class_of(code), class_of(code)), (found, found), "{code:?}");
        }
    }

    #[test]
    fn names_belong_to_the_right_instructions() {
        let Class::Unsupported(i) = classify(Code::Iretq) else {
            panic!("iretq is copied")
        };
        assert_eq!(unsupported_name(i), "iret");
        assert_eq!(classify(Code::Sysenter), Class::Undefined);
        assert_eq!(classify(Code::Wrpkru), Class::Undefined);
        assert_eq!(
            classify(Code::Mov_Sreg_rm16),
            class_of_unsupported(Mnemonic::Lgs)
        );
        assert_eq!(classify(Code::Retfq), class_of_unsupported(Mnemonic::Retf));
        assert_eq!(classify(Code::Mov_rm64_r64), Class::Copy);
        assert_eq!(classify(Code::Jrcxz_rel8_64), Class::Loop);
    }
}
