//! Session images change how a debugger gets somewhere, and nothing else: whatever is asked, the answer
//! is that of a replay from the beginning. A damaged index is an error, never another answer.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::sandbox::{Sandbox, text, wait};
use crate::travel::orders;

fn recorded() -> Sandbox {
    recorded_with(&[])
}

fn recorded_with(options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/travel.c");
    let program = sandbox.compile(&source, "travel");
    let command = [&["record"], options, &[text(&program)]].concat();
    let outcome = sandbox.relive(&command);
    assert_eq!(outcome.code(), Some(7), "{outcome:#?}");
    sandbox
}

/// The files of the index of the latest recording: images and pages.
fn files(sandbox: &Sandbox) -> Vec<PathBuf> {
    let folder = sandbox.latest().expect("a recording").join("index");
    let entries = std::fs::read_dir(folder).expect("an index");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Ways along the recording, in both directions.
const WAYS: [&[&str]; 5] = [
    &[
        "end", "checksum", "reverse", "end", "back", "back", "step", "checksum",
    ],
    &[
        "event 40", "checksum", "event 90", "checksum", "step 9", "back", "checksum",
    ],
    &[
        "event 120",
        "signals",
        "reverse",
        "checksum",
        "start",
        "checksum",
    ],
    &["end", "event 30", "checksum", "continue", "checksum"],
    &["event 70", "start", "continue", "checksum"],
];

/// From each image, forwards, and backwards over the place where it was made, and to the end. How many there are, and
/// how often the way led back to the image.
fn from_each_image(sandbox: &Sandbox, end: &[String]) -> (usize, usize) {
    let number: usize = orders(sandbox, &[], &["images"])[0].parse().unwrap();
    let mut returned = 0;
    for n in 0..number {
        let image = format!("image {n}");
        let steps = ["step", "step", "back", "back", "back", "step"];
        let way = [
            &[image.as_str(), "checksum"],
            &steps[..],
            &["checksum", "end", "checksum"],
        ];
        let answers = orders(sandbox, &[], &way.concat());
        assert_eq!(answers[9..], *end, "image {n}: {answers:#?}");
        let place = |answer: &str| answer.split_once(' ').unwrap().1.to_owned();
        // A step back over turns of others leads to where the thread stood before them.
        if place(&answers[0]) == place(&answers[7]) {
            assert_eq!(answers[1], answers[8], "image {n}: {answers:#?}");
            returned += 1;
        }
    }
    (number, returned)
}

#[test]
fn every_way_leads_where_it_led_without_an_index() {
    let sandbox = recorded();
    let all = || WAYS.map(|way| orders(&sandbox, &[], way));
    let without = all();
    let made = sandbox.relive(&["index", "--images", "12", "--check"]).ok();
    assert!(made.stdout.contains("compared at the end"), "{made:#?}");
    assert_eq!(all(), without);
    let (number, returned) = from_each_image(&sandbox, &without[0][..2]);
    assert!(number >= 12 && returned > 0, "{number}, {returned}");
    let played = |from: &str| sandbox.relive(&["replay", "--from", from]);
    let with = (played("50").stdout, played("end").code());
    let gone = sandbox.relive(&["index", "--remove"]).ok();
    assert!(gone.stdout.contains("removed"), "{gone:#?}");
    assert_eq!((played("50").stdout, played("end").code()), with);
    assert_eq!(orders(&sandbox, &[], &["images"]), ["0"]);
}

/// Images that were made while the program was recorded.
#[test]
fn images_of_the_recorder_lead_where_a_replay_leads() {
    let mut images = 0;
    for _ in 0..6 {
        let sandbox = recorded_with(&["--index=0"]);
        let compared = sandbox.relive(&["index", "--compare"]).ok();
        assert!(
            compared.stdout.contains("as the replay from the beginning"),
            "{compared:#?}"
        );
        // Forwards, and backwards over the place where it was made.
        let steps = [
            "checksum", "step", "step", "back", "back", "back", "checksum", "back", "checksum",
            "reverse", "end", "checksum",
        ];
        let from = |place: &str| orders(&sandbox, &[], &[&[place], &steps[..]].concat());
        let number: usize = orders(&sandbox, &[], &["images"])[0].parse().unwrap();
        let with: Vec<_> = (0..number).map(|n| from(&format!("image {n}"))).collect();
        let all = || WAYS.map(|way| orders(&sandbox, &[], way));
        let ways = all();
        sandbox.relive(&["index", "--remove"]);
        assert_eq!(all(), ways);
        for answers in with {
            let place = answers[0].split(' ').nth(1).expect("a place");
            let event = place.strip_prefix("event=").expect("its event");
            let without = from(&format!("event {event}"));
            assert_eq!(without[1..], answers[1..]);
        }
        images += number;
    }
    assert!(images > 0, "no image was made");
}

#[test]
fn a_damaged_index_is_said_and_its_removal_helps() {
    let sandbox = recorded();
    sandbox.relive(&["index", "--images", "3"]).ok();
    let end = &["backtrace", "--at", "end"];
    let good = sandbox.relive(end).ok().stdout;
    for path in files(&sandbox) {
        let whole = std::fs::read(&path).unwrap();
        for at in [0, whole.len() / 3, whole.len() - 1] {
            let mut bad = whole.clone();
            bad[at] ^= 0x40;
            std::fs::write(&path, &bad).unwrap();
            let outcome = sandbox.relive(end);
            // Another image may be the nearest one.
            if outcome.code() != Some(0) {
                let outcome = outcome.refused("damaged");
                assert!(
                    outcome.stderr.contains("relive index --remove"),
                    "{outcome:#?}"
                );
            } else {
                assert_eq!(outcome.stdout, good);
            }
        }
        std::fs::write(&path, &whole).unwrap();
    }
    let pages = files(&sandbox).pop().unwrap();
    let whole = std::fs::read(&pages).unwrap();
    std::fs::write(&pages, &whole[..whole.len() / 2]).unwrap();
    sandbox.relive(end).refused("relive index --remove");
    // A replay from the beginning needs none of it.
    sandbox.relive(&["verify", "-j1"]).ok();
    sandbox.relive(&["index", "--remove"]).ok();
    assert_eq!(sandbox.relive(end).ok().stdout, good);
}

#[test]
fn an_index_that_was_killed_half_way_is_none() {
    let sandbox = recorded();
    let end = ["end", "checksum"];
    let good = orders(&sandbox, &[], &end);
    let unfinished = sandbox.latest().expect("a recording").join(".index");
    let mut halves = 0;
    for images in (0..8).map(|n| 3 * n) {
        sandbox.relive(&["index", "--remove"]);
        let mut command = sandbox.command(&["index", "--images", "1000"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let made = || std::fs::read_dir(&unfinished).map_or(0, Iterator::count);
        while made() < images && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        wait(&mut child);
        if unfinished.exists() {
            halves += 1;
            assert_eq!(orders(&sandbox, &[], &["images"]), ["0"]);
        }
        assert_eq!(orders(&sandbox, &[], &end), good);
    }
    assert!(halves > 0, "each index was whole before it could be killed");
    sandbox.relive(&["index", "--images", "3", "--check"]).ok();
    assert!(!unfinished.exists());
    assert_eq!(orders(&sandbox, &[], &end), good);
}

#[test]
fn two_debuggers_use_one_index() {
    let sandbox = recorded();
    sandbox.relive(&["index", "--images", "12"]).ok();
    let way = [
        "image 3", "checksum", "end", "checksum", "image 5", "checksum",
    ];
    let good = orders(&sandbox, &[], &way);
    std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| orders(&sandbox, &[], &way)));
        for one in both {
            assert_eq!(one.join().expect("a debugger"), good);
        }
    });
}

#[test]
fn the_index_of_another_recording_is_refused() {
    let sandbox = recorded();
    sandbox.relive(&["index", "--images", "3"]).ok();
    let first = sandbox.latest().expect("a recording").join("index");
    let program = sandbox.path("travel");
    sandbox.relive(&["record", text(&program), "another"]);
    let second = sandbox.latest().expect("a recording").join("index");
    assert_ne!(first, second);
    std::fs::rename(&first, &second).unwrap();
    sandbox
        .relive(&["backtrace", "--at", "end"])
        .refused("another recording");
}

#[test]
fn a_packed_recording_brings_its_index_along() {
    let sandbox = recorded();
    sandbox.relive(&["index", "--images", "3"]).ok();
    // The files of one that was never finished stay behind.
    let left = sandbox.latest().expect("a recording").join(".index");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("pages"), "x").unwrap();
    sandbox.relive(&["pack", "-o", "packed.tar.zst"]).ok();
    sandbox
        .relive(&["unpack", "packed.tar.zst", "-o", "there"])
        .ok();
    assert_eq!(
        orders(&sandbox, &["there"], &["images"]),
        orders(&sandbox, &[], &["images"])
    );
    let end = ["end", "checksum"];
    assert_eq!(
        orders(&sandbox, &["there"], &end),
        orders(&sandbox, &[], &end)
    );
}

/// The first debugger of a long recording has an index made in the background, which goes on when that ends.
#[test]
fn a_long_recording_is_indexed_by_itself() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/long.c");
    let program = sandbox.compile(&source, "long");
    sandbox
        .relive(&["record", "-o", "trace", text(&program)])
        .ok();
    let debug = |more: &[&str]| {
        let words = ["debug", "trace", "--gdb", "/bin/true"];
        sandbox.relive(&[&words[..], more].concat()).ok();
    };
    debug(&["--no-index"]);
    let index = sandbox.path("trace/index");
    let unfinished = sandbox.path("trace").join(relive_trace::UNFINISHED_INDEX);
    assert!(!index.exists() && !unfinished.exists());
    debug(&[]);
    let began = std::time::Instant::now();
    while !index.exists() {
        assert!(began.elapsed() < Duration::from_secs(120), "no index");
        std::thread::sleep(Duration::from_millis(20));
    }
    let checked = sandbox.relive(&["index", "trace", "--compare"]).ok();
    assert!(!checked.stdout.contains("0 images"), "{checked:#?}");
}

/// Where there is no `/proc` the list of its pages cannot be opened.
#[test]
fn a_process_in_another_root_has_images() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/other_root.c");
    let program = sandbox.compile(&source, "other_root");
    let words = ["record", "--index=0", "-o", "trace", text(&program)];
    sandbox.relive(&words).ok();
    // One of them at most lies before the change.
    let images = std::fs::read_dir(sandbox.path("trace").join("index")).unwrap();
    assert!(images.count() > 4);
    let compared = sandbox.relive(&["index", "--compare", "trace"]).ok();
    assert!(!compared.stdout.contains(": 0 images"), "{compared:#?}");
}
