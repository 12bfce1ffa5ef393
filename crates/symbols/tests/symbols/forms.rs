//! The forms of debug information of compilers and distributions: each gives the same names and
//! lines.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use relive_symbols::{Companion, Finder, Module, SymbolType, sources};
use tempfile::TempDir;

const SOURCE: &str = "\
volatile int counter;
static inline __attribute__((always_inline)) void twice(int n) {
    counter += n;
    counter += n;
}
static __attribute__((noinline)) int count(int n) {
    twice(n);
    return counter;
}
int main(void) { return count(3); }
";

/// A folder with the program, from which each form is made in turn.
struct Form {
    folder: TempDir,
}

impl Form {
    fn new(options: &[&str]) -> Self {
        let form = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(form.path("small.c"), SOURCE).unwrap();
        form.tool("cc", &["-O1", "-c", "small.c"], options);
        form.tool("cc", &["-Wl,--build-id", "-o", "small", "small.o"], options);
        form
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tool(&self, tool: &str, arguments: &[&str], more: &[&str]) {
        let mut command = Command::new(tool);
        command.args(arguments).args(more);
        let done = command.current_dir(self.folder.path()).output().unwrap();
        assert!(done.status.success(), "{command:?}: {done:?}");
    }

    /// Moves the debug information into `to`, and lets the program name that file.
    fn separate(&self, to: &str) {
        std::fs::create_dir_all(self.path(to).parent().unwrap()).unwrap();
        self.tool("objcopy", &["--only-keep-debug", "small", to], &[]);
        let link = format!("--add-gnu-debuglink={to}");
        self.tool("objcopy", &["--strip-all", &link, "small"], &[]);
    }

    fn load(&self, finder: &Arc<Finder>) -> Module {
        let path = self.path("small");
        Module::load(&std::fs::read(&path).unwrap(), &path, &path, finder).unwrap()
    }

    /// Everything is found, by this machine's paths.
    fn is_whole(&self) -> Vec<Companion> {
        let module = self.load(&Arc::new(Finder::of_this_machine()));
        names_and_lines(&module);
        let all = sources(&module);
        let own = self.path("small.c");
        assert!(all.contains(own.to_str().unwrap()), "{all:?}");
        module.companions()
    }

    /// The found files are kept in another folder, as in a packed recording; the rest is removed.
    fn is_whole_elsewhere(&self) {
        let companions = self.is_whole();
        let kept = tempfile::tempdir().unwrap();
        for Companion { path, below, .. } in companions {
            assert!(below.is_relative(), "{below:?}");
            let to = kept.path().join(below);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(&path, to).unwrap();
            std::fs::remove_file(path).unwrap();
        }
        let mut finder = Finder::default();
        finder.add_debug_folder(kept.path());
        names_and_lines(&self.load(&Arc::new(finder)));
        let gone = self.load(&Arc::new(Finder::of_this_machine()));
        assert!(!is_called_twice(&gone));
    }
}

fn functions(module: &Module) -> Vec<(String, String, u32)> {
    let count = module.symbols_named("count", SymbolType::Function);
    let addresses = count
        .into_iter()
        .flat_map(|count| count.address..count.address + count.size);
    addresses
        .flat_map(|at| module.lines_at(at))
        .filter_map(|l| Some((l.function?, l.file?, l.line?)))
        .collect()
}

fn is_called_twice(module: &Module) -> bool {
    functions(module).iter().any(|(name, ..)| name == "twice")
}

/// Also the name of the static function, and the one that is inlined in it.
fn names_and_lines(module: &Module) {
    let seen = functions(module);
    let expected = [("twice", 3), ("twice", 4), ("count", 8)];
    for (name, line) in expected {
        assert!(
            seen.iter()
                .any(|(f, file, n)| (f.as_str(), *n) == (name, line) && file.ends_with("small.c")),
            "{name} in line {line}: {seen:?}"
        );
    }
}

#[test]
fn versions_and_compression() {
    for options in [
        &["-g", "-gdwarf-4"][..],
        &["-g", "-gdwarf-5"],
        &["-g", "-gdwarf-4", "-fdebug-types-section"],
        &["-g", "-gz=zlib"],
        &["-g", "-gz=zlib-gnu", "-gdwarf-4"],
        &["-g", "-no-pie", "-fno-pie", "-static"],
    ] {
        eprintln!("{options:?}");
        assert!(Form::new(options).is_whole().is_empty());
    }
    let form = Form::new(&["-g"]);
    let zstd = ["--compress-debug-sections=zstd", "small"];
    form.tool("objcopy", &zstd, &[]);
    form.is_whole();
}

#[test]
fn a_compressed_section_is_no_longer_than_plausible() {
    let form = Form::new(&["-g", "-gz=zlib"]);
    let mut bytes = std::fs::read(form.path("small")).unwrap();
    // The headers of compressed sections (Elf64_Chdr): type 1, reserved, size, alignment 1.
    let mut changed = 0;
    for at in (0..bytes.len() - 32).step_by(1) {
        let head = [1, 0, 0, 0, 0, 0, 0, 0];
        if bytes[at..].starts_with(&head)
            && bytes[at + 16..].starts_with(&head)
            && bytes[at + 24] == 0x78
        {
            bytes[at + 8..at + 16].copy_from_slice(&(1u64 << 40).to_le_bytes());
            changed += 1;
        }
    }
    assert!(changed > 0);
    let module = Module::parse(&bytes).unwrap();
    assert_eq!(module.lines_at(module_address(&module)), []);
}

fn module_address(module: &Module) -> u64 {
    let count = module
        .symbols_named("count", SymbolType::Function)
        .into_iter()
        .next();
    count.unwrap().address
}

#[test]
fn separate_files_are_found_by_what_is_in_them() {
    for place in ["small.debug", ".debug/small.debug"] {
        let form = Form::new(&["-g"]);
        form.separate(place);
        form.is_whole_elsewhere();
    }
    // Without a build id only the checksum identifies the file.
    let form = Form::new(&["-g"]);
    let no_id = ["--remove-section=.note.gnu.build-id", "small"];
    form.tool("objcopy", &no_id, &[]);
    form.separate("small.debug");
    form.is_whole_elsewhere();
    let form = Form::new(&["-g"]);
    form.tool("objcopy", &no_id, &[]);
    form.separate("small.debug");
    let mut bytes = std::fs::read(form.path("small.debug")).unwrap();
    bytes.push(0);
    std::fs::write(form.path("small.debug"), bytes).unwrap();
    let module = form.load(&Arc::new(Finder::of_this_machine()));
    assert!(functions(&module).is_empty());
}

#[test]
fn split_units_are_found_in_their_files_and_in_packages() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        for compressed in ["-gz=none", "-gz=zlib"] {
            let form = Form::new(&["-g", "-gsplit-dwarf", version, compressed]);
            assert!(form.path("small.dwo").is_file());
            form.is_whole_elsewhere();
        }
    }
    // GNU's older packages; those of DWARF 5 are made by LLVM's tool, if it is here.
    let form = Form::new(&["-g", "-gsplit-dwarf", "-gdwarf-4"]);
    form.tool("dwp", &["-e", "small"], &[]);
    std::fs::remove_file(form.path("small.dwo")).unwrap();
    form.is_whole_elsewhere();
    if Command::new("llvm-dwp").arg("--version").output().is_ok() {
        let form = Form::new(&["-g", "-gsplit-dwarf", "-gdwarf-5"]);
        form.tool("llvm-dwp", &["-e", "small", "-o", "small.dwp"], &[]);
        std::fs::remove_file(form.path("small.dwo")).unwrap();
        form.is_whole_elsewhere();
    }
}

#[test]
fn a_split_unit_of_another_build_is_none() {
    let form = Form::new(&["-g", "-gsplit-dwarf"]);
    let other = SOURCE.replace("counter += n", "counter -= n");
    std::fs::write(form.path("small.c"), other).unwrap();
    form.tool("cc", &["-O1", "-g", "-gsplit-dwarf", "-c", "small.c"], &[]);
    let module = form.load(&Arc::new(Finder::of_this_machine()));
    assert!(!is_called_twice(&module));
}

/// The common part of several programs, as dwz makes it.
#[test]
fn a_supplementary_file_is_found_by_its_id() {
    if Command::new("dwz").arg("--version").output().is_err() {
        eprintln!("no dwz here");
        return;
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let form = Form::new(&["-g", version]);
        form.tool("cp", &["small", "other"], &[]);
        form.tool("dwz", &["-m", "common", "small", "other"], &[]);
        assert!(form.path("common").is_file());
        form.is_whole_elsewhere();
    }
}

#[test]
fn names_of_a_stripped_file_are_in_its_small_table() {
    let form = Form::new(&[]);
    form.tool("objcopy", &["--only-keep-debug", "small", "mini"], &[]);
    form.tool("xz", &["mini"], &[]);
    let add = ["--strip-all", "--add-section", ".gnu_debugdata=mini.xz"];
    form.tool("objcopy", &add, &["small"]);
    let module = form.load(&Arc::new(Finder::default()));
    assert_eq!(module.symbols_named("count", SymbolType::Function).len(), 1);
}
