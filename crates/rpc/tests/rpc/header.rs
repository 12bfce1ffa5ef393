//! Headers and identities: written ones are read, and nothing else is.

use proptest::prelude::*;
use relive_rpc::{Content, HEADER_MAX, Header, Mark, NameId, Origin, Path, RequestId, TaskId};

pub fn header() -> impl Strategy<Value = Header> {
    let name = || any::<u64>().prop_map(NameId::from_hash);
    let origin = prop_oneof![
        name().prop_map(Origin::Root),
        (name(), any::<u64>()).prop_map(|(name, place)| Origin::Gate(name, place)),
    ];
    let path = prop::collection::vec(any::<u32>(), 0..12);
    let path = path.prop_map(|steps| steps.into_iter().fold(Path::default(), Path::child));
    let content = prop::option::of(any::<u64>().prop_map(Content));
    let known = prop::option::of(0u32..1 << 24);
    (
        name(),
        origin,
        path,
        any::<u64>(),
        content,
        any::<u64>(),
        known,
    )
        .prop_map(|(process, origin, path, number, content, epoch, known)| {
            let task = TaskId {
                process,
                origin,
                path,
            };
            let id = RequestId { task, number };
            Header {
                id,
                content,
                epoch,
                known,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_is_read(header in header()) {
        let text = header.to_text();
        prop_assert!(text.as_bytes().len() <= HEADER_MAX);
        prop_assert!(text.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(Header::parse(text.as_bytes()), Ok(header));
    }

    #[test]
    fn one_identity_has_one_text(
        header in header(),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![Just(b'A'), Just(b'g'), Just(b'_'), Just(b'='), any::<u8>()],
        inserts in any::<bool>(),
    ) {
        let mut text = header.to_text().as_bytes().to_vec();
        let at = at.index(text.len());
        match inserts {
            true => text.insert(at, byte),
            false => text[at] = byte,
        }
        if let Ok(read) = Header::parse(&text) {
            prop_assert_eq!(read.to_text().as_bytes().to_vec(), text);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_exact(text in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(read) = Header::parse(&text) {
            prop_assert_eq!(read.to_text().as_bytes().to_vec(), text);
        }
    }
}

#[test]
fn an_outside_identity_is_never_taken_from_a_peer() {
    let task = TaskId {
        process: NameId::from_hash(1),
        origin: Origin::Outside(NameId::from_hash(2)),
        path: Path::default(),
    };
    let header = Header {
        id: RequestId { task, number: 0 },
        content: None,
        epoch: 0,
        known: None,
    };
    let read = Header::parse(header.to_text().as_bytes()).expect("it is a root's");
    assert_eq!(
        read.id.task.origin,
        Origin::Root(NameId::from_hash(2)),
        "only a gate gives it"
    );
}

#[test]
fn a_line_stays_as_it_is() {
    let task = TaskId {
        process: NameId::of("client"),
        origin: Origin::Gate(NameId::of("entry"), 1000),
        path: [1, 70_000].into_iter().fold(Path::default(), Path::child),
    };
    let header = Header {
        id: RequestId { task, number: 40 },
        content: Some(Content(u64::MAX)),
        epoch: 31,
        known: Some(5),
    };
    assert_eq!(
        header.to_text().as_str(),
        "4bvjeAdvuVqwYnoBfofCBwrkC__________PFAAA"
    );
    let mark = Mark {
        process: task.process,
        epoch: 32,
    };
    assert_eq!(mark.to_text().as_str(), "vjeAdvgB");
    assert_eq!(Mark::parse(mark.to_text().as_bytes()), Ok(mark));
}

#[test]
fn the_longest_line_has_room() {
    let steps = [u32::MAX; 7];
    let task = TaskId {
        process: NameId::from_hash(u64::MAX),
        origin: Origin::Gate(NameId::from_hash(u64::MAX), u64::MAX),
        path: steps.into_iter().fold(Path::default(), Path::child),
    };
    let header = Header {
        id: RequestId {
            task,
            number: u64::MAX,
        },
        content: Some(Content(u64::MAX)),
        epoch: u64::MAX,
        known: Some((1 << 24) - 1),
    };
    let text = header.to_text();
    assert_eq!(text.as_bytes().len(), HEADER_MAX);
    assert_eq!(Header::parse(text.as_bytes()), Ok(header));
}
