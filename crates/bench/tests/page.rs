//! `docs/performance.md` lists the workloads of the crate, with their descriptions.

use std::path::Path;

use relive_bench::page;
use relive_bench::table::WORKLOADS;
use relive_bench::travel::TRIPS;

#[test]
fn the_page_lists_the_workloads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        page::part(&text, "workloads").unwrap().trim(),
        page::list().trim(),
        "put the output of `cargo bench -p relive-bench -- --list` between the marks"
    );
    let figures = page::part(&text, "figures").unwrap();
    for workload in WORKLOADS {
        let row = format!("| {} ", workload.name);
        assert!(figures.contains(&row), "no figures of {}", workload.name);
    }
    for section in ["sketches", "coherence"] {
        page::part(&text, section).unwrap();
    }
    let figures = page::part(&text, "travel").unwrap();
    for trip in TRIPS {
        let row = format!("| {} ", trip.name);
        assert!(figures.contains(&row), "no figures of {}", trip.name);
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = WORKLOADS
        .iter()
        .map(|workload| workload.name)
        .chain(TRIPS.iter().map(|trip| trip.name))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), WORKLOADS.len() + TRIPS.len());
}
