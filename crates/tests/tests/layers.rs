//! The order of the project is kept: the crates that each crate uses, that the files of a crate can be
//! read from the bottom to the top, that state which everything shares has a reason, that a name is one
//! type's, and that calls, signals and memory know no mode.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use relive_tests::crate_dir;
use relive_tests::layers::{Crate, dependencies};
use relive_tests::lint::{Source, sources};

/// One crate.
struct Layer {
    name: &'static str,
    /// All crates that it depends on, each in a row above: the order of ARCHITECTURE.md, "Crates".
    uses: &'static [&'static str],
    /// Files of its largest circle, at most; 1: there is none. To be lowered, never raised.
    circle: usize,
    /// Edges between files that lie against the order, at most. To be lowered, never raised.
    back: usize,
}

/// A crate with files in order.
const fn ordered(name: &'static str, uses: &'static [&'static str]) -> Layer {
    Layer {
        name,
        uses,
        circle: 1,
        back: 0,
    }
}

impl Layer {
    /// A crate with files that are not in order yet.
    const fn with_circles(self, circle: usize, back: usize) -> Self {
        Self {
            circle,
            back,
            ..self
        }
    }
}

const LAYERS: &[Layer] = &[
    ordered("host", &[]),
    ordered("kabi", &[]),
    ordered("sched", &[]),
    ordered("trace", &["sched"]),
    ordered("symbols", &[]),
    ordered("dap", &[]),
    ordered("rpc", &["sched"]),
    ordered("tests", &["sched"]),
    ordered("dbt", &["host", "sched"]),
    ordered("engine", &["host", "kabi", "trace", "sched", "dbt"]).with_circles(8, 2),
    ordered("gdb", &["kabi", "trace", "engine"]),
    ordered(
        "cli",
        &[
            "kabi", "trace", "sched", "symbols", "dap", "rpc", "engine", "gdb",
        ],
    ),
    ordered("bench", &["trace", "sched", "tests"]),
];

/// Crates that no process of a recording or a replay consists of.
const OWN_STATE: &[&str] = &["rpc", "tests", "bench"];

fn folder() -> PathBuf {
    crate_dir().join("..")
}

#[test]
fn every_crate_has_its_place() {
    let there: BTreeSet<String> = fs::read_dir(folder())
        .expect("the folder of this crate is among the others")
        .map(|entry| entry.expect("it can be read").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let named: BTreeSet<String> = LAYERS.iter().map(|layer| layer.name.to_owned()).collect();
    assert_eq!(
        there, named,
        "crates/ has a folder for each row, and no other"
    );
    for (at, layer) in LAYERS.iter().enumerate() {
        let below = |name: &str| LAYERS[..at].iter().any(|other| other.name == name);
        assert!(
            layer.uses.iter().all(|name| below(name)),
            "{}: its uses stand above it",
            layer.name
        );
    }
}

#[test]
fn crates_depend_on_those_below_them() {
    for layer in LAYERS {
        let path = folder().join(layer.name).join("Cargo.toml");
        let manifest = fs::read_to_string(path).expect("every crate has a manifest");
        let uses = layer.uses.iter().map(|name| (*name).to_owned());
        assert_eq!(
            dependencies(&manifest),
            uses.collect(),
            "crates/{}/Cargo.toml (left) is not as the order says (right): a crate takes from those \
             below it only, so move what it needs down; a change of the order is one of this table \
             and of ARCHITECTURE.md, \"Crates\"",
            layer.name
        );
    }
}

#[test]
fn files_are_in_order() {
    let mut failures = Vec::new();
    for layer in LAYERS {
        let sources = Crate::read(&folder().join(layer.name)).expect("sources can be read");
        if let Err(text) = sources.graph().check(layer.circle, layer.back) {
            failures.push(format!("crates/{}: {text}", layer.name));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
}

fn libraries() -> impl Iterator<Item = (&'static str, Vec<Source>)> {
    let libraries = LAYERS
        .iter()
        .filter(|layer| !OWN_STATE.contains(&layer.name));
    libraries.map(|layer| {
        let folder = folder().join(layer.name).join("src");
        (layer.name, sources(&folder).expect("sources can be read"))
    })
}

#[test]
fn statics_have_a_reason() {
    let mut found = Vec::new();
    for source in libraries().flat_map(|(_, sources)| sources) {
        let names = source.unexplained().into_iter();
        found.extend(names.map(|name| format!("{}: {name}", source.path.display())));
    }
    assert!(
        found.is_empty(),
        "a static is shared by all that the process does: pass the state down, or say above it why that \
         cannot be, behind \"Process-wide: \":\n{}",
        found.join("\n")
    );
}

#[test]
fn a_type_has_its_name_for_itself() {
    for (library, sources) in libraries() {
        let mut known = BTreeMap::new();
        for source in &sources {
            for name in source.types() {
                if let Some(other) = known.insert(name, &source.path) {
                    let files = (other.display(), source.path.display());
                    panic!(
                        "crates/{library} has two types {name}: in {} and {}",
                        files.0, files.1
                    );
                }
            }
        }
    }
}

#[test]
fn a_file_of_the_engine_has_its_name_for_itself() {
    let engine = folder().join("engine/src");
    let mut known = BTreeMap::new();
    for source in sources(&engine).expect("sources can be read") {
        let path = source.path;
        let name = path.file_name().expect("a file has a name").to_owned();
        if name == "mod.rs" || name == "tests.rs" {
            continue;
        }
        if let Some(other) = known.insert(name, path.clone()) {
            panic!(
                "two files of one name: {} and {}",
                other.display(),
                path.display()
            );
        }
    }
}

/// Folders and files of the engine that know no mode: they ask the trait `Mode`.
const WITHOUT_MODES: &[&str] = &[
    "call",
    "input",
    "kernel",
    "machine.rs",
    "memory",
    "memory.rs",
    "mode",
    "process",
    "ptrace",
    "registry",
    "registry.rs",
    "seccomp",
    "sharing",
    "shm",
    "signals",
    "space",
    "exits.rs",
    "tape",
    "task",
];

#[test]
fn calls_signals_and_memory_know_no_mode() {
    let engine = folder().join("engine/src");
    for source in sources(&engine).expect("sources can be read") {
        let below = source.path.strip_prefix(&engine).expect("it lies there");
        let first = below
            .iter()
            .next()
            .expect("a path has a part")
            .to_string_lossy();
        let knows = [
            "crate::modes",
            "Name::Run",
            "Name::Serial",
            "Name::Sketch",
            "Name::Replay",
        ];
        if !WITHOUT_MODES.contains(&&*first) || below.ends_with("mode/mod.rs") {
            continue;
        }
        let named = knows.into_iter().find(|path| source.names(path));
        assert_eq!(
            named,
            None,
            "{}: ask the task's mode instead",
            below.display()
        );
    }
}

#[test]
fn a_circle_fails() {
    let made_up = Crate::of(&[
        ("lib.rs", "mod shop; mod till; pub use shop::Shop;"),
        ("shop.rs", "use crate::till::Till; pub struct Shop(Till);"),
        (
            "till.rs",
            "use crate::shop::{Price, Shop}; pub struct Till;",
        ),
    ]);
    let text = made_up
        .graph()
        .check(1, 0)
        .expect_err("a circle of two files");
    for part in [
        "a circle of 2: shop.rs → till.rs",
        "till.rs takes Price, Shop from shop.rs",
        "To mend it",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
