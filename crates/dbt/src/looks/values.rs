//! The values of the general registers along a straight line of code: each is that of a register at some moment, plus a
//! constant. Must never say of two values that they are a constant apart if they may not be.

use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::classify::gpr_number;
use crate::decode::Insn;
use crate::emit::RSP;

/// The origin of constants.
pub(super) const NOTHING: u32 = 0;

/// A value: what a register held at some moment, and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) origin: u32,
    pub(super) plus: i64,
}

impl Value {
    fn plus(self, more: i64) -> Self {
        Self {
            plus: self.plus.wrapping_add(more),
            ..self
        }
    }
}

/// The values of all general registers.
pub(super) struct Values {
    each: [Value; 16],
    /// The origins that there have been.
    origins: u32,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            each: std::array::from_fn(|n| Value {
                origin: n as u32 + 1,
                plus: 0,
            }),
            origins: 17,
        }
    }
}

impl Values {
    pub(super) fn of(&self, register: u8) -> Value {
        self.each[usize::from(register)]
    }

    /// An instruction is executed. The registers that it uses, a bit for each.
    pub(super) fn pass(&mut self, insn: &Insn) -> u16 {
        let mut uses = 0;
        let new = self.result(insn);
        let pushed = insn.iced.stack_pointer_increment();
        let rsp = self.of(RSP).plus(pushed.into());
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&insn.iced);
        for used in info.used_registers() {
            let is_read = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            let Some(n) = gpr_number(used.register()) else {
                continue;
            };
            uses |= 1 << n;
            if !is_read {
                self.each[usize::from(n)] = Value {
                    origin: self.origins,
                    plus: 0,
                };
                self.origins += 1;
            }
        }
        if moves_stack(insn) {
            self.each[usize::from(RSP)] = rsp;
        }
        if let Some((n, value)) = new {
            self.each[usize::from(n)] = value;
        }
        uses
    }

    /// The register that an instruction sets to a value that is known, and nothing else but flags.
    fn result(&self, insn: &Insn) -> Option<(u8, Value)> {
        let iced = &insn.iced;
        let register = |operand: u32| {
            let r = iced.op_register(operand);
            let is_one = iced.op_kind(operand) == OpKind::Register && r.is_gpr64();
            gpr_number(r).filter(|_| is_one)
        };
        let to = (iced.op_count() > 0).then(|| register(0))??;
        let before = self.of(to);
        let immediate = || {
            let kinds = [OpKind::Immediate8to64, OpKind::Immediate32to64];
            kinds
                .contains(&iced.op_kind(1))
                .then(|| iced.immediate(1) as i64)
        };
        let value = match iced.mnemonic() {
            Mnemonic::Mov => self.of(register(1)?),
            Mnemonic::Add => before.plus(immediate()?),
            Mnemonic::Sub => before.plus(immediate()?.wrapping_neg()),
            Mnemonic::Inc => before.plus(1),
            Mnemonic::Dec => before.plus(-1),
            Mnemonic::Lea => {
                let base = iced.memory_base();
                let is_plain = base.is_gpr64() && iced.memory_index() == Register::None;
                let base = gpr_number(base).filter(|_| is_plain)?;
                self.of(base).plus(iced.memory_displacement64() as i64)
            }
            _ => return None,
        };
        Some((to, value))
    }
}

/// Whether an instruction changes rsp by its increment alone.
fn moves_stack(insn: &Insn) -> bool {
    match insn.iced.mnemonic() {
        Mnemonic::Push | Mnemonic::Call | Mnemonic::Pushfq | Mnemonic::Popfq => true,
        Mnemonic::Pop => {
            insn.iced.op0_register() != Register::RSP && insn.iced.op0_register() != Register::SP
        }
        _ => false,
    }
}
