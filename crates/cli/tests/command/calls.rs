//! `calls`: arguments and results by their types, and calls that are left in other ways.

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::variables::recorded;

/// The text between the place and the caller, of each call.
fn calls(sandbox: &Sandbox, function: &str) -> Vec<String> {
    let text = sandbox.relive(&["calls", function]).ok().stdout;
    text.lines()
        .map(|line| {
            let (_, call) = line.split_once(": (").expect(line);
            let (call, _) = call.split_once(", called by ").expect(line);
            format!("({call}")
        })
        .collect()
}

#[test]
fn arguments_and_results_have_their_types() {
    for options in [
        &["-O0"][..],
        &["-O1", "-gdwarf-4"],
        &["-O0", "-no-pie", "-gsplit-dwarf"],
    ] {
        let sandbox = Sandbox::new();
        recorded(&sandbox, "calls.cc", options, &[]);
        for (function, expected) in [
            (
                "plain",
                &[
                    "(n=1, text=\"one\", kind=SECOND, flag=true, c=99 'c') = 111",
                    "(n=-1, text=0x0, kind=3, flag=false, c=100 'd') = 102",
                    "(n=2, text=\"tail\", kind=FIRST, flag=false, c=120 'x') = 126",
                ][..],
            ),
            (
                "small",
                &["(s={a=3, b=1.5}, d=2.25, f=0.5, t={x=1, y=2}) = {a=4, b=5.25}"],
            ),
            (
                "big",
                &[
                    "(b={v={1, 2, 3, 4}}, a1=1, a2=2, a3=3, a4=4, a5=5, a6=6, a7=7, a8=8) = {v={17, 2, 3, 4}}",
                ],
            ),
            ("wide", &["(v=166020696663385964547) = 9"]),
            ("tailed", &["(n=2) = 126"]),
            (
                "jumper",
                &["(n=0) = 5", "(n=1) = no return", "(n=2) = no return"],
            ),
            (
                "thrower",
                &[
                    "(n=0) = 6",
                    "(n=1) = 6",
                    "(n=2) = no return",
                    "(n=3) = no return",
                ],
            ),
            ("text", &["(s=\"x\", by=\"y\") = \"xy\""]),
        ] {
            assert_eq!(
                calls(&sandbox, function),
                expected,
                "{function} with {options:?}"
            );
        }
        let method = calls(&sandbox, "a::B::method");
        assert!(method[0].ends_with(", x=41) = 42"), "{method:?}");
        assert_eq!(calls(&sandbox, "method"), method);
        let nothing = calls(&sandbox, "nothing");
        assert!(nothing[0].ends_with(" = nothing"), "{nothing:?}");
    }
}

#[test]
fn recursion_and_threads_have_their_own_calls() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "calls.cc", &["-O0"], &[]);
    let text = sandbox.relive(&["calls", "fact", "--json"]).ok().stdout;
    let all: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let result = |n: i64| (1..=n).product::<i64>();
    assert_eq!(all.len(), 3 + 2 + 3, "{text}");
    for call in &all {
        let parameter = &call["parameters"][0];
        assert_eq!(
            (&parameter["name"], &parameter["type"]),
            (&"n".into(), &"int".into())
        );
        let n: i64 = parameter["value"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            call["result"].as_u64().unwrap() as i64 & 0xffff_ffff,
            result(n),
            "{call}"
        );
        assert_eq!(call["results"][0]["value"], result(n).to_string(), "{call}");
    }
    let threads: std::collections::BTreeSet<u64> = all
        .iter()
        .map(|call| call["place"]["thread"].as_u64().unwrap())
        .collect();
    assert_eq!(threads.len(), 3, "{text}");
    // In the order in which they began.
    let order: Vec<u64> = all
        .iter()
        .map(|c| c["place"]["event"].as_u64().unwrap())
        .collect();
    assert!(order.is_sorted(), "{order:?}");
    let text = sandbox.relive(&["calls", "fact", "--max", "2"]).ok().stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_function_of_the_next_program_is_no_other_of_this_one() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "calls.cc", &["-O0"], &[]);
    let source =
        "int plain(int n) { return n + 1; } int main(void) { return plain(1) + plain(2) - 5; }";
    std::fs::write(sandbox.path("after.c"), source).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-g", "-o", "after", "after.c"])
        .current_dir(sandbox.path(""))
        .status();
    assert!(compiled.unwrap().success());
    sandbox
        .relive(&["record", "sh", "-c", "echo before; exec ./after"])
        .ok();
    assert_eq!(calls(&sandbox, "plain"), ["(n=1) = 2", "(n=2) = 3"]);
}

#[test]
fn enums_and_structures_of_rust_are_shown() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/passed.rs");
    for level in ["0", "2"] {
        let sandbox = Sandbox::new();
        let compiled = std::process::Command::new("rustc")
            .args(["-g", "--edition=2024", "-Awarnings"])
            .args([&format!("-Copt-level={level}"), "-o"])
            .arg(sandbox.path("program"))
            .arg(source)
            .status();
        assert!(compiled.unwrap().success());
        sandbox.relive(&["record", "./program"]).ok();
        for (function, expected) in [
            (
                "opt32",
                &[
                    "(v=Some{__0=7}, k=Three) = Some{__0=9}",
                    "(v=None, k=One) = None",
                ][..],
            ),
            (
                "opt64",
                &["(v=Some{__0=70}) = Some{__0=71}", "(v=None) = None"],
            ),
            (
                "optref",
                &["(v=Some{__0=5}) = Some{__0=5}", "(v=None) = None"],
            ),
            (
                "optstr",
                &[
                    "(v=Some{__0=\"hello\"}) = Some{__0=\"hello\"}",
                    "(v=None) = None",
                ],
            ),
            (
                "result",
                &[
                    "(v=Ok{__0=9}, w=3) = Ok{__0=12}",
                    "(v=Err{__0=8}, w=3) = Err{__0=8}",
                ],
            ),
            (
                "result2",
                &[
                    "(v=Ok{__0=9}) = Err{__0=9}",
                    "(v=Err{__0=\"bad\"}) = Ok{__0=\"bad\"}",
                ],
            ),
            (
                "shape",
                &[
                    "(v=Circle{__0=1.5}, n=42) = Circle{__0=1.5}",
                    "(v=Nothing, n=42) = Nothing",
                ],
            ),
            (
                "mixed",
                &[
                    "(v=A{__0=3}, n=42) = A{__0=3}",
                    "(v=B{__0=70000}, n=42) = B{__0=70000}",
                    "(v=C{x=1, y=2}, n=42) = C{x=1, y=2}",
                ],
            ),
            (
                "big",
                &[
                    "(v={a=1, b=2, name=\"big\", tags={1, 2, 3}}, n=42) = {a=1, b=2, name=\"big\", tags={1, 2, 3}}",
                ],
            ),
            (
                "rgb",
                &["(v={__0=1, __1=2, __2=3}, n=42) = {__0=1, __1=2, __2=3}"],
            ),
            ("two", &["(v={a=1, b=2, c=3}, n=42) = {a=1, b=2, c=3}"]),
            ("arr", &["(v={1, 2}, w={3, 4, 5}, n=42) = {42, 43, 44, 45}"]),
            (
                "optopt",
                &[
                    "(v=Some{__0=Some{__0=true}}, w=Some{__0='x'}, n=42) = Some{__0=Two}",
                    "(v=Some{__0=None}, w=None, n=42) = Some{__0=Two}",
                    "(v=None, w=None, n=42) = Some{__0=Two}",
                ],
            ),
        ] {
            assert_eq!(calls(&sandbox, function), expected, "{function} -O{level}");
        }
        let strings = &calls(&sandbox, "strings")[0];
        let start = "(v=\"text\", w=\"slice\", x={1, 2, 3}, y=Some{__0=0x";
        assert!(
            strings.starts_with(start) && strings.ends_with("= Some{__0=\"text\"}"),
            "{strings}"
        );
    }
}

/// Compiles a source and records the program.
fn compiled(sandbox: &Sandbox, compiler: &[&str], name: &str, source: &str) {
    std::fs::write(sandbox.path(name), source).unwrap();
    let status = std::process::Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-g", "-o", "program", name])
        .current_dir(sandbox.path(""))
        .status();
    assert!(status.unwrap().success());
    sandbox.relive(&["record", "./program"]).ok();
}

#[test]
fn an_assembler_says_nothing_of_types() {
    let sandbox = Sandbox::new();
    let assembled = ".globl twice\n.type twice, @function\ntwice: lea (%rdi,%rdi), %eax\nret\n.size twice, .-twice\n.section .note.GNU-stack\n";
    std::fs::write(sandbox.path("twice.s"), assembled).unwrap();
    let source = "int twice(int n); int main(void) { return twice(21) != 42; }";
    compiled(&sandbox, &["cc", "twice.s"], "main.c", source);
    let all = calls(&sandbox, "twice");
    assert!(
        all[0].starts_with("(0x15, ") && all[0].ends_with(") = 0x2a"),
        "{all:?}"
    );
}

#[test]
fn functions_are_found_by_short_names() {
    // It also reads its own file by a map, which makes no second function of each.
    const SOURCE: &str = r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        namespace shop {
        template <typename T> struct Queue { T last; int push(T v) { last = v; return 7; } };
        int price(int n) { return n * 2; }
        double price(double d) { return d * 2; }
        template <typename T> T twice(T a) { return a + a; }
        }
        int main() {
            mmap(0, 4096, PROT_READ, MAP_PRIVATE, open("program", O_RDONLY), 0);
            shop::Queue<long> queue;
            queue.push(5);
            shop::price(3);
            shop::price(1.5);
            shop::twice(21);
        }"#;
    let sandbox = Sandbox::new();
    compiled(&sandbox, &["c++", "-O0"], "names.cc", SOURCE);
    for (name, expected) in [
        ("twice", "(a=21) = 42"),
        ("twice<int>", "(a=21) = 42"),
        ("shop::twice", "(a=21) = 42"),
        ("price(int)", "(n=3) = 6"),
        ("price(double)", "(d=1.5) = 3"),
        ("main", "() = 0"),
    ] {
        assert_eq!(calls(&sandbox, name), [expected], "{name}");
    }
    for name in ["push", "Queue::push", "Queue<long>::push", "push(long)"] {
        let [call] = &calls(&sandbox, name)[..] else {
            panic!("{name}");
        };
        assert!(call.ends_with(", v=5) = 7"), "{call}");
    }
    let several = "several functions are called price";
    sandbox.relive(&["calls", "price"]).refused(several);
}

#[test]
fn the_program_comes_before_its_libraries() {
    const SOURCE: &str = r#"
        #include <string>
        struct List { int n; int append(int x) { n += x; return n; } };
        int sync(int n) { return n + 1; }
        int main(int count, char **words) {
            std::string text(words[0]);
            text.append("!");
            List list{count};
            list.append(4);
            sync(1);
        }"#;
    let sandbox = Sandbox::new();
    compiled(&sandbox, &["c++", "-O0"], "own.cc", SOURCE);
    assert_eq!(calls(&sandbox, "sync"), ["(n=1) = 2"]);
    let [append] = &calls(&sandbox, "append")[..] else {
        panic!();
    };
    assert!(append.ends_with(", x=4) = 5"), "{append}");
}

#[test]
fn words_in_the_wrong_order_are_answered_with_the_right_one() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "-o", "one", "true"]).ok();
    let remedy = "the function comes before the trace: relive calls 'sell(int)' one";
    sandbox
        .relive(&["calls", "one", "sell(int)"])
        .refused(remedy);
    let none = "there is no trace two";
    sandbox.relive(&["calls", "sell", "two"]).refused(none);
}

#[test]
fn an_argument_that_is_always_the_same_is_shown_although_nobody_passes_it() {
    const SOURCE: &str = "
        struct Square { side: u32 }
        impl Square {
            #[inline(never)]
            fn grow(&mut self, by: u32) { self.side += by }
        }
        fn main() {
            let mut square = Square { side: std::env::args().count() as u32 };
            square.grow(4);
            std::process::exit(square.side as i32 - 5)
        }";
    let sandbox = Sandbox::new();
    compiled(&sandbox, &["rustc", "-O"], "same.rs", SOURCE);
    assert_eq!(calls(&sandbox, "grow"), ["(self={side=1}, by=4) = nothing"]);
}

#[test]
fn calls_see_what_other_processes_write() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "shared_words.cc", &["-O0"], &[]);
    assert_eq!(
        calls(&sandbox, "seen"),
        ["(n=40) = 41", "(n=41) = 42", "(n=42) = 43"]
    );
}
