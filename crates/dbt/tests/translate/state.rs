//! All state that a guest can see of itself, in a form that can be compared.

use std::arch::x86_64::__cpuid_count;
use std::fmt;

use relive_host::Context;

use super::guest::{DATA, DATA_LEN, Guest, HIGH_DATA, STACK, STACK_LEN};

#[derive(Clone, PartialEq, Eq)]
pub struct State {
    pub gpr: [u64; 16],
    pub rflags: u64,
    pub vector: Vec<u8>,
    pub memory: Vec<(u64, Vec<u8>)>,
}

impl State {
    pub fn of(guest: &Guest) -> Self {
        let regions = [(DATA, DATA_LEN), (HIGH_DATA, DATA_LEN), (STACK, STACK_LEN)];
        Self {
            gpr: guest.ctx.gpr,
            rflags: guest.ctx.rflags,
            vector: vector(guest.ctx),
            memory: regions
                .iter()
                .map(|(at, len)| (*at, guest.read(*at, *len)))
                .collect(),
        }
    }

    /// Sets the guest to this state.
    pub fn restore(&self, guest: &mut Guest) {
        guest.ctx.gpr = self.gpr;
        guest.ctx.rflags = self.rflags;
        let len = self.vector.len();
        let area = guest.ctx.vectors_mut();
        area.0[..len].copy_from_slice(&self.vector);
        area.set_xstate_bv(relive_host::cpu::xcr0());
        for (at, bytes) in &self.memory {
            guest.fill(*at, bytes);
        }
    }
}

/// Bit, offset and size of the XSAVE components above the legacy ones.
fn components() -> impl Iterator<Item = (u64, usize, usize)> {
    (2..8)
        .filter(|i| relive_host::cpu::xcr0() >> i & 1 == 1)
        .map(|i| {
            let leaf = __cpuid_count(0xd, i);
            (1 << i, leaf.ebx as usize, leaf.eax as usize)
        })
}

/// The XSAVE area with components in their initial state written out, and without the fields that
/// depend on the address of code: x87 instruction, data and opcode.
fn vector(ctx: &Context) -> Vec<u8> {
    let area = ctx.vectors();
    let bv = area.xstate_bv();
    let mut area = area.0.to_vec();
    if bv & 1 == 0 {
        area[..24].fill(0);
        area[..2].copy_from_slice(&0x37f_u16.to_le_bytes());
        area[32..160].fill(0);
    }
    area[6..24].fill(0);
    // MXCSR_MASK: a property of the processor, not of the guest's actions.
    area[28..32].fill(0);
    if bv & 2 == 0 {
        area[160..416].fill(0);
    }
    area[416..576].fill(0);
    let mut used = 576;
    for (bit, at, len) in components() {
        if bv & bit == 0 {
            area[at..at + len].fill(0);
        }
        used = used.max(at + len);
    }
    area.truncate(used);
    area
}

impl State {
    /// The differences, in words; empty if there are none.
    pub fn diff(&self, other: &Self) -> String {
        let mut out = String::new();
        for (i, (a, b)) in self.gpr.iter().zip(&other.gpr).enumerate() {
            if a != b {
                out += &format!("register {i}: {a:#x} / {b:#x}\n");
            }
        }
        if self.rflags != other.rflags {
            out += &format!("flags: {:#x} / {:#x}\n", self.rflags, other.rflags);
        }
        let vector = [(0, self.vector.clone())];
        let other_vector = [(0, other.vector.clone())];
        let pairs = self
            .memory
            .iter()
            .zip(&other.memory)
            .chain(vector.iter().zip(&other_vector));
        for ((at, a), (_, b)) in pairs {
            let differing: Vec<_> = a
                .iter()
                .zip(b)
                .enumerate()
                .filter(|(_, (a, b))| a != b)
                .take(16)
                .collect();
            for (i, (a, b)) in differing {
                out += &format!("byte at {:#x}: {a:#x} / {b:#x}\n", at + i as u64);
            }
        }
        out
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "State {{ gpr: {:x?}, rflags: {:#x} }}",
            self.gpr, self.rflags
        )
    }
}
