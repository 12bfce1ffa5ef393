//! `calls`: arguments and results by their types, and calls that are left in other ways.

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::variables::recorded;

/// What is between the place and the caller, of each call.
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
