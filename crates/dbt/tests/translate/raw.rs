//! Random single instructions from all of the opcode space, as far as they compute without
//! side effects beyond registers, flags and the test's own data.

use std::arch::is_x86_feature_detected;
use std::collections::HashSet;
use std::sync::OnceLock;

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction,
    InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use relive_sched::Rng;

use super::guest::DATA;

/// Registers that instructions must leave alone: stack, data base, counters, index.
const RESERVED: [Register; 5] = [
    Register::RSP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The value of the index register r12.
pub const INDEX: u64 = 64;

/// One instruction: its bytes, and with a RIP-relative operand also the decoded instruction, whose
/// displacement must still be made relative.
pub struct Raw {
    pub bytes: Vec<u8>,
    pub relative: Option<Instruction>,
}

/// The instruction that `seed` stands for. RIP-relative operands address `rip_data` and on.
pub fn instruction(seed: u64, rip_data: u64) -> Raw {
    let mut rng = Rng::new(seed);
    loop {
        if let Some(raw) = attempt(&mut rng, rip_data) {
            return raw;
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Registers,
    Based,
    Indexed,
    Rip,
    Fs,
}

fn attempt(rng: &mut Rng, rip_data: u64) -> Option<Raw> {
    const FORMS: [Form; 8] = [
        Form::Registers,
        Form::Registers,
        Form::Registers,
        Form::Based,
        Form::Based,
        Form::Indexed,
        Form::Rip,
        Form::Fs,
    ];
    let form = FORMS[rng.below(8) as usize];
    let mut bytes = Vec::new();
    if form == Form::Fs {
        bytes.push(0x64);
    }
    if form != Form::Fs && form != Form::Registers && rng.one_in(10) {
        bytes.push(0x67);
    }
    if rng.one_in(12) {
        bytes.push([0x2e, 0x3e, 0x26][rng.below(3) as usize]);
    }
    // REX and VEX bits that the memory form needs: base r15, index r12.
    let (x, b) = match form {
        Form::Based => (0, 1),
        Form::Indexed => (1, 1),
        Form::Rip => (0, rng.below(2) as u8),
        Form::Fs => (0, 0),
        Form::Registers => (rng.below(2) as u8, rng.below(2) as u8),
    };
    let r = rng.below(2) as u8;
    match rng.below(10) {
        0..=5 => legacy(rng, &mut bytes, r, x, b),
        6..=7 => vex(rng, &mut bytes, r, x, b),
        _ => evex(rng, &mut bytes, r, x, b),
    }
    let reg = (rng.below(8) as u8) << 3;
    let disp = if rng.one_in(3) {
        rng.below(0x700)
    } else {
        rng.below(0x1c) * 64
    } as u32;
    match form {
        Form::Registers => bytes.push(0xc0 | reg | rng.below(8) as u8),
        Form::Based if rng.one_in(3) => bytes.extend([0x47 | reg, 0]),
        Form::Based => {
            bytes.push(0x87 | reg);
            bytes.extend(disp.to_le_bytes());
        }
        Form::Indexed => {
            bytes.extend([0x84 | reg, 0x27 | (rng.below(4) as u8) << 6]);
            bytes.extend(disp.to_le_bytes());
        }
        Form::Rip => {
            bytes.push(0x05 | reg);
            bytes.extend(disp.to_le_bytes());
        }
        Form::Fs => {
            bytes.extend([0x04 | reg, 0x25]);
            bytes.extend(disp.to_le_bytes());
        }
    }
    bytes.extend(rng.word().to_le_bytes());
    accept(bytes, rip_data, disp)
}

fn legacy(rng: &mut Rng, bytes: &mut Vec<u8>, r: u8, x: u8, b: u8) {
    if rng.one_in(3) {
        bytes.push([0x66, 0xf2, 0xf3][rng.below(3) as usize]);
    }
    if rng.one_in(8) {
        bytes.push(0xf0);
    }
    let rex = (rng.below(2) as u8) << 3 | r << 2 | x << 1 | b;
    if rex != 0 || rng.one_in(4) {
        bytes.push(0x40 | rex);
    }
    match rng.below(6) {
        0..=2 => {}
        3 | 4 => bytes.push(0x0f),
        _ => bytes.extend([0x0f, [0x38, 0x3a][rng.below(2) as usize]]),
    }
    bytes.push(rng.word() as u8);
}

fn vex(rng: &mut Rng, bytes: &mut Vec<u8>, r: u8, x: u8, b: u8) {
    let map = 1 + rng.below(3) as u8;
    let rest = rng.word() as u8;
    // w, vvvv, l, pp: half of the time no second source.
    let rest = if rng.one_in(2) { rest | 0x78 } else { rest };
    bytes.extend([
        0xc4,
        (!r & 1) << 7 | (!x & 1) << 6 | (!b & 1) << 5 | map,
        rest,
        rng.word() as u8,
    ]);
}

fn evex(rng: &mut Rng, bytes: &mut Vec<u8>, r: u8, x: u8, b: u8) {
    let map = 1 + rng.below(3) as u8;
    let r2 = rng.below(2) as u8;
    let p0 = (!r & 1) << 7 | (!x & 1) << 6 | (!b & 1) << 5 | r2 << 4 | map;
    let p1 = rng.word() as u8 | 4;
    let p1 = if rng.one_in(2) { p1 | 0x78 } else { p1 };
    let p2 = rng.word() as u8 & 0xef | 8 | u8::from(rng.one_in(6)) << 4;
    bytes.extend([0x62, p0, p1, p2, rng.word() as u8]);
}

/// Mnemonics that this test leaves out: they stop, depend on more than registers, or change how
/// others behave.
const EXCLUDED: &[Mnemonic] = &[
    Mnemonic::Cpuid,
    Mnemonic::Rdtsc,
    Mnemonic::Rdtscp,
    Mnemonic::Rdrand,
    Mnemonic::Rdseed,
    Mnemonic::Rdpid,
    Mnemonic::Rdpmc,
    Mnemonic::Rdpru,
    Mnemonic::Xgetbv,
    Mnemonic::Pause,
    Mnemonic::Div,
    Mnemonic::Idiv,
    Mnemonic::Ldmxcsr,
    Mnemonic::Vldmxcsr,
    Mnemonic::Fldcw,
    Mnemonic::Fldenv,
    Mnemonic::Frstor,
    Mnemonic::Fnstenv,
    Mnemonic::Fnsave,
    Mnemonic::Fxsave,
    Mnemonic::Fxsave64,
    Mnemonic::Fxrstor,
    Mnemonic::Fxrstor64,
    Mnemonic::Xsave,
    Mnemonic::Xsave64,
    Mnemonic::Xsavec,
    Mnemonic::Xsavec64,
    Mnemonic::Xsaveopt,
    Mnemonic::Xsaveopt64,
    Mnemonic::Xrstor,
    Mnemonic::Xrstor64,
    Mnemonic::Wrfsbase,
    Mnemonic::Rdgsbase,
    Mnemonic::Wrgsbase,
    Mnemonic::Sgdt,
    Mnemonic::Sidt,
    Mnemonic::Sldt,
    Mnemonic::Str,
    Mnemonic::Smsw,
    Mnemonic::Lsl,
    Mnemonic::Lss,
    Mnemonic::Lfs,
    Mnemonic::Lgs,
    Mnemonic::Popf,
    Mnemonic::Popfd,
    Mnemonic::Popfq,
    Mnemonic::Monitor,
    Mnemonic::Mwait,
    Mnemonic::Monitorx,
    Mnemonic::Mwaitx,
    Mnemonic::Std,
    Mnemonic::Reservednop,
];

fn accept(mut bytes: Vec<u8>, rip_data: u64, disp: u32) -> Option<Raw> {
    let mut insn = Instruction::default();
    let mut decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
    decoder.decode_out(&mut insn);
    if insn.is_invalid()
        || !matches!(insn.flow_control(), FlowControl::Next)
        || insn.is_privileged()
    {
        return None;
    }
    if EXCLUDED.contains(&insn.mnemonic()) || insn.segment_prefix() == Register::GS {
        return None;
    }
    if !insn
        .cpuid_features()
        .iter()
        .all(|f| supported().contains(f))
    {
        return None;
    }
    let loads_segment = insn.op_count() > 0
        && insn.op0_kind() == OpKind::Register
        && insn.op0_register().is_segment_register();
    let addresses_bits = matches!(
        insn.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    ) && insn.op0_kind() == OpKind::Memory
        && insn.op1_kind() == OpKind::Register;
    if loads_segment || addresses_bits {
        return None;
    }
    // With a bit set that has no meaning there (62 b2 fd ad 7c e4), Zen 4 now and then reads rsp as
    // it was before the last push or pop, natively too.
    let evex = insn.code().encoding() == EncodingKind::EVEX;
    if evex && (0..insn.op_count()).any(|i| insn.op_register(i).full_register() == Register::RSP) {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&insn);
    let writes_reserved = info.used_registers().iter().any(|used| {
        let writes = !matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        );
        writes
            && (RESERVED.contains(&used.register().full_register())
                || used.register().is_segment_register())
    });
    if writes_reserved {
        return None;
    }
    // The decoder may have found another operand than the generated one.
    let far = !insn.is_ip_rel_memory_operand()
        && insn.memory_displacement64() != u64::from(disp)
        && insn.memory_displacement64() != 0;
    let both = insn.segment_prefix() == Register::FS
        && (insn.memory_base() != Register::None || insn.memory_index() != Register::None);
    let indexed_by_other = !matches!(
        insn.memory_index(),
        Register::None | Register::R12 | Register::R12D
    );
    if far || both || indexed_by_other {
        return None;
    }
    for used in info.used_memory() {
        let base_ok = matches!(
            used.base(),
            Register::R15 | Register::R15D | Register::RIP | Register::EIP
        ) || used.base() == Register::None
            && (used.segment() == Register::FS || insn.is_ip_rel_memory_operand());
        if !base_ok || used.index().is_vector_register() {
            return None;
        }
        if used.memory_size().size() >= 16 && !disp.is_multiple_of(64) {
            return None;
        }
    }
    bytes.truncate(insn.len());
    let relative = insn.is_ip_rel_memory_operand().then(|| {
        let mut at = if insn.memory_base() == Register::EIP {
            DATA
        } else {
            rip_data
        };
        at += u64::from(disp);
        insn.set_memory_displacement64(at);
        insn
    });
    if relative.is_some() && insn.memory_base() == Register::EIP && rip_data != DATA {
        return None;
    }
    Some(Raw { bytes, relative })
}

/// The features of this processor, of those that the generator uses.
fn supported() -> &'static HashSet<CpuidFeature> {
    static SET: OnceLock<HashSet<CpuidFeature>> = OnceLock::new();
    SET.get_or_init(|| {
        use CpuidFeature as F;
        let mut set: HashSet<F> = [
            F::INTEL8086, F::INTEL186, F::INTEL286, F::INTEL386, F::INTEL486, F::X64, F::FPU, F::FPU287, F::FPU387,
            F::CMOV, F::MMX, F::CX8, F::MULTIBYTENOP, F::SSE, F::SSE2, F::PREFETCHW, F::CET_IBT,
        ]
        .into_iter()
        .collect();
        macro_rules! detect {
            ($($name:tt => $feature:ident),* $(,)?) => {
                $(if is_x86_feature_detected!($name) { set.insert(F::$feature); })*
            };
        }
        detect! {
            "sse3" => SSE3, "ssse3" => SSSE3, "sse4.1" => SSE4_1, "sse4.2" => SSE4_2, "sse4a" => SSE4A,
            "avx" => AVX, "avx2" => AVX2, "fma" => FMA, "f16c" => F16C, "aes" => AES, "pclmulqdq" => PCLMULQDQ,
            "popcnt" => POPCNT, "lzcnt" => LZCNT, "bmi1" => BMI1, "bmi2" => BMI2, "adx" => ADX, "movbe" => MOVBE,
            "sha" => SHA, "gfni" => GFNI, "vaes" => VAES, "vpclmulqdq" => VPCLMULQDQ, "cmpxchg16b" => CMPXCHG16B,
            "avx512f" => AVX512F, "avx512bw" => AVX512BW, "avx512cd" => AVX512CD, "avx512dq" => AVX512DQ,
            "avx512vl" => AVX512VL, "avx512ifma" => AVX512_IFMA, "avx512vbmi" => AVX512_VBMI,
            "avx512vbmi2" => AVX512_VBMI2, "avx512vnni" => AVX512_VNNI, "avx512bitalg" => AVX512_BITALG,
            "avx512vpopcntdq" => AVX512_VPOPCNTDQ, "avx512bf16" => AVX512_BF16, "fxsr" => FXSR,
        }
        if is_x86_feature_detected!("sse3") {
            set.insert(F::CMPXCHG16B);
        }
        // FSGSBASE is checked for by the host.
        set.insert(F::FSGSBASE);
        set
    })
}
