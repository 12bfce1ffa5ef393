//! The steps of a client of good will: it walks through a recording, and learns of the program.

use std::path::Path;

use relive_tests::gdb_client::Client;
use relive_tests::hostile_gdb::choices::Known;

/// The answers to a client that walks through the recording, with each kind of walk.
pub fn walk(path: &Path) -> String {
    let mut client = Client::connect(path).expect("the server answers");
    let mut all = String::new();
    let mut note = |what: &str, said: std::io::Result<String>| {
        let said = said.unwrap_or_else(|e| panic!("{what}: {e}"));
        all.push_str(&format!("{what}: {said}\n"));
        said
    };
    note("start", client.monitor("goto start"));
    for ask in ["?", "g", "qfThreadInfo", "qXfer:auxv:read::0,400"] {
        note(ask, client.ask(ask));
    }
    let stack = client.monitor("position").expect("a position");
    note("position", Ok(stack));
    let thread = standing(&mut client);
    for _ in 0..3 {
        note("step", client.ask(&format!("vCont;s:{thread}")));
        note("pc", client.ask("p10"));
    }
    note("signal", client.ask("vCont;c"));
    note("end", client.ask("vCont;c"));
    note("place", client.monitor("position"));
    note("registers", client.ask("g"));
    note("back", client.ask("bs"));
    note("before", client.monitor("position"));
    note("signal", client.ask("bc"));
    note("begin", client.ask("bc"));
    note("event", Ok(goto(&mut client, 60)));
    let at = note("event", client.ask("g"));
    note(
        "memory",
        client.ask(&format!("m{},40", &swapped(&at[7 * 16..8 * 16]))),
    );
    assert_eq!(client.ask("D").expect("it lets go"), "OK");
    all
}

/// The thread that the server names when a client asks why the program stands.
pub fn standing(client: &mut Client) -> String {
    let said = client.ask("?").expect("an answer");
    let (_, behind) = said.split_once("thread:").expect("a thread");
    behind.split(';').next().unwrap_or(behind).to_owned()
}

/// Goes to an event, and from then on selects the thread that stands there.
pub fn goto(client: &mut Client, event: u64) -> String {
    client
        .monitor(&format!("goto {event}"))
        .expect("an event, or the end");
    let thread = standing(client);
    client.ask(&format!("Hg{thread}")).expect("an answer");
    thread
}

/// A step of the thread that the program stands at.
pub fn step(client: &mut Client) -> String {
    let thread = standing(client);
    client.ask(&format!("vCont;s:{thread}")).expect("an answer")
}

/// A register in the protocol's byte order as an address in the protocol's notation.
pub fn swapped(register: &str) -> String {
    register
        .as_bytes()
        .chunks(2)
        .rev()
        .map(|b| String::from_utf8_lossy(b))
        .collect()
}

/// The data that a client may know.
pub fn known(path: &Path) -> Known {
    let mut client = Client::connect(path).expect("the server answers");
    goto(&mut client, 60);
    let registers = client.ask("g").expect("registers");
    let word = |n: usize| {
        let text = swapped(&registers[16 * n..16 * (n + 1)]);
        u64::from_str_radix(&text, 16).expect("a register")
    };
    let mut addresses = vec![word(16), word(7), word(6)];
    // Code that threads run through often.
    for event in [100, 150] {
        goto(&mut client, event);
        let pc = swapped(&client.ask("p10").expect("a register"));
        addresses.push(u64::from_str_radix(&pc, 16).expect("an address"));
    }
    let threads = client.ask("qfThreadInfo").expect("threads");
    let threads = threads
        .trim_start_matches('m')
        .split(',')
        .map(str::to_owned)
        .collect();
    Known { addresses, threads }
}
