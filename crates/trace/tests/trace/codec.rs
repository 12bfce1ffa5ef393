//! Events and images to bytes and back, and the errors for invalid bytes.

use crate::common;
use crate::common::{Owned, encode, events};
use proptest::collection::vec;
use proptest::prelude::*;
use relive_sched::Rng;
use relive_trace::*;

/// Decodes all whole events, and says why it stopped.
fn decode(bytes: &[u8], mut each: impl FnMut(usize, &Event<'_>)) -> (usize, DecodeError) {
    let mut decoder = Decoder::new();
    let mut at = 0;
    for index in 0.. {
        match decoder.decode(&bytes[at..]) {
            Ok((event, length)) => {
                assert!(length > 0);
                each(index, &event);
                at += length;
            }
            Err(error) => return (at, error),
        }
    }
    unreachable!("every event takes at least one byte")
}

fn check(bytes: &[u8], expected: &[Owned]) {
    let mut count = 0;
    let (at, error) = decode(bytes, |index, event| {
        assert!(expected[index].is(event), "{event:?} at {index}");
        count += 1;
    });
    assert_eq!((at, count), (bytes.len(), expected.len()));
    assert_eq!(error, DecodeError::Incomplete);
}

/// Events that decode must encode to the very same bytes: one event, one encoding.
fn check_canonical(bytes: &[u8]) {
    let mut encoder = Encoder::new();
    let mut again = Vec::new();
    let (at, _) = decode(bytes, |_, event| encoder.encode(event, &mut again));
    assert_eq!(again, bytes[..at]);
}

#[test]
fn sample_round_trip() {
    let sample = common::sample();
    check(&encode(&sample), &sample);
}

#[test]
fn every_beginning_is_incomplete() {
    let sample = common::sample();
    let bytes = encode(&sample);
    for end in 0..bytes.len() {
        let mut count = 0;
        let (_, error) = decode(&bytes[..end], |index, event| {
            assert!(sample[index].is(event));
            count += 1;
        });
        assert_eq!(error, DecodeError::Incomplete, "cut at {end}");
        assert!(count < sample.len());
    }
}

#[test]
fn events_are_small() {
    let mut encoder = Encoder::new();
    let mut out = Vec::new();
    let switch = |ticks| Event {
        ticks,
        digest: 0,
        kind: Kind::Switch { steps: 3 },
    };
    encoder.encode(&switch(1 << 40), &mut out);
    let first = out.len();
    encoder.encode(&switch((1 << 40) + 100), &mut out);
    assert_eq!(out.len() - first, 3);
}

#[test]
fn kinds_and_flags_that_do_not_exist_are_corrupt() {
    for first in [0u8, 0x0f, 0x2e, 0x24, 0x44, 0x82] {
        let bytes = [first; 64];
        let error = Decoder::new().decode(&bytes).unwrap_err();
        assert!(
            matches!(error, DecodeError::Corrupt { at: 0, .. }),
            "{first:#x}: {error}"
        );
    }
}

#[test]
#[should_panic(expected = "at most four values")]
fn five_values_are_refused() {
    let event = Event {
        ticks: 0,
        digest: 0,
        kind: Kind::Instr {
            op: 0,
            values: [0; 4],
            n: 5,
        },
    };
    Encoder::new().encode(&event, &mut Vec::new());
}

#[test]
fn image_round_trip() {
    let bytes = common::image_bytes();
    assert_eq!(Image::decode(&bytes).unwrap(), common::image());
    for end in 0..bytes.len() {
        assert!(Image::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(Image::decode(&longer).is_err());
}

#[test]
fn absurd_counts_in_an_image_end_at_once() {
    let mut bytes = vec![1, 0];
    bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    assert!(matches!(
        Image::decode(&bytes),
        Err(Error::Image { at: 12, .. })
    ));
}

fn image() -> impl Strategy<Value = Image> {
    let blob = || vec(any::<u8>(), 0..30);
    let number = common::number;
    let kind = prop_oneof![
        Just(MapKind::Anon),
        (any::<[u8; 32]>(), number()).prop_map(|(id, offset)| MapKind::File {
            file: FileId(id),
            offset
        })
    ];
    let map = (number(), number(), any::<u8>(), kind, "\\PC{0,20}").prop_map(
        |(addr, len, prot, kind, name)| MapOp {
            addr,
            len,
            prot,
            kind,
            name,
        },
    );
    let stream = (any::<u32>(), any::<u8>()).prop_map(|(fd, stream)| StreamFd { fd, stream });
    (
        (blob(), vec(blob(), 0..4), vec(blob(), 0..4)),
        (vec(map, 0..5), vec((number(), blob()), 0..4)),
        (number(), number(), number(), vec(stream, 0..3)),
    )
        .prop_map(
            |((path, argv, env), (maps, writes), (rip, rsp, brk, streams))| Image {
                path,
                argv,
                env,
                maps,
                writes,
                rip,
                rsp,
                brk,
                streams,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_events_round_trip(events in events()) {
        check(&encode(&events), &events);
    }

    #[test]
    fn any_image_round_trips(image in image()) {
        let mut bytes = Vec::new();
        image.encode(&mut bytes);
        prop_assert_eq!(Image::decode(&bytes).unwrap(), image);
    }

    #[test]
    fn damaged_events_are_none_or_others_in_their_only_form(
        events in events(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encode(&events);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check_canonical(&bytes);
    }

    #[test]
    fn damaged_images_are_none_or_others_in_their_only_form(
        image in image(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = Vec::new();
        image.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(other) = Image::decode(&bytes) {
            let mut again = Vec::new();
            other.encode(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

/// A bounded stand-in for the fuzz targets, with the same checks.
#[test]
fn random_bytes() {
    let mut random = Rng::new(0x9e37_79b9_7f4a_7c15);
    let mut next = || random.word();
    let mut decoded = 0;
    for _ in 0..40_000 {
        let length = (next() % 96) as usize;
        // Small bytes make small lengths: more of the bytes become events.
        let shift = next() % 7;
        let bytes: Vec<u8> = (0..length).map(|_| next() as u8 >> shift).collect();
        decoded += decode(&bytes, |_, _| {}).0;
        check_canonical(&bytes);
        let _ = Image::decode(&bytes);
    }
    assert!(decoded > 10_000, "hardly any event came of it: {decoded}");
}
