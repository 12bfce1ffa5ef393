//! Call stacks: by the tables that compilers emit for exceptions and debuggers, else by frame
//! pointers.

use gimli::{
    CfaRule, EvaluationResult, FrameDescriptionEntry, Location, Piece, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

use crate::dwarf::Bytes;
use crate::evaluate::View;
use crate::space::Space;
use crate::target::{Registers, Target};

/// Limit on the frames of a stack.
pub const MOST_FRAMES: usize = 1000;
/// Steps of one expression in a table, at most.
const MOST_STEPS: u32 = 1000;

/// All general registers, as bits.
const ALL: u32 = 0xffff;
/// Callee-saved registers: rbx, rbp, r12 to r15.
const PRESERVED: u32 = 1 << 3 | 1 << 6 | 0xf000;
/// A function of Go preserves no more than these.
const GO_KEEPS: u32 = 1 << RBP | 1 << RSP;
const RBP: usize = 6;
const RSP: usize = 7;
/// The column of the return address.
const RETURN: Register = gimli::X86_64::RA;

/// How a frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The present frame of the thread.
    Present,
    /// By tables.
    Tables,
    /// By frame pointers: less certain.
    FramePointer,
    /// By the word at the stack pointer, after a jump to an address without code.
    TopOfStack,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its registers, as far as they are known.
    pub registers: Registers,
    /// The known general registers, as bits.
    pub known: u32,
    /// The address to look up: for a caller that of the call, not of the return.
    pub lookup: u64,
    /// The way it was found.
    pub how: How,
}

/// Follows a stack, the present frame first.
pub fn unwind(target: &mut dyn Target, space: &Space, registers: &Registers) -> Vec<Frame> {
    let mut frames = vec![Frame {
        registers: *registers,
        known: ALL,
        lookup: registers.pc,
        how: How::Present,
    }];
    while frames.len() < MOST_FRAMES {
        let callee = frames[frames.len() - 1];
        let Some(caller) = caller(target, space, &callee) else {
            break;
        };
        frames.push(caller);
    }
    frames
}

fn caller(target: &mut dyn Target, space: &Space, callee: &Frame) -> Option<Frame> {
    let registers = &callee.registers;
    if !space.is_code(registers.pc) {
        // A call through a wild pointer: the return address was pushed last.
        return (callee.how == How::Present)
            .then(|| {
                let mut up = *registers;
                up.pc = target.word(registers.general[RSP])?;
                up.general[RSP] = registers.general[RSP].wrapping_add(8);
                let known = space.is_code(up.pc);
                known.then_some(Frame {
                    registers: up,
                    known: ALL,
                    lookup: up.pc.wrapping_sub(1),
                    how: How::TopOfStack,
                })
            })
            .flatten();
    }
    match by_tables(target, space, callee) {
        Tabled::Caller(frame) => Some(frame),
        Tabled::Outermost => None,
        Tabled::Unknown => by_frame_pointer(target, space, registers),
    }
}

enum Tabled {
    Caller(Frame),
    /// The tables say that it has no caller.
    Outermost,
    /// There are no tables, or they are invalid.
    Unknown,
}

fn by_tables(target: &mut dyn Target, space: &Space, callee: &Frame) -> Tabled {
    let Some(placed) = space.module_at(callee.lookup) else {
        return Tabled::Unknown;
    };
    let (tables, own) = (
        &placed.module.tables,
        callee.lookup.wrapping_sub(placed.bias),
    );
    let eh = tables.eh_frame.as_ref();
    let found = eh.and_then(|s| step(target, s, &tables.bases, own, callee));
    let found = found.or_else(|| {
        let debug = tables.debug_frame.as_ref()?;
        step(target, debug, &tables.bases, own, callee)
    });
    let Some((up, known, signal)) = found else {
        return Tabled::Unknown;
    };
    let known = if tables.go { known & GO_KEEPS } else { known };
    // Behind a signal's frame the stack may be another one; otherwise frames only go up.
    let goes_on = signal || up.general[RSP] > callee.registers.general[RSP];
    if up.pc == 0 || !goes_on {
        return Tabled::Outermost;
    }
    Tabled::Caller(Frame {
        registers: up,
        known,
        // The frame below a signal's was interrupted, it made no call.
        lookup: up.pc.wrapping_sub(u64::from(!signal)),
        how: How::Tables,
    })
}

/// The entry of the function at an address in one section of tables, and its rules there.
fn rules<'c, S: UnwindSection<Bytes>>(
    section: &S,
    bases: &gimli::BaseAddresses,
    address: u64,
    context: &'c mut UnwindContext<usize>,
) -> Option<(FrameDescriptionEntry<Bytes>, &'c UnwindTableRow<usize>)>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let entry = section
        .fde_for_address(bases, address, S::cie_from_offset)
        .ok()?;
    let row = entry
        .unwind_info_for_address(section, bases, context, address)
        .ok()?;
    Some((entry, row))
}

/// The canonical frame address by one section of tables.
fn canonical<S: UnwindSection<Bytes>>(
    target: &mut dyn Target,
    section: &S,
    bases: &gimli::BaseAddresses,
    address: u64,
    registers: &Registers,
) -> Option<u64>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let mut context = UnwindContext::new();
    let (entry, row) = rules(section, bases, address, &mut context)?;
    let encoding = entry.cie().encoding();
    let mut machine = Machine {
        target,
        registers,
        encoding,
    };
    machine.cfa(section, row.cfa())
}

/// The view of a frame for evaluating debug information.
pub fn view(target: &mut dyn Target, space: &Space, frame: &Frame, thread_pointer: u64) -> View {
    let cfa = space.module_at(frame.lookup).and_then(|placed| {
        let tables = &placed.module.tables;
        let own = frame.lookup.wrapping_sub(placed.bias);
        let eh = tables.eh_frame.as_ref();
        let found = eh.and_then(|s| canonical(target, s, &tables.bases, own, &frame.registers));
        found.or_else(|| {
            let debug = tables.debug_frame.as_ref()?;
            canonical(target, debug, &tables.bases, own, &frame.registers)
        })
    });
    View {
        thread_pointer: Some(thread_pointer),
        registers: Some(frame.registers),
        known: frame.known,
        cfa,
        lookup: frame.lookup,
    }
}

/// The caller's registers by one section of tables, which of them are known, and whether the
/// callee was a signal's frame.
fn step<S: UnwindSection<Bytes>>(
    target: &mut dyn Target,
    section: &S,
    bases: &gimli::BaseAddresses,
    address: u64,
    callee: &Frame,
) -> Option<(Registers, u32, bool)>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let mut context = UnwindContext::new();
    let (entry, row) = rules(section, bases, address, &mut context)?;
    let encoding = entry.cie().encoding();
    let registers = &callee.registers;
    let mut machine = Machine {
        target,
        registers,
        encoding,
    };
    let cfa = machine.cfa(section, row.cfa())?;
    let mut up = *registers;
    up.general[RSP] = cfa;
    let mut known = 1 << RSP;
    for number in 0..16 {
        if number == RSP {
            continue;
        }
        let register = Register(number as u16);
        let value = machine.restore(section, row, register, cfa);
        if let Some(value) = value {
            up.general[number] = value;
        }
        let bit = 1 << number;
        known |= match row.register(register) {
            // Without a rule a register follows the calling convention.
            None => callee.known & PRESERVED & bit,
            Some(RegisterRule::SameValue) => callee.known & bit,
            Some(RegisterRule::Undefined) => 0,
            Some(_) => u32::from(value.is_some()) << number,
        };
    }
    if let Some(rsp) = machine.explicit(section, row, gimli::X86_64::RSP, cfa) {
        up.general[RSP] = rsp;
    }
    // No caller: the return address is undefined.
    up.pc = match row.register(RETURN) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => 0,
        Some(_) => machine.restore(section, row, RETURN, cfa)?,
    };
    Some((up, known, entry.is_signal_trampoline()))
}

/// Evaluates rules of tables in one frame.
struct Machine<'a> {
    target: &'a mut dyn Target,
    registers: &'a Registers,
    encoding: gimli::Encoding,
}

impl Machine<'_> {
    fn cfa<S: UnwindSection<Bytes>>(&mut self, section: &S, rule: &CfaRule<usize>) -> Option<u64> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => Some(
                self.register(*register)?
                    .wrapping_add(offset.cast_unsigned()),
            ),
            CfaRule::Expression(e) => self.evaluate(section, e, None),
        }
    }

    fn register(&self, register: Register) -> Option<u64> {
        match register {
            RETURN => Some(self.registers.pc),
            Register(n) => self.registers.general.get(usize::from(n)).copied(),
        }
    }

    /// A register's value in the caller, if a rule gives it.
    fn explicit<S: UnwindSection<Bytes>>(
        &mut self,
        section: &S,
        row: &UnwindTableRow<usize>,
        register: Register,
        cfa: u64,
    ) -> Option<u64> {
        match row.register(register)? {
            RegisterRule::Offset(n) => self.target.word(cfa.wrapping_add(n.cast_unsigned())),
            RegisterRule::ValOffset(n) => Some(cfa.wrapping_add(n.cast_unsigned())),
            RegisterRule::Register(other) => self.register(other),
            RegisterRule::Expression(e) => {
                let at = self.evaluate(section, &e, Some(cfa))?;
                self.target.word(at)
            }
            RegisterRule::ValExpression(e) => self.evaluate(section, &e, Some(cfa)),
            RegisterRule::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// A register's value in the caller; unchanged where no rule says otherwise.
    fn restore<S: UnwindSection<Bytes>>(
        &mut self,
        section: &S,
        row: &UnwindTableRow<usize>,
        register: Register,
        cfa: u64,
    ) -> Option<u64> {
        match row.register(register) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => {
                self.register(register)
            }
            Some(_) => self.explicit(section, row, register, cfa),
        }
    }

    fn evaluate<S: UnwindSection<Bytes>>(
        &mut self,
        section: &S,
        expression: &UnwindExpression<usize>,
        first: Option<u64>,
    ) -> Option<u64> {
        let mut evaluation = expression.get(section).ok()?.evaluation(self.encoding);
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(value) = first {
            evaluation.set_initial_value(value);
        }
        let mut result = evaluation.evaluate().ok()?;
        // The iteration limit does not count these requests.
        for _ in 0..MOST_STEPS {
            result = match result {
                EvaluationResult::Complete => {
                    return match evaluation.result().first()? {
                        Piece {
                            location: Location::Address { address },
                            ..
                        } => Some(*address),
                        _ => None,
                    };
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let mut bytes = [0; 8];
                    let part = bytes.get_mut(..usize::from(size))?;
                    if !self.target.read(address, part) {
                        return None;
                    }
                    let value = u64::from_le_bytes(bytes);
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = Value::Generic(self.register(register)?);
                    evaluation.resume_with_register(value).ok()?
                }
                _ => return None,
            };
        }
        None
    }
}

fn by_frame_pointer(
    target: &mut dyn Target,
    space: &Space,
    registers: &Registers,
) -> Option<Frame> {
    let (rbp, rsp) = (registers.general[RBP], registers.general[RSP]);
    if rbp < rsp || rbp % 8 != 0 {
        return None;
    }
    let mut up = *registers;
    up.general[RBP] = target.word(rbp)?;
    up.pc = target.word(rbp.checked_add(8)?)?;
    up.general[RSP] = rbp.checked_add(16)?;
    space.is_code(up.pc).then_some(Frame {
        registers: up,
        known: 1 << RBP | 1 << RSP,
        lookup: up.pc.wrapping_sub(1),
        how: How::FramePointer,
    })
}
