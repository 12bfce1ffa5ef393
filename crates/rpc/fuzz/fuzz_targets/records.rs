//! Any bytes as the frames of a tape whose checksums are right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_rpc::{Name, Session, Tape, tape};

fuzz_target!(|frames: Vec<(u8, Vec<u8>)>| {
    let name = Name::new("p").expect("it is a name");
    let mut file = tape::head(&name);
    for (lane, records) in &frames {
        let at = file.len() as u64;
        match lane {
            254 => tape::commit(&mut file, at, records.len() as u64),
            lane => tape::frame(&mut file, at, u32::from(*lane), records),
        }
    }
    let tape = Tape::parse(&file).expect("its head is right");
    let lanes = tape.lanes.clone();
    let session = Session::replay_tapes(vec![tape], "p", None).expect("it is the process's");
    for lane in lanes {
        let _ = session.root(lane.name.as_str());
        let _ = session.entry_point(lane.name.as_str());
        let _ = session.exclusive(lane.name.as_str());
    }
});
