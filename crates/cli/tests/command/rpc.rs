//! `relive rpc`: recordings of requests, as the library writes them.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use relive_rpc::{Content, Keep, Session, call, nondet};
use serde_json::Value;

use crate::sandbox::Sandbox;

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nobody is waited for"),
    }
}

/// A client, a shop whose handler asks a bank, and the bank. The client sends these amounts.
fn record(dir: &Path, amounts: &[u64]) {
    let open = |name| Session::record(dir, name, Keep::Order).unwrap();
    let (client, shop, bank) = (open("client"), open("shop"), open("bank"));
    let (buy, pay) = (
        shop.entry_point("buy").unwrap(),
        bank.exclusive("pay").unwrap(),
    );
    let (buy, pay) = (&buy, &pay);
    let main = client.root("main").unwrap().unwrap();
    ready(main.scope(async {
        for amount in amounts {
            let content = Some(Content(*amount));
            call(content, |to_shop| async move {
                let handler = async {
                    let fee = nondet("fee", || 7u64);
                    let content = Some(Content(fee));
                    call(content, |to_bank| async move {
                        pay.serve(to_bank.as_ref(), None, async {}).await
                    })
                    .await
                    .unwrap()
                    .unwrap();
                };
                buy.serve(to_shop.as_ref(), None, handler).await.unwrap();
            })
            .await
            .unwrap();
        }
    }));
    for session in [client, shop, bank] {
        session.finish().unwrap();
    }
}

fn objects(text: &str) -> Vec<Value> {
    match serde_json::from_str(text) {
        Ok(Value::Array(objects)) => objects,
        _ => text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    }
}

#[test]
fn processes_and_lanes_are_listed() {
    let sandbox = Sandbox::new();
    record(&sandbox.path("one"), &[1, 2, 3]);
    let text = sandbox.relive(&["rpc", "ls", "one"]).ok().stdout;
    let names: Vec<&str> = text
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(names, ["PROCESS", "bank", "client", "shop"], "{text}");
    let listed = objects(&sandbox.relive(&["rpc", "ls", "one", "--json"]).ok().stdout);
    assert_eq!(listed[2]["receipts"], 3);
    assert_eq!(listed[2]["end"], "closed");
    assert!(listed[2]["bytes"].as_u64().unwrap() > 50);
    let lanes = objects(
        &sandbox
            .relive(&["rpc", "info", "one", "--json"])
            .ok()
            .stdout,
    );
    let kinds: Vec<&str> = lanes
        .iter()
        .map(|lane| lane["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["exclusive", "root", "entry"]);
    assert_eq!(
        (&lanes[2]["primitives"], &lanes[2]["senders"]),
        (&3.into(), &1.into())
    );
    let text = sandbox.relive(&["rpc", "info", "one"]).ok().stdout;
    assert!(text.contains("buy"), "{text}");
}

#[test]
fn receipts_and_their_causes_are_shown() {
    let sandbox = Sandbox::new();
    record(&sandbox.path("one"), &[1, 2]);
    let text = sandbox
        .relive(&["rpc", "dump", "one", "--lane", "buy"])
        .ok()
        .stdout;
    assert_eq!(
        text,
        "shop/buy: entry\n\
         \x20 #0 client/main:0 content 0000000000000001\n\
         \x20   #0:0 fee = 07\n\
         \x20 #1 client/main:2 content 0000000000000002\n\
         \x20   #1:0 fee = 07\n"
    );
    let words = [
        "rpc",
        "dump",
        "one",
        "--process",
        "shop",
        "--from",
        "1",
        "--json",
    ];
    let dumped = objects(&sandbox.relive(&words).ok().stdout);
    assert_eq!(dumped.len(), 2);
    assert_eq!(dumped[0]["request"], "client/main:2");
    assert_eq!(dumped[1]["value"], "07");
    sandbox
        .relive(&["rpc", "dump", "one", "--lane", "none"])
        .refused("no such process or lane");

    let text = sandbox.relive(&["rpc", "causality", "one"]).ok().stdout;
    assert_eq!(
        text,
        "shop/buy#0 <- client/main:0\n\
         \x20 bank/pay#0 <- shop/buy#0:1\n\
         shop/buy#1 <- client/main:2\n\
         \x20 bank/pay#1 <- shop/buy#1:1\n"
    );
    let words = ["rpc", "causality", "one", "--of", "bank/pay#1", "--json"];
    let chain = objects(&sandbox.relive(&words).ok().stdout);
    assert_eq!(chain.len(), 2);
    assert_eq!(chain[1]["cause"], "shop/buy#1");
    sandbox
        .relive(&["rpc", "causality", "one", "--of", "bank/pay#2"])
        .refused("no receipt");
}

#[test]
fn recordings_part_where_they_differ() {
    let sandbox = Sandbox::new();
    record(&sandbox.path("one"), &[1, 2, 3]);
    record(&sandbox.path("same"), &[1, 2, 3]);
    record(&sandbox.path("other"), &[1, 5, 3]);
    record(&sandbox.path("short"), &[1]);
    let equal = sandbox.relive(&["rpc", "diff", "one", "same"]).ok();
    assert_eq!(equal.stdout, "the recordings are equal\n");
    let parts = |other: &str| {
        let outcome = sandbox.relive(&["rpc", "diff", "one", other, "--json"]);
        assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
        objects(&outcome.stdout)
    };
    let other = parts("other");
    assert_eq!(other.len(), 1, "{other:#?}");
    assert_eq!(
        (&other[0]["at"], &other[0]["place"]),
        (&"shop/buy".into(), &"#1".into())
    );
    let short = parts("short");
    assert_eq!(short[0]["other"], "nothing more");
    std::fs::remove_file(sandbox.path("short").join("bank.tape")).unwrap();
    assert_eq!(parts("short")[0]["other"], "not there");
}

#[test]
fn what_is_no_recording_is_refused_and_a_cut_one_is_shown() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["rpc", "ls", "nothing"]).refused("nothing");
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.relive(&["rpc", "ls", "empty"]).refused("no tapes");
    std::fs::write(sandbox.path("empty").join("p.tape"), "RELIVRPC and so on").unwrap();
    sandbox.relive(&["rpc", "info", "empty"]).refused("p.tape");
    record(&sandbox.path("one"), &[1, 2, 3]);
    let tape = sandbox.path("one").join("shop.tape");
    let bytes = std::fs::read(&tape).unwrap();
    std::fs::write(&tape, &bytes[..bytes.len() - 1]).unwrap();
    let text = sandbox.relive(&["rpc", "ls", "one"]).ok().stdout;
    assert!(text.contains("cut at byte"), "{text}");
    sandbox.relive(&["rpc", "causality", "one"]).ok();
}
