//! Locations of variables: location expressions (DWARF 5, 2.5 and 2.6), evaluated for one frame of
//! one thread.

use std::rc::Rc;

use gimli::{
    AttributeValue, DW_AT_frame_base, DW_AT_location, EvaluationResult, Expression, Location,
    Reader, Register, UnitOffset, Value, ValueType,
};

use crate::dwarf::Bytes;
use crate::placed::Placed;
use crate::target::{Registers, Target};
use crate::units::{Die, Unit};
use crate::unknown::Unknown;

/// Steps of one expression, at most.
const MOST_STEPS: u32 = 10_000;
/// Pieces that one value may consist of.
const MOST_PIECES: usize = 64;

/// The context of an evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// The thread's pointer (the base of FS), if there is a thread.
    pub thread_pointer: Option<u64>,
    /// Registers in the frame, if there is a frame.
    pub registers: Option<Registers>,
    /// Registers whose value in the frame is known, as bits in DWARF's order.
    pub known: u32,
    /// The frame's address (DWARF 5, 6.4: canonical frame address).
    pub cfa: Option<u64>,
    /// The address in the frame's code to look up.
    pub lookup: u64,
}

/// The place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// In memory.
    Memory(u64),
    /// In a register, by DWARF's number.
    Register(u16),
    /// It has no place, but its bytes are known.
    Value(Vec<u8>),
    /// In pieces with their lengths.
    Pieces(Vec<(Where, usize)>),
    /// It was optimized out.
    Nowhere,
}

/// Evaluates expressions of one module.
pub(crate) struct Evaluator<'a> {
    pub(crate) target: &'a mut dyn Target,
    pub(crate) placed: &'a Placed,
    pub(crate) view: &'a View,
    /// The function of the frame, for its frame base.
    pub(crate) function: Option<Die>,
}

impl Evaluator<'_> {
    /// The place of an entry's variable.
    pub(crate) fn place(
        &mut self,
        unit: &Rc<Unit>,
        location: AttributeValue<Bytes>,
    ) -> Result<Where, Unknown> {
        let dwarf = &unit.dwarf;
        if let AttributeValue::Exprloc(expression) = location {
            return self.expression(unit, expression, None);
        }
        let at = self.view.lookup.wrapping_sub(self.placed.bias);
        let list = dwarf.attr_locations(&unit.unit, location);
        let Ok(Some(mut list)) = list else {
            return Err("its place is said in a way that is not understood".into());
        };
        if self.view.registers.is_none() {
            return Err("it is on the stack, or in a register, of a function: say in which frame with --at and --frame".into());
        }
        while let Ok(Some(entry)) = list.next() {
            if (entry.range.begin..entry.range.end).contains(&at) {
                return self.expression(unit, entry.data, None);
            }
        }
        Ok(Where::Nowhere)
    }

    pub(crate) fn expression(
        &mut self,
        unit: &Rc<Unit>,
        expression: Expression<Bytes>,
        object: Option<u64>,
    ) -> Result<Where, Unknown> {
        let odd = |_| Unknown::from("its place is said in a way that is not understood");
        // An expression without operations means a value without a place.
        if expression.0.is_empty() {
            return Ok(Where::Nowhere);
        }
        let mut evaluation = expression.evaluation(unit.unit.encoding());
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(object) = object {
            evaluation.set_initial_value(object);
        }
        let mut result = evaluation.evaluate().map_err(odd)?;
        // The iteration limit does not count these requests.
        for _ in 0..MOST_STEPS {
            result = match result {
                EvaluationResult::Complete => return pieces(evaluation.result()),
                EvaluationResult::RequiresMemory {
                    address,
                    size,
                    base_type,
                    ..
                } => {
                    let kind = value_type(unit, base_type);
                    let mut bytes = [0; 8];
                    let part = bytes
                        .get_mut(..usize::from(size))
                        .ok_or_else(|| odd(gimli::Error::UnsupportedEvaluation))?;
                    if !self.target.read(address, part) {
                        return Err(format!(
                            "its place is found through {address:#x}, where nothing is mapped"
                        )
                        .into());
                    }
                    let value = Value::from_u64(kind, u64::from_le_bytes(bytes)).map_err(odd)?;
                    evaluation.resume_with_memory(value)
                }
                EvaluationResult::RequiresRegister {
                    register,
                    base_type,
                } => {
                    let kind = value_type(unit, base_type);
                    let value = Value::from_u64(kind, self.register(register)?).map_err(odd)?;
                    evaluation.resume_with_register(value)
                }
                EvaluationResult::RequiresFrameBase => {
                    let base = self.frame_base()?;
                    evaluation.resume_with_frame_base(base)
                }
                EvaluationResult::RequiresTls(offset) => {
                    let at =
                        self.placed
                            .thread_local(self.target, self.view.thread_pointer, offset)?;
                    evaluation.resume_with_tls(at)
                }
                EvaluationResult::RequiresCallFrameCfa => {
                    let cfa = self.view.cfa.ok_or_else(no_frame)?;
                    evaluation.resume_with_call_frame_cfa(cfa)
                }
                EvaluationResult::RequiresRelocatedAddress(at) => {
                    evaluation.resume_with_relocated_address(at.wrapping_add(self.placed.bias))
                }
                EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                    let at = unit.dwarf.address(&unit.unit, index).map_err(odd)?;
                    let bias = if relocate { self.placed.bias } else { 0 };
                    evaluation.resume_with_indexed_address(at.wrapping_add(bias))
                }
                EvaluationResult::RequiresBaseType(at) => {
                    evaluation.resume_with_base_type(value_type(unit, at))
                }
                // The value at the function's entry is lost.
                EvaluationResult::RequiresEntryValue(_) => return Ok(Where::Nowhere),
                _ => return Err(odd(gimli::Error::UnsupportedEvaluation)),
            }
            .map_err(odd)?;
        }
        Err(odd(gimli::Error::TooManyIterations))
    }

    fn register(&self, register: Register) -> Result<u64, Unknown> {
        let registers = self.view.registers.as_ref().ok_or_else(no_frame)?;
        if register == gimli::X86_64::RA {
            return Ok(registers.pc);
        }
        let n = usize::from(register.0);
        match registers.general.get(n) {
            Some(value) if self.view.known >> n & 1 == 1 => Ok(*value),
            _ => Err("its place is found through a register that the functions called since have changed".into()),
        }
    }

    fn frame_base(&mut self) -> Result<u64, Unknown> {
        let function = self.function.clone().ok_or_else(no_frame)?;
        let base = function.attr(DW_AT_frame_base).ok_or_else(no_frame)?;
        // A frame base that refers to itself is invalid.
        self.function = None;
        let place = self.place(&function.unit, base);
        self.function = Some(function);
        match place? {
            Where::Memory(at) => Ok(at),
            Where::Register(n) => self.register(Register(n)),
            _ => Err(no_frame()),
        }
    }
}

/// The location of an entry's variable, if the entry has one.
pub(crate) fn location(die: &Die) -> Option<AttributeValue<Bytes>> {
    die.attr(DW_AT_location)
}

fn no_frame() -> Unknown {
    "it belongs to a frame of a function: say which one with --at and --frame".into()
}

fn value_type(unit: &Unit, at: UnitOffset<usize>) -> ValueType {
    if at.0 == 0 {
        return ValueType::Generic;
    }
    let entry = unit.unit.entry(at).ok();
    let kind = entry.and_then(|entry| ValueType::from_entry(&entry).ok()?);
    kind.unwrap_or(ValueType::Generic)
}

fn pieces(all: Vec<gimli::Piece<Bytes>>) -> Result<Where, Unknown> {
    let mut found = Vec::new();
    if all.len() > MOST_PIECES {
        return Err("it lies in too many pieces".into());
    }
    let single = all.len() == 1;
    for piece in all {
        let place = match piece.location {
            Location::Address { address } => Where::Memory(address),
            Location::Register { register } => Where::Register(register.0),
            Location::Value { value } => Where::Value(bytes_of(value)),
            Location::Bytes { value } => {
                Where::Value(value.to_slice().map(|b| b.to_vec()).unwrap_or_default())
            }
            _ => Where::Nowhere,
        };
        match piece.size_in_bits {
            None if single => return Ok(place),
            Some(bits) if bits % 8 == 0 && piece.bit_offset.unwrap_or(0) == 0 => {
                found.push((place, (bits / 8) as usize));
            }
            _ => return Err("it lies in pieces of single bits".into()),
        }
    }
    Ok(Where::Pieces(found))
}

fn bytes_of(value: Value) -> Vec<u8> {
    match value {
        Value::Generic(v) | Value::U64(v) => v.to_le_bytes().to_vec(),
        Value::I8(v) => v.to_le_bytes().to_vec(),
        Value::U8(v) => v.to_le_bytes().to_vec(),
        Value::I16(v) => v.to_le_bytes().to_vec(),
        Value::U16(v) => v.to_le_bytes().to_vec(),
        Value::I32(v) => v.to_le_bytes().to_vec(),
        Value::U32(v) => v.to_le_bytes().to_vec(),
        Value::I64(v) => v.to_le_bytes().to_vec(),
        Value::F32(v) => v.to_le_bytes().to_vec(),
        Value::F64(v) => v.to_le_bytes().to_vec(),
    }
}
