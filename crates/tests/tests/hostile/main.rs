//! Hostile clients of `relive debug --serve`: for any input, and at any hang-up, the server lives,
//! and shows the next client the same as the first.
//!
//! `RELIVE_HOSTILE=N` sets the number of random sessions, `RELIVE_HOSTILE_SEED` the first seed.

mod legal;
mod server;
mod walk;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use relive_sched::Rng;
use relive_tests::gdb_client::{Client, hex, packet};
use relive_tests::hostile_gdb::choices::Known;
use relive_tests::hostile_gdb::session;

use server::{Server, variable};
use walk::{goto, known, standing, step, swapped, walk};

/// Limit on the time of each check; only a hang takes longer.
const LIMIT: Duration = Duration::from_secs(60);

fn raw(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    stream.set_write_timeout(Some(LIMIT)).expect("a time limit");
    stream
}

/// One hostile session. Some clients read the server's answers, others do not.
fn attack(path: &Path, seed: u64, known: &Known) {
    let mut random = Rng::new(seed);
    let mut stream = raw(path);
    let reads = random.below(3);
    if reads == 0 {
        let mut theirs = stream.try_clone().expect("a descriptor");
        thread::spawn(move || std::io::copy(&mut theirs, &mut std::io::sink()));
    }
    for piece in session(&mut random, known) {
        let cut = random.one_in(40);
        let until = if cut {
            random.below(piece.len() as u64 + 1) as usize
        } else {
            piece.len()
        };
        stream
            .set_write_timeout(Some(Duration::from_secs(2)))
            .expect("a time limit");
        // The server may have hung up, and may not read while its answers are not read.
        if stream.write_all(&piece[..until]).is_err() || cut {
            break;
        }
        match reads {
            1 => {
                stream
                    .set_read_timeout(Some(Duration::from_millis(3)))
                    .expect("a time limit");
                let _ = stream.read(&mut [0; 4096]);
            }
            _ if random.one_in(10) => thread::sleep(Duration::from_millis(random.below(20))),
            _ => {}
        }
    }
    // Some clients go at once, some when the server has had time.
    if random.one_in(2) {
        thread::sleep(Duration::from_millis(random.below(60)));
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

#[test]
fn random_sessions_leave_the_server_as_it_was() {
    let mut server = Server::of("1000");
    let expected = walk(&server.path);
    assert!(
        expected.contains("replaylog:begin") && expected.contains("replaylog:end"),
        "{expected}"
    );
    let known = known(&server.path);
    let first = variable("RELIVE_HOSTILE_SEED", 1);
    for seed in first..first + variable("RELIVE_HOSTILE", 60) {
        attack(&server.path, seed, &known);
        server.lives(&format!("after the session of seed {seed}"));
        let now = walk(&server.path);
        assert_eq!(expected, now, "after the session of seed {seed}");
    }
    server.is_small();
    server.end();
}

#[test]
fn connections_are_cut_at_every_byte() {
    let mut server = Server::of("1000");
    let expected = walk(&server.path);
    let mut whole = Vec::new();
    for body in [
        "qSupported:multiprocess+",
        "QStartNoAckMode",
        "?",
        "g",
        "Z0,10001000,1;X3,220127",
        "s",
    ] {
        whole.extend(packet(body.as_bytes()));
    }
    whole.extend(packet(format!("qRcmd,{}", hex(b"goto 50")).as_bytes()));
    whole.extend(packet(b"X10001000,4:ab}\x03d"));
    for body in ["bc", "vCont;c", "bs"] {
        whole.extend(packet(body.as_bytes()));
    }
    whole.push(3);
    whole.extend(packet(b"D"));
    for cut in 0..=whole.len() {
        let mut stream = raw(&server.path);
        let _ = stream.write_all(&whole[..cut]);
        if cut % 3 == 0 {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
            let _ = stream.read(&mut [0; 64]);
        }
        drop(stream);
        server.lives(&format!("cut at {cut}"));
    }
    assert_eq!(expected, walk(&server.path));
    server.end();
}

#[test]
fn slow_clients_and_deaf_ones_are_served_or_left() {
    let server = Server::of("1000");
    let expected = walk(&server.path);
    let mut slow = raw(&server.path);
    for byte in packet(b"qSupported:a+") {
        slow.write_all(&[byte]).expect("the server reads");
        thread::sleep(Duration::from_millis(2));
    }
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).expect("the server answers");
    assert_eq!(&answer, b"+$PacketSize");
    drop(slow);
    // Asks for megabytes and reads nothing: the server waits for it, but not for ever.
    let mut deaf = raw(&server.path);
    deaf.set_write_timeout(Some(Duration::from_secs(1)))
        .expect("a time limit");
    for _ in 0..2000 {
        if deaf
            .write_all(&packet(b"qXfer:features:read:target.xml:0,ffff"))
            .is_err()
        {
            break;
        }
    }
    drop(deaf);
    assert_eq!(expected, walk(&server.path));
    server.is_small();
    server.end();
}

#[test]
fn settings_of_a_client_are_bounded() {
    let server = Server::of("1000");
    let expected = walk(&server.path);
    let mut client = Client::connect(&server.path).expect("the server answers");
    // More than a replay can be given: these breakpoints have no conditions then.
    let condition = "ff".repeat(20_000);
    for i in 0..900 {
        let body = format!("Z0,{:x},1;X4e20,{condition}", 0x2000_0000 + i);
        assert_eq!(client.ask(&body).expect("an answer"), "OK");
    }
    let said = step(&mut client);
    assert!(said.starts_with('T'), "{said}");
    // And more breakpoints than a replay can be given: the client is told so.
    let mut refused = 0;
    for part in 0..=256u64 {
        let all = 0x3000_0000 + 256 * part..0x3000_0000 + 256 * (part + 1);
        let many: Vec<u8> = all
            .flat_map(|at| packet(format!("Z0,{at:x},1").as_bytes()))
            .collect();
        client.send(&many).expect("the server reads");
        let answers = (0..256).map(|_| client.packet().expect("an answer"));
        refused += answers.filter(|said| said.starts_with('E')).count();
    }
    assert_eq!(refused, 900 + 256);
    assert!(step(&mut client).starts_with('T'));
    assert_eq!(client.ask("D").expect("an answer"), "OK");
    assert_eq!(expected, walk(&server.path));
    server.is_small();
    server.end();
}

#[test]
fn a_changed_copy_that_dies_is_only_a_copy() {
    let mut server = Server::of("1000");
    let expected = walk(&server.path);
    // Registers that no program can have; code that Relive does not run.
    for poison in [
        "P3a=ffffffffffffffff",
        "P39=ffffffff",
        "P10=ffffffffffffff7f",
        "P7=0000000000000000",
        "P12=ffffffff",
    ] {
        let mut client = Client::connect(&server.path).expect("the server answers");
        goto(&mut client, 60);
        client.ask(poison).expect("an answer");
        // To an address in its code, which makes it an inferior call.
        client.ask("P10=0010001000000000").expect("an answer");
        step(&mut client);
        step(&mut client);
        drop(client);
        server.lives(poison);
        assert_eq!(expected, walk(&server.path), "after {poison}");
    }
    // Each of these bytes, alone on a page of code: instructions that are refused, too.
    for code in [
        "650fb600",
        "f1",
        "cd80",
        "0f01f9",
        "ea",
        "0f05",
        "ebfe",
        "0f0b",
        "660f38f600",
        "c8ffffff",
        "9d",
        "cf",
    ] {
        let mut client = Client::connect(&server.path).expect("the server answers");
        goto(&mut client, 60);
        let registers = client.ask("g").expect("registers");
        let at = swapped(&registers[16 * 16..17 * 16]);
        let at = u64::from_str_radix(&at, 16).expect("a pc") + 64;
        let len = code.len() / 2;
        assert_eq!(
            client
                .ask(&format!("M{at:x},{len}:{code}"))
                .expect("an answer"),
            "OK"
        );
        let pc: String = at
            .to_le_bytes()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(client.ask(&format!("P10={pc}")).expect("an answer"), "OK");
        client.send(&packet(b"vCont;c")).expect("the server reads");
        thread::sleep(Duration::from_millis(20));
        client.send(&[3]).expect("the server reads");
        let said = client
            .answer()
            .unwrap_or_else(|e| panic!("after {code}: {e}"));
        assert!(said.starts_with('T'), "after {code}: {said}");
        drop(client);
        server.lives(code);
        assert_eq!(expected, walk(&server.path), "after {code}");
    }
    server.end();
}

#[test]
fn whatever_takes_long_can_be_interrupted() {
    let server = Server::of("600000000");
    let mut client = Client::connect(&server.path).expect("the server answers");
    let nothing = "Z0,10001000,1;X6,220022002713";
    let interrupt = |client: &mut Client, what: &str, body: &str| {
        client
            .send(&packet(body.as_bytes()))
            .expect("the server reads");
        thread::sleep(Duration::from_millis(150));
        let began = Instant::now();
        client.send(&[3]).expect("the server reads");
        let said = client.answer().expect("an answer");
        assert!(
            said.starts_with("T02"),
            "{what} ended with {said} after {:?}",
            began.elapsed()
        );
    };
    client.ask(nothing).expect("an answer");
    let signal = client.ask("vCont;c").expect("an answer");
    assert!(signal.starts_with("T1e"), "{signal}");
    interrupt(&mut client, "continue", "vCont;c");
    let range = format!("vCont;r0,ffffffffffffffff:{}", standing(&mut client));
    interrupt(&mut client, "a step of a range", &range);
    // A watchpoint on memory that is never touched, next to memory that is touched all the time.
    let end = client.monitor("goto end").expect("the end");
    assert!(end.contains("event"), "{end}");
    client.ask("Z2,10004000,1").expect("an answer");
    interrupt(&mut client, "reverse-continue", "bc");
    assert_eq!(client.ask("z2,10004000,1").expect("an answer"), "OK");
    // A monitor command's search is given up, too, and it is an answer.
    for command in ["last-write 0x10004000 1", "calls 0x10001000"] {
        client.monitor("goto start").expect("the start");
        if command.starts_with("last") {
            client.monitor("goto end").expect("the end");
        }
        client
            .send(&packet(
                format!("qRcmd,{}", hex(command.as_bytes())).as_bytes(),
            ))
            .expect("the server reads");
        thread::sleep(Duration::from_millis(150));
        client.send(&[3]).expect("the server reads");
        let mut text = String::new();
        loop {
            let said = client.packet().expect("an answer");
            if said == "OK" {
                break;
            }
            text.push_str(&said);
        }
        assert!(text.contains(&hex(b"interrupted")), "{command}: {text}");
    }
    drop(client);
    server.end();
}
