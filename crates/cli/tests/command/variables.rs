//! `last-write --var`: variables and parts of them, wherever they are.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::Sandbox;

fn source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/command")
        .join(name)
}

/// Compiles and records; afterwards the program is gone.
pub fn recorded(sandbox: &Sandbox, name: &str, options: &[&str], argument: &[&str]) {
    let program = sandbox.path("program");
    let compiled = Command::new("c++")
        .args(["-g", "-pthread", "-o"])
        .arg(&program)
        .args(options)
        .arg(source(name))
        .status();
    assert!(compiled.unwrap().success());
    let words = [&["record", "./program"], argument].concat();
    let outcome = sandbox.relive(&words);
    assert_ne!(outcome.code(), Some(125), "{outcome:#?}");
    std::fs::remove_file(program).unwrap();
}

/// Values before and behind the last write.
fn change(sandbox: &Sandbox, words: &[&str]) -> (String, String) {
    let words = [&["last-write", "--json", "--var"], words].concat();
    let text = sandbox.relive(&words).ok().stdout;
    let write: Value = serde_json::from_str(&text).unwrap();
    let value = |of: &str| write["variable"][of].as_str().unwrap_or("").to_owned();
    (value("before"), value("after"))
}

#[test]
fn variables_have_names_parts_and_values() {
    // With the forms of debug information that differ most.
    let forms = [
        &["-gdwarf-5"][..],
        &["-gdwarf-4", "-fdebug-types-section", "-gz"],
        &["-gsplit-dwarf", "-no-pie"],
    ];
    for options in forms {
        let sandbox = Sandbox::new();
        recorded(&sandbox, "variables.cc", options, &[]);
        for (name, before, after) in [
            ("total", "6", "10"),
            ("variables.cc:total", "6", "10"),
            ("config.limits[3].max", "42", "43"),
            ("ptr->limits[3].max", "42", "43"),
            ("(*ptr).next->limits[1].min", "0", "77"),
            ("config.a", "0", "3"),
            ("config.id", "0", "9"),
            ("config.name", "0x0", "\"conf\""),
            ("ns::Class::member", "1", "5"),
            ("Class::member", "1", "5"),
            ("ns::hidden", "4", "6"),
            ("matrix[1][2]", "0", "12"),
            ("matrix[1]", "{0, 0, 0}", "{0, 0, 12}"),
            ("numbers[1]", "5", "55"),
            ("color", "red", "green"),
            ("crowd::calls", "4", "5"),
        ] {
            let found = change(&sandbox, &[name]);
            let expected = (before.to_owned(), after.to_owned());
            assert_eq!(found, expected, "{name} with {options:?}");
        }
    }
}

#[test]
fn what_is_no_variable_is_said_with_names_like_it() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "variables.cc", &[], &[]);
    for (name, why) in [
        ("matrx", "names like it: matrix"),
        ("config.limit", "has no member limit; it has limits"),
        ("numbers[2]", "has 2 elements"),
        ("matrix[2][0]", "has 2 elements"),
        ("config.id.x", "has no members"),
        ("*total", "int is no pointer"),
        ("*config.next->next", "is null there"),
        ("other.c:total", "there is no variable total"),
        ("argc", "say which one with --at and --frame"),
        ("a+", "there is no variable a+"),
        ("a[", "cannot be read"),
    ] {
        sandbox.relive(&["last-write", "--var", name]).refused(why);
    }
    // Bits are bytes that they share.
    let text = sandbox
        .relive(&["last-write", "--var", "config.hi"])
        .ok()
        .stdout;
    assert!(text.contains("05 -> 8d"), "{text}");
}

#[test]
fn variables_of_threads_and_frames() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "variables.cc", &[], &["crash"]);
    let text = sandbox.relive(&["backtrace", "--at", "crash"]).ok().stdout;
    assert!(text.contains("#4 ") && text.contains(" main "), "{text}");
    for (name, frame, after) in [
        ("local", "0", "99"),
        ("local", "1", "2"),
        ("local", "3", "6"),
        ("n", "2", "2"),
        ("limit->max", "3", "8"),
        ("limit", "4", "{min=1, max=8}"),
        // Of the program, seen from a frame.
        ("total", "1", "10"),
    ] {
        let words = [name, "--at", "crash", "--frame", frame];
        assert_eq!(change(&sandbox, &words).1, after, "{name} in {frame}");
    }
    let no = |words: &[&str], why| {
        let words = [&["last-write", "--at", "crash", "--var"], words].concat();
        sandbox.relive(&words).refused(why);
    };
    no(&["n", "--frame", "99"], "there is no frame 99");
    no(&["n", "--thread", "7"], "there is no thread 7");
    // Each thread has its own.
    for (name, thread, after) in [
        ("mine", "0", "8"),
        ("mine", "1", "30"),
        ("ns::Class::per", "1", "3"),
    ] {
        let words = [name, "--at", "crash", "--thread", thread];
        assert_eq!(change(&sandbox, &words).1, after, "{name} of {thread}");
    }
}

#[test]
fn thread_local_variables_of_a_library_that_was_opened() {
    let sandbox = Sandbox::new();
    let library = "__thread int own = 1; int level; void set(int n) { own = n; level += n; }";
    std::fs::write(sandbox.path("own.c"), library).unwrap();
    let program = "#include <dlfcn.h>\nint main(void) { void *l = dlopen(\"./libown.so\", RTLD_NOW);\
        void (*set)(int) = (void (*)(int))dlsym(l, \"set\"); set(4); set(6); return 0; }";
    std::fs::write(sandbox.path("opens.c"), program).unwrap();
    let compile = |words: &[&str]| {
        let mut command = Command::new("cc");
        command.args(words).current_dir(sandbox.path(""));
        assert!(command.status().unwrap().success());
    };
    compile(&["-g", "-shared", "-fPIC", "-o", "libown.so", "own.c"]);
    compile(&["-g", "-o", "opens", "opens.c"]);
    sandbox.relive(&["record", "./opens"]).ok();
    std::fs::remove_file(sandbox.path("libown.so")).unwrap();
    let expected = |before: &str, after: &str| (before.to_owned(), after.to_owned());
    assert_eq!(change(&sandbox, &["level"]), expected("4", "10"));
    assert_eq!(change(&sandbox, &["own"]), expected("4", "6"));
    let text = sandbox.relive(&["calls", "set"]).ok().stdout;
    assert_eq!(text.matches("(n=").count(), 2, "{text}");
    assert!(text.contains("called by main"), "{text}");
}

#[test]
fn a_second_address_of_memory_without_a_file_is_refused() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "names.c", &["-x", "c"], &[]);
    assert_eq!(sandbox.relive(&["replay"]).ok().stdout, "x\n");
    sandbox.relive(&["backtrace"]).refused("[RL1]");
}
