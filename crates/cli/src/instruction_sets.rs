//! Instruction sets that a recording may need, and those of them that this machine lacks.

use relive_trace::{Manifest, Trace};

use crate::output;

/// Instruction sets that a program may use after it has asked cpuid, in the kernel's
/// spelling (`/proc/cpuinfo`). A replay executes the same instructions.
const INSTRUCTION_SETS: [&str; 39] = [
    "cx16",
    "lahf_lm",
    "popcnt",
    "pni",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "movbe",
    "f16c",
    "fma",
    "bmi1",
    "bmi2",
    "abm",
    "avx",
    "avx2",
    "aes",
    "pclmulqdq",
    "sha_ni",
    "adx",
    "gfni",
    "vaes",
    "vpclmulqdq",
    "avx_vnni",
    "avx512f",
    "avx512dq",
    "avx512ifma",
    "avx512cd",
    "avx512bw",
    "avx512vl",
    "avx512vbmi",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_bitalg",
    "avx512_vpopcntdq",
    "avx512_bf16",
    "avx512_fp16",
    "sse4a",
    "fma4",
    "xop",
];

/// Warns of instruction sets that the recording machine had and this one lacks.
pub fn complain_of_missing(trace: &Trace) {
    let missing = missing(trace.manifest());
    if !missing.is_empty() {
        output::complain(&format!(
            "this machine lacks {}, which the recorded one had: if the program used it, a replay fails here",
            missing.join(" ")
        ));
    }
}

/// Instruction sets that the recording machine had and this one lacks.
pub fn missing(manifest: &Manifest) -> Vec<String> {
    let here = relive_trace::Manifest::new(Vec::new(), "".into(), Vec::new())
        .cpu
        .features;
    needed(manifest)
        .into_iter()
        .filter(|feature| !here.contains(feature))
        .collect()
}

/// Instruction sets of the recording machine: the most that a replay can need.
pub fn needed(manifest: &Manifest) -> Vec<String> {
    let known = |feature: &&String| INSTRUCTION_SETS.contains(&feature.as_str());
    manifest
        .cpu
        .features
        .iter()
        .filter(known)
        .cloned()
        .collect()
}
