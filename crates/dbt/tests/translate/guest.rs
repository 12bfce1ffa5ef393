//! A guest without an operating system: some memory at fixed places, one thread, and a loop
//! around the translator that runs it until it stops.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use iced_x86::code_asm::{CodeAssembler, eax};
use relive_dbt::{Bad, Behind, Code, Next, Options, Stop, Translator};
use relive_host::reading::{self, Use, Window};
use relive_host::signal::{self, Disposition};
use relive_host::{Context, GuestAddr, cpu, enter, order, window};

/// Code in the low window.
pub const LOW_CODE: u64 = 0x40_0000;
/// Code above it.
pub const HIGH_CODE: u64 = 0x2000_0000_0000;
pub const CODE_LEN: u64 = 0x2_0000;
/// Data in the low window.
pub const DATA: u64 = 0x50_0000;
/// Data near the high code.
pub const HIGH_DATA: u64 = HIGH_CODE + 0x10_0000;
pub const DATA_LEN: u64 = 0x4000;
pub const STACK: u64 = relive_host::layout::HIGH_ALLOC + 0x10_0000;
pub const STACK_LEN: u64 = 0x1_0000;
/// The guest's first stack pointer.
pub const TOP: u64 = STACK + STACK_LEN / 2;

const REGIONS: [(u64, u64); 5] = [
    (LOW_CODE, CODE_LEN),
    (HIGH_CODE, CODE_LEN),
    (DATA, DATA_LEN),
    (HIGH_DATA, DATA_LEN),
    (STACK, STACK_LEN),
];

/// The ranges of executable guest memory.
pub struct Memory {
    pub executable: Vec<(u64, u64)>,
    /// Whether the guest may write to none of them.
    pub lasting: bool,
}

impl Code for Memory {
    fn fetch(&self, pc: GuestAddr, buf: &mut [u8; 16]) -> usize {
        let within = |a: u64| {
            self.executable
                .iter()
                .any(|(start, end)| (*start..*end).contains(&a))
        };
        let n = (0..16)
            .take_while(|i| within(pc.0.wrapping_add(*i)))
            .count();
        for (i, byte) in buf[..n].iter_mut().enumerate() {
            // SAFETY: executable ranges are mapped readable by `Guest::new`.
            *byte = unsafe { ((pc.0 + i as u64) as *const u8).read_volatile() };
        }
        n
    }

    fn lasting(&self, _pc: GuestAddr) -> bool {
        self.lasting
    }
}

/// The guest. Tests take turns by holding one.
pub struct Guest {
    pub ctx: &'static mut Context,
    pub t: Translator,
    pub memory: Memory,
    pub exits: u64,
    _turn: MutexGuard<'static, ()>,
}

/// A budget that no test uses up, unless it loops forever.
pub const PLENTY: i64 = 1_000_000;

/// The options of the tests that this module is part of.
pub fn options(max_insns: u32) -> Options {
    Options {
        max_insns,
        ..super::base_options()
    }
}

impl Guest {
    pub fn new(max_insns: u32) -> Self {
        Self::with(options(max_insns))
    }

    pub fn with(options: Options) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        set_up_process();
        let ctx = thread_context();
        reset(ctx);
        order::forget().expect("their memory is there");
        let mut t = Translator::new(options).expect("translator");
        t.add_code_range(GuestAddr(LOW_CODE), GuestAddr(LOW_CODE + CODE_LEN))
            .expect("table");
        let memory = Memory {
            executable: vec![
                (LOW_CODE, LOW_CODE + CODE_LEN),
                (HIGH_CODE, HIGH_CODE + CODE_LEN),
            ],
            lasting: true,
        };
        let mut guest = Self {
            ctx,
            t,
            memory,
            exits: 0,
            _turn: turn,
        };
        for (start, len) in REGIONS {
            guest.fill(start, &vec![0; len as usize]);
        }
        guest
    }

    /// Writes guest memory regardless of its protection.
    pub fn fill(&mut self, at: u64, bytes: &[u8]) {
        assert!(
            REGIONS
                .iter()
                .any(|(s, l)| at >= *s && at + bytes.len() as u64 <= s + l)
        );
        // SAFETY: the range is one of the guest's, which no Rust object lives in.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }

    pub fn read(&self, at: u64, len: u64) -> Vec<u8> {
        assert!(REGIONS.iter().any(|(s, l)| at >= *s && at + len <= s + l));
        // SAFETY: the range is one of the guest's, and the guest is not running.
        unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) }.to_vec()
    }

    pub fn read_u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.read(at, 8).try_into().expect("8 bytes"))
    }

    /// Puts code at `at` and the program counter in front of it.
    pub fn load(&mut self, at: u64, code: &[u8]) {
        self.fill(at, code);
        self.ctx.rip = at;
    }

    /// The same with code from an assembler.
    pub fn assemble(
        &mut self,
        at: u64,
        f: impl FnOnce(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>,
    ) -> Vec<u8> {
        let bytes = assemble(at, f);
        self.load(at, &bytes);
        bytes
    }

    /// Runs until the guest stops.
    pub fn run(&mut self) -> Stop {
        let entry = self.t.entry(&self.memory, GuestAddr(self.ctx.rip));
        self.go(entry)
    }

    /// Runs on from an entry until the guest stops.
    pub fn run_from(&mut self, entry: u64) -> Stop {
        self.go(Ok(entry))
    }

    /// Executes one instruction.
    pub fn step(&mut self) -> Stop {
        let entry = self.t.step_entry(&self.memory, GuestAddr(self.ctx.rip));
        self.go(entry)
    }

    fn go(&mut self, entry: Result<u64, Bad>) -> Stop {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(bad) => return bad.into(),
        };
        for _ in 0..1_000_000 {
            self.ctx.entry = entry;
            // SAFETY: the context is this thread's adopted one, the entry comes from the
            // translator, and the registers are a guest's.
            unsafe { enter::enter(&raw mut *self.ctx) };
            self.exits += 1;
            // Both ways must come to the same.
            let told = self.exits.is_multiple_of(2).then(|| Behind::exit(self.ctx));
            let answer = told.flatten().map(|(answer, _)| answer);
            match answer.unwrap_or_else(|| self.t.resolve(&self.memory, self.ctx)) {
                Next::Enter(at) => entry = at,
                Next::Stop(stop) => return stop,
            }
        }
        panic!("a million exits without a stop");
    }

    /// Runs the guest's code natively, at its own address. It must end with [`native_end`].
    pub fn run_native(&mut self) {
        self.ctx.entry = self.ctx.rip;
        self.ctx.exit = 0;
        // SAFETY: as in `go`; the code has been put at the entry by the test, touches only
        // guest memory and ends by the exit.
        unsafe { enter::enter(&raw mut *self.ctx) };
        assert_eq!(self.ctx.exit, 0, "a fault in native code");
    }

    pub fn expect_syscall(&mut self) {
        let stop = self.run();
        assert!(
            matches!(stop, Stop::Syscall { .. }),
            "{stop:?} at {:#x}",
            self.ctx.rip
        );
    }
}

/// Code that overwrites flags without reading them: xor eax, eax; syscall.
pub const FLAGS_WRITER: [u8; 4] = [0x31, 0xc0, 0x0f, 0x05];
/// Code that reads them: pushf; pop rbx; syscall.
pub const FLAGS_READER: [u8; 4] = [0x9c, 0x5b, 0x0f, 0x05];

/// Flags that are alive behind a jump: a tick there may lose them only if the code does.
impl Guest {
    /// Puts a program at [`LOW_CODE`] that sets CF and others and jumps back, a tick, and then
    /// to `target`.
    pub fn jump_with_flags(&mut self, target: u64) {
        self.assemble(LOW_CODE, |a| {
            let (mut begin, mut back) = (a.create_label(), a.create_label());
            a.jmp(begin)?;
            a.set_label(&mut back)?;
            a.nop()?;
            a.jmp(target)?;
            a.set_label(&mut begin)?;
            a.xor(eax, eax)?;
            a.sub(eax, 1)?;
            a.jmp(back)
        });
    }

    /// Runs it, and returns the arithmetic flags that [`FLAGS_READER`] has read, or 0.
    pub fn flags_behind_jump(&mut self) -> u64 {
        self.ctx.rip = LOW_CODE;
        self.ctx.gpr[3] = 0;
        self.expect_syscall();
        self.ctx.gpr[3] & 0x8d5
    }
}

/// Resets a context: registers 0 but for the stack pointer, no ticks.
pub fn reset(ctx: &mut Context) {
    ctx.gpr = [0; 16];
    ctx.gpr[4] = TOP;
    ctx.rflags = 0x202;
    ctx.guest_fs = DATA;
    ctx.readings = Window::default();
    ctx.restart_ticks(0);
    (ctx.ops, ctx.order_id) = (0, 1);
    ctx.clear_edges();
    ctx.vectors_mut().reset();
    ctx.grant(PLENTY);
}

/// `jmp gs:[EXIT_FN]`
pub fn native_end() -> [u8; 8] {
    let d = relive_host::context::off::EXIT_FN.to_le_bytes();
    [0x65, 0xff, 0x24, 0x25, d[0], d[1], d[2], d[3]]
}

pub fn assemble(
    at: u64,
    f: impl FnOnce(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>,
) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).expect("assembler");
    f(&mut a).expect("instructions");
    a.assemble(at).expect("assembly")
}

/// Changes the protection of guest pages.
pub fn protect(at: u64, len: u64, prot: i32) {
    assert!(REGIONS.iter().any(|(s, l)| at >= *s && at + len <= s + l));
    // SAFETY: the range is one of the guest's.
    let ret = unsafe { libc::mprotect(at as *mut libc::c_void, len as usize, prot) };
    assert_eq!(ret, 0);
}

fn set_up_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        cpu::check().expect("processor");
        window::reserve().expect("window");
        // Of no effect while a context's window is empty.
        reading::install(Use::Replay, None);
        // Of no effect without the option.
        order::install().expect("objects");
        signal::SYNCHRONOUS
            .iter()
            .for_each(|sig| signal::set_disposition(*sig, Disposition::Handler));
        signal::on_host_fault(|sig, rip, addr| {
            let native = REGIONS.iter().any(|(s, l)| rip >= *s && rip < s + l - 16);
            let mut bytes = [0; 16];
            if native {
                // SAFETY: the regions are mapped.
                bytes = unsafe { *(rip as *const [u8; 16]) };
            }
            let text = format!(
                "host fault: signal {sig} at {rip:#x}, address {addr:#x}, code {bytes:02x?}\n"
            );
            // SAFETY: writes a live buffer; not eprintln, which the test harness would keep.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
            std::process::abort()
        });
    });
    for (start, len) in REGIONS {
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the range lies in the reserved window and belongs to the tests.
        let got =
            unsafe { libc::mmap(start as *mut libc::c_void, len as usize, prot, flags, -1, 0) };
        assert_eq!(got as u64, start);
    }
}

/// The calling thread's context, adopted; it lives as long as the process, because signals
/// may come as long as the thread lives.
fn thread_context() -> &'static mut Context {
    thread_local!(static CONTEXT: Cell<*mut Context> = const { Cell::new(std::ptr::null_mut()) });
    let mut ctx = CONTEXT.get();
    if ctx.is_null() {
        ctx = Box::leak(Context::new());
        CONTEXT.set(ctx);
        signal::install_stack().expect("memory");
        // SAFETY: the context is never freed or moved.
        unsafe { enter::adopt(ctx) };
    }
    // SAFETY: leaked, and handed out to one `Guest` at a time.
    unsafe { &mut *ctx }
}
