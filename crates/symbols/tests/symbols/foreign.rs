//! Foreign bytes: a damaged file or a wild stack may have no names, and never does harm.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use proptest::prelude::*;
use relive_symbols::{
    Finder, MOST_FRAMES, Map, Module, Passing, Registers, Space, SymbolType, Target, View, sources,
    unwind, view,
};

const SOURCE: &str = "\
volatile int counter;
struct part { int a : 3; float f; const char *text; struct part *next; };
static struct part parts[3] = {{1, 2, \"x\", parts}};
static __thread long own = 4;
enum kind { ONE, TWO };
double typed(struct part p, enum kind kind, const char *text, long double wide) {
    struct part *local = &parts[kind];
    own += local->a;
    return p.f + kind + *text + (double)wide;
}
static inline __attribute__((always_inline)) void twice(int n) {
    counter += n;
    counter += n;
}
__attribute__((noinline)) int count(int n) {
    twice(n);
    return counter;
}
int main(void) { return count(3); }
";

/// A small program with debug information.
fn program() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("small.c"), folder.path().join("small"));
        std::fs::write(&source, SOURCE).unwrap();
        let compiled = Command::new("cc")
            .args(["-g", "-O1", "-fno-pie", "-no-pie", "-o"])
            .args([&program, &source])
            .status();
        assert!(compiled.unwrap().success());
        std::fs::read(program).unwrap()
    })
}

/// Memory that holds the same word everywhere, with code where the program has it.
struct Wild {
    word: u64,
    head: Vec<u8>,
    path: String,
}

impl Target for Wild {
    fn maps(&mut self) -> Vec<Map> {
        let map = |start, offset, executable| Map {
            start,
            end: start + 0x1000,
            offset,
            executable,
            name: self.path.clone(),
        };
        vec![map(0x40_0000, 0, false), map(0x40_1000, 0x1000, true)]
    }

    fn read(&mut self, addr: u64, bytes: &mut [u8]) -> bool {
        if addr == 0x40_0000 && bytes.len() <= self.head.len() {
            bytes.copy_from_slice(&self.head[..bytes.len()]);
            return true;
        }
        for (at, byte) in (addr..).zip(bytes) {
            *byte = self.word.to_le_bytes()[(at % 8) as usize];
        }
        true
    }
}

fn look_at(module: &Module, address: u64) {
    let _ = module.symbol_at(address);
    let _ = module.lines_at(address);
    let _ = module.symbols_named("count", SymbolType::Function).len();
}

fn stack(file: &Path, word: u64, registers: &Registers) -> usize {
    let mut head = std::fs::read(file).unwrap();
    head.resize(4096, 0);
    let mut target = Wild {
        word,
        head,
        path: file.to_str().unwrap().to_owned(),
    };
    let space = Space::of(&mut target, &Finder::default());
    let frames = unwind(&mut target, &space, registers);
    for frame in &frames {
        let _ = space.name(frame.lookup);
    }
    for frame in frames.iter().take(3) {
        let from = view(&mut target, &space, frame, word);
        for text in [
            "counter",
            "parts[1].next->f",
            "own",
            "*local",
            "typed::local",
        ] {
            let Ok(variable) = space.variable(&mut target, text, &from) else {
                continue;
            };
            if let Some(of) = &variable.of {
                let _ = of.name();
                let _ = space.show(&mut target, of, &variable.place, &Passing::default());
            }
        }
    }
    let from = Passing {
        general: *registers,
        ..Passing::default()
    };
    for name in ["count", "typed"] {
        for found in space.find(name, SymbolType::Function) {
            if let Some(function) = space.function(found.address) {
                let _ = function.arguments(&space, &mut target, &from);
                let _ = function.results(&space, &mut target, &from);
            }
        }
    }
    frames.len()
}

#[test]
fn names_lines_and_sources_of_a_whole_file() {
    let module = Module::parse(program()).unwrap();
    let count: Vec<_> = module.symbols_named("count", SymbolType::Function);
    assert_eq!(count.len(), 1);
    let at = count[0].address;
    assert_eq!(module.symbol_at(at + 1), Some(count[0]));
    let mut seen = Vec::new();
    for address in at..at + count[0].size {
        for line in module.lines_at(address) {
            assert!(line.file.unwrap().ends_with("small.c"));
            seen.extend(line.function);
        }
    }
    assert!(seen.contains(&"twice".to_owned()) && seen.contains(&"count".to_owned()));
    assert_eq!(
        module.symbols_named("counter", SymbolType::Variable).len(),
        1
    );
    assert_eq!(
        module.symbols_named("counter", SymbolType::Function).len(),
        0
    );
    assert!(module.build_id().is_some_and(|id| !id.is_empty()));
    assert!(
        sources(&module)
            .iter()
            .any(|path| path.ends_with("/small.c"))
    );
}

#[test]
fn a_file_is_found_by_its_content_alone() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("0123");
    std::fs::write(&kept, program()).unwrap();
    let mut finder = Finder::default();
    finder.add_files(folder.path());
    let mut head = program()[..4096].to_vec();
    let mut target = Wild {
        word: 0,
        head: head.clone(),
        path: "/gone/small".to_owned(),
    };
    let space = Space::of(&mut target, &finder);
    assert_eq!(space.find("count", SymbolType::Function).len(), 1);
    // Another build at the same place has no names.
    head[4000] ^= 1;
    let mut other = Wild {
        word: 0,
        head,
        path: kept.to_str().unwrap().to_owned(),
    };
    let space = Space::of(&mut other, &finder);
    assert!(space.find("count", SymbolType::Function).is_empty());
}

#[test]
fn variables_and_functions_of_a_whole_file_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small");
    std::fs::write(&file, program()).unwrap();
    let mut target = Wild {
        word: 0,
        head: program()[..4096].to_vec(),
        path: file.to_str().unwrap().to_owned(),
    };
    let space = Space::of(&mut target, &Finder::of_this_machine());
    let from = View::default();
    let found = space.variable(&mut target, "parts[1].next", &from).unwrap();
    assert_eq!(found.of.unwrap().name(), "struct part *");
    assert_eq!(found.size, 8);
    let missing = space.variable(&mut target, "own", &from).err().unwrap();
    assert!(missing.to_string().contains("--thread"), "{missing}");
    let at = space.find("typed", SymbolType::Function)[0].address;
    let function = space.function(at).unwrap();
    let all = function.arguments(&space, &mut target, &Passing::default());
    let names: Vec<_> = all
        .iter()
        .map(|a| (a.name.as_deref().unwrap(), a.of.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("p", "struct part"),
            ("kind", "enum kind"),
            ("text", "const char *"),
            ("wide", "long double")
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_files_do_no_harm(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in prop::option::of(any::<prop::sample::Index>()),
        address in 0x40_0000u64..0x40_5000,
        registers in any::<[u64; 16]>(),
        word in any::<u64>(),
    ) {
        let mut bytes = program().to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Some(module) = Module::parse(&bytes) {
            let _ = sources(&module);
            look_at(&module, address);
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("damaged");
        std::fs::write(&file, &bytes).unwrap();
        let registers = Registers { general: registers, pc: address };
        prop_assert!(stack(&file, word, &registers) <= MOST_FRAMES);
    }

    #[test]
    fn wild_stacks_end(
        pc in 0x40_1000u64..0x40_2000,
        registers in any::<[u64; 16]>(),
        word in prop_oneof![any::<u64>(), 0x40_1000u64..0x40_2000],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("whole");
        std::fs::write(&file, program()).unwrap();
        let registers = Registers { general: registers, pc };
        prop_assert!(stack(&file, word, &registers) <= MOST_FRAMES);
    }
}
