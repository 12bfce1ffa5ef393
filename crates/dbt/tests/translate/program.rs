//! Random guest programs that end: straight code, bounded loops, calls, jumps of all kinds.

use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use proptest::prelude::*;

use super::raw::Raw;
use super::{locked, raw};

/// A piece of a program.
#[derive(Clone, Debug)]
pub enum Item {
    /// A random instruction.
    Raw(u64),
    /// A random instruction with a lock, or an exchange.
    Locked(u64),
    /// A conditional jump over a part.
    Skip(u8, Vec<Item>),
    /// A loop of some rounds, in one of several ways.
    Loop(u8, u8, Vec<Item>),
    /// A call in one of several ways, with this much for `ret` to pop.
    Call(u8, u8, Vec<Item>),
    /// A jump forward, in one of several ways.
    Jump(u8),
    /// A part between a push and a pop.
    Push(u8, u8, Vec<Item>),
    /// Flags set by popf, 16 bits or 64.
    Popf(u16, bool),
    Pushf,
    /// A string instruction: which, count, backward.
    String(u8, u8, bool),
    /// A division: width, signed.
    Div(u8, bool),
    Pause,
    Std,
}

/// Programs of up to `max` pieces on the outermost level.
pub fn programs(max: usize) -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec(item(3), 1..max)
}

fn item(depth: u32) -> BoxedStrategy<Item> {
    let leaf = prop_oneof![
        12 => any::<u64>().prop_map(Item::Raw),
        2 => any::<u64>().prop_map(Item::Locked),
        1 => any::<u8>().prop_map(Item::Jump),
        1 => (any::<u16>(), any::<bool>()).prop_map(|(f, w)| Item::Popf(f, w)),
        1 => Just(Item::Pushf),
        1 => (any::<u8>(), 0..9u8, any::<bool>()).prop_map(|(a, b, c)| Item::String(a, b, c)),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(a, b)| Item::Div(a, b)),
        1 => Just(Item::Pause),
        1 => Just(Item::Std),
    ]
    .boxed();
    if depth == 0 {
        return leaf;
    }
    let body = move || prop::collection::vec(item(depth - 1), 0..5);
    prop_oneof![
        8 => leaf,
        2 => (any::<u8>(), body()).prop_map(|(c, b)| Item::Skip(c, b)),
        1 => (any::<u8>(), 1..5u8, body()).prop_map(|(k, n, b)| Item::Loop(k, n, b)),
        1 => (any::<u8>(), any::<u8>(), body()).prop_map(|(k, n, b)| Item::Call(k, n, b)),
        1 => (any::<u8>(), any::<u8>(), body()).prop_map(|(k, n, b)| Item::Push(k, n, b)),
    ]
    .boxed()
}

/// Registers that programs compute with.
const FREE: [AsmRegister64; 11] = [rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11];
/// Offset in the data of branch targets, out of the random instructions' reach.
const POINTERS: i32 = 0x3000;
/// Offset in the data of the string instructions' buffers.
const STRINGS: i32 = 0x2800;

/// A program being put together.
pub struct Builder {
    a: CodeAssembler,
    functions: Vec<(CodeLabel, u8, Vec<Item>)>,
    rip_data: u64,
}

/// Bytes of a program's end, at which it stops; room for another way of stopping.
pub const END_BYTES: u64 = 16;

/// The program's bytes at `base`; the last [`END_BYTES`] are `syscall` and some padding.
pub fn build(items: &[Item], base: u64, rip_data: u64) -> Vec<u8> {
    let mut builder = Builder {
        a: CodeAssembler::new(64).expect("assembler"),
        functions: Vec::new(),
        rip_data,
    };
    builder.whole(items).expect("program");
    let code = builder.a.assemble(base).expect("assembly");
    assert!(code.len() < 0x1_8000, "too long");
    code
}

impl Builder {
    fn whole(&mut self, items: &[Item]) -> Result<(), IcedError> {
        let mut end = self.a.create_label();
        self.items(items)?;
        self.a.jmp(end)?;
        while let Some((mut label, pops, body)) = self.functions.pop() {
            self.a.set_label(&mut label)?;
            self.items(&body)?;
            if pops == 0 {
                self.a.ret()?
            } else {
                self.a.ret_1(u32::from(pops) * 8)?
            }
        }
        self.a.set_label(&mut end)?;
        self.a
            .db(&[0x0f, 0x05, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90])?;
        self.a.db(&[0x90; 8])
    }

    fn items(&mut self, items: &[Item]) -> Result<(), IcedError> {
        items.iter().try_for_each(|item| self.item(item))
    }

    fn item(&mut self, item: &Item) -> Result<(), IcedError> {
        match item {
            Item::Raw(seed) => {
                let raw = raw::instruction(*seed, self.rip_data);
                self.raw(raw)
            }
            Item::Locked(seed) => {
                let locked = locked::instruction(*seed, self.rip_data);
                if let Some(reg) = locked.bit {
                    // A bit of the operand itself.
                    self.a.and(FREE[usize::from(reg)], 0xf)?;
                }
                self.raw(locked.raw)
            }
            Item::Skip(kind, body) => self.skip(*kind, body),
            Item::Loop(kind, n, body) => self.repeat(*kind, *n, body),
            Item::Call(kind, pops, body) => self.call(*kind, *pops, body),
            Item::Jump(kind) => self.jump(*kind),
            Item::Push(from, to, body) => {
                self.a.push(FREE[usize::from(*from) % 11])?;
                self.items(body)?;
                self.a.pop(FREE[usize::from(*to) % 11])
            }
            Item::Popf(flags, wide) => {
                // Without TF, and with DF off: string instructions expect that.
                let flags = i32::from(*flags & 0x8d5 | 0x202);
                self.a.push(flags)?;
                if *wide {
                    self.a.popfq()
                } else {
                    self.a.popf()?;
                    self.a.lea(rsp, rsp + 6)
                }
            }
            Item::Pushf => {
                self.a.pushfq()?;
                self.a.pop(rax)
            }
            Item::String(kind, n, backward) => self.string(*kind, *n, *backward),
            Item::Div(kind, signed) => self.divide(*kind, *signed),
            Item::Pause => self.a.pause(),
            Item::Std => {
                self.a.std()?;
                self.a.nop()?;
                self.a.cld()
            }
        }
    }

    fn raw(&mut self, raw: Raw) -> Result<(), IcedError> {
        match raw.relative {
            Some(insn) => self.a.add_instruction(insn),
            None => self.a.db(&raw.bytes),
        }
    }

    fn skip(&mut self, kind: u8, body: &[Item]) -> Result<(), IcedError> {
        let mut over = self.a.create_label();
        let a = &mut self.a;
        match kind % 19 {
            0 => a.jo(over)?,
            1 => a.jno(over)?,
            2 => a.jb(over)?,
            3 => a.jae(over)?,
            4 => a.je(over)?,
            5 => a.jne(over)?,
            6 => a.jbe(over)?,
            7 => a.ja(over)?,
            8 => a.js(over)?,
            9 => a.jns(over)?,
            10 => a.jp(over)?,
            11 => a.jnp(over)?,
            12 => a.jl(over)?,
            13 => a.jge(over)?,
            14 => a.jle(over)?,
            15 => a.jg(over)?,
            16 => a.jrcxz(over)?,
            17 => {
                // jecxz
                a.db(&[0x67])?;
                a.jrcxz(over)?;
            }
            _ => a.loope(over)?,
        }
        self.items(body)?;
        self.a.set_label(&mut over)?;
        self.a.nop()
    }

    fn repeat(&mut self, kind: u8, n: u8, body: &[Item]) -> Result<(), IcedError> {
        let n = u32::from(n);
        let mut head = self.a.create_label();
        let mut out = self.a.create_label();
        match kind % 4 {
            0 => {
                self.a.mov(r14d, n)?;
                self.a.set_label(&mut head)?;
                self.a.push(r14)?;
                self.items(body)?;
                self.a.pop(r14)?;
                self.a.dec(r14d)?;
                self.a.jne(head)?;
            }
            1 => {
                self.a.mov(ecx, n)?;
                self.a.set_label(&mut head)?;
                self.a.push(rcx)?;
                self.items(body)?;
                self.a.pop(rcx)?;
                self.a.loop_(head)?;
            }
            2 => {
                // Flags carried around the loop: lea and jrcxz leave them alone.
                self.a.mov(ecx, n)?;
                self.a.set_label(&mut head)?;
                self.a.push(rcx)?;
                self.items(body)?;
                self.a.pop(rcx)?;
                self.a.lea(rcx, rcx - 1)?;
                self.a.jrcxz(out)?;
                self.a.jmp(head)?;
            }
            _ => {
                self.a.mov(r14d, n)?;
                self.a.set_label(&mut head)?;
                self.a.sub(r14d, 1)?;
                self.a.js(out)?;
                self.a.push(r14)?;
                self.items(body)?;
                self.a.pop(r14)?;
                self.a.jmp(head)?;
            }
        }
        self.a.set_label(&mut out)?;
        self.a.nop()
    }

    fn call(&mut self, kind: u8, pops: u8, body: &[Item]) -> Result<(), IcedError> {
        let pops = pops % 3;
        let label = self.a.create_label();
        self.functions.push((label, pops, body.to_vec()));
        let reg = FREE[usize::from(kind / 8) % 11];
        if pops != 0 {
            self.a.lea(rsp, rsp - i32::from(pops) * 8)?;
        }
        match kind % 5 {
            0 | 1 => self.a.call(label),
            2 => {
                self.a.lea(reg, ptr(label))?;
                self.a.call(reg)
            }
            3 => {
                self.a.lea(reg, ptr(label))?;
                self.a.mov(qword_ptr(r15 + POINTERS), reg)?;
                self.a.call(qword_ptr(r15 + POINTERS))
            }
            _ => {
                self.a.lea(reg, ptr(label))?;
                self.a.mov(qword_ptr(rsp - 64), reg)?;
                self.a.call(qword_ptr(rsp - 64))
            }
        }
    }

    fn jump(&mut self, kind: u8) -> Result<(), IcedError> {
        let mut to = self.a.create_label();
        let reg = FREE[usize::from(kind / 8) % 11];
        if kind % 6 == 5 {
            self.a.call(to)?;
            self.a.set_label(&mut to)?;
            return self.a.pop(reg);
        }
        self.a.lea(reg, ptr(to))?;
        match kind % 6 {
            0 => self.a.jmp(reg)?,
            1 => {
                self.a.mov(qword_ptr(r15 + POINTERS), reg)?;
                self.a.jmp(qword_ptr(r15 + POINTERS))?;
            }
            2 => {
                self.a.mov(qword_ptr(POINTERS).fs(), reg)?;
                self.a.jmp(qword_ptr(POINTERS).fs())?;
            }
            3 => {
                let at = self.rip_data as i64 + i64::from(POINTERS);
                let slot = MemoryOperand::with_base_displ(Register::RIP, at);
                let reg = Register::from(reg);
                self.a
                    .add_instruction(Instruction::with2(Code::Mov_rm64_r64, slot, reg)?)?;
                self.a
                    .add_instruction(Instruction::with1(Code::Jmp_rm64, slot)?)?;
            }
            _ => {
                self.a.push(reg)?;
                self.a.ret()?;
            }
        }
        // Never executed, and no instruction.
        self.a.db(&[0x06])?;
        self.a.set_label(&mut to)?;
        self.a.nop()
    }

    fn string(&mut self, kind: u8, n: u8, backward: bool) -> Result<(), IcedError> {
        let a = &mut self.a;
        a.lea(rsi, r15 + STRINGS)?;
        a.lea(rdi, r15 + STRINGS + 0x100)?;
        a.mov(ecx, u32::from(n))?;
        if backward {
            a.std()?;
        }
        match kind % 9 {
            0 => a.rep().movsb()?,
            1 => a.rep().movsq()?,
            2 => a.rep().stosd()?,
            3 => a.repe().cmpsb()?,
            4 => a.repne().scasb()?,
            5 => a.lodsq()?,
            6 => a.movsw()?,
            7 => a.repe().scasd()?,
            _ => a.cmpsq()?,
        }
        a.cld()
    }

    fn divide(&mut self, kind: u8, signed: bool) -> Result<(), IcedError> {
        let a = &mut self.a;
        match kind % 3 {
            0 => {
                a.and(eax, 0x7f)?;
                a.or(cl, 1)?;
                if signed { a.idiv(cl) } else { a.div(cl) }
            }
            1 => {
                a.and(eax, 0x7fff_ffff)?;
                a.xor(edx, edx)?;
                a.or(ecx, 1)?;
                if signed { a.idiv(ecx) } else { a.div(ecx) }
            }
            _ => {
                a.mov(eax, eax)?;
                a.xor(edx, edx)?;
                a.or(rcx, 1)?;
                if signed { a.idiv(rcx) } else { a.div(rcx) }
            }
        }
    }
}
