//! `docs/trace-format.md` must not fall behind the code.

use crate::common::syscall;
use relive_trace::*;

const PAGE: &str = include_str!("../../../../docs/trace-format.md");

#[test]
fn version_and_limits() {
    let version = format!("Format version: **{FORMAT}**\n");
    assert!(PAGE.contains(&version), "not on the page: {version}");
    let excerpt = format!("Format version of an excerpt: **{EXCERPT_FORMAT}**\n");
    assert!(PAGE.contains(&excerpt), "not on the page: {excerpt}");
    let chunk = format!("1 to {CHUNK_RAW_MAX}");
    assert!(PAGE.contains(&chunk), "not on the page: {chunk}");
    assert_eq!(BLOB_MAX, 1 << 32);
    assert!(PAGE.contains("at most 2³²"));
}

#[test]
fn the_example_is_right() {
    let event = Event {
        ticks: 100,
        digest: 0x1234_5678,
        kind: Kind::Syscall(syscall(0, &[3, 0x1000, 16], 16)),
    };
    let mut bytes = Vec::new();
    Encoder::new().encode(&event, &mut bytes);
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let example = format!("For example `{}` is", hex.join(" "));
    assert!(PAGE.contains(&example), "not on the page: {example}");
}

#[test]
fn every_field_of_the_manifest_is_described() {
    let mut manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
    manifest.tapes_length = Some(0);
    manifest.input_length = Some(0);
    manifest.summary = Some(Summary {
        exit: ExitStatus::Code(0),
        processes: 0,
        threads: 0,
        events: 0,
        ticks: 0,
        raw_bytes: 0,
        stored_bytes: 0,
        wall_ms: 0,
        asleep: false,
    });
    manifest.excerpt = Some(Excerpt {
        images: 0,
        order: 0,
        processes: Vec::new(),
        tapes: Vec::new(),
        cut: false,
        gaps: vec![(31, 33)],
        input: 1,
    });
    let json = serde_json::to_value(&manifest).unwrap();
    let fields = json.as_object().unwrap();
    let summary = fields["summary"].as_object().unwrap();
    for name in fields.keys().chain(summary.keys()) {
        assert!(
            PAGE.contains(&format!("`{name}`")),
            "not on the page: {name}"
        );
    }
}
