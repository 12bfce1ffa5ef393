//! Headers and identities: what is written is read, and nothing else is.

use proptest::prelude::*;
use relive_rpc::{Content, HEADER_MAX, Header, NameId, Origin, Path, RequestId, TaskId};

pub fn header() -> impl Strategy<Value = Header> {
    let name = || any::<u64>().prop_map(NameId);
    let origin = prop_oneof![
        name().prop_map(Origin::Root),
        (name(), any::<u64>()).prop_map(|(name, place)| Origin::Gate(name, place)),
    ];
    let path = prop::collection::vec(any::<u32>(), 0..12);
    let path = path.prop_map(|steps| steps.into_iter().fold(Path::default(), Path::child));
    let content = prop::option::of(any::<u64>().prop_map(Content));
    (name(), origin, path, any::<u64>(), content, any::<u64>()).prop_map(
        |(process, origin, path, number, content, epoch)| {
            let task = TaskId {
                process,
                origin,
                path,
            };
            let id = RequestId { task, number };
            Header { id, content, epoch }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_is_read(header in header()) {
        let text = header.to_text();
        prop_assert!(text.len() <= HEADER_MAX);
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(Header::parse(text.as_bytes()), Ok(header));
    }

    #[test]
    fn one_identity_has_one_text(
        header in header(),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![Just(b'0'), Just(b'.'), Just(b';'), Just(b'~'), Just(b'+'), any::<u8>()],
        inserts in any::<bool>(),
    ) {
        let mut text = header.to_text().into_bytes();
        let at = at.index(text.len());
        match inserts {
            true => text.insert(at, byte),
            false => text[at] = byte,
        }
        if let Ok(read) = Header::parse(&text) {
            prop_assert_eq!(read.to_text().into_bytes(), text);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_exact(text in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(read) = Header::parse(&text) {
            prop_assert_eq!(read.to_text().into_bytes(), text);
        }
    }
}

#[test]
fn an_outside_identity_is_never_taken_from_a_peer() {
    let text = "2;0000000000000001;o0000000000000002;;0;;0";
    Header::parse(text.as_bytes()).expect_err("only a gate gives it");
}
