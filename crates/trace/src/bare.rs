//! System calls of which a tape records only the result: no writes, no output, no data of a hook.
//! Most calls of a busy program are such, and their events are short: they are written and read
//! without an [`crate::Event`] in between. The bytes are the same.

use crate::codec::tags::{flag, parts, tag};
use crate::codec::{Decoder, Encoder};
use crate::cursor::Cursor;
use crate::short::Short;
use crate::varint;

/// A bare system call, without its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bare<'a> {
    /// [`crate::Event::ticks`]
    pub ticks: u64,
    /// [`crate::Event::digest`], not 0.
    pub digest: u32,
    /// Number in the x86-64 table.
    pub nr: u32,
    /// The arguments that the call has, at most six.
    pub args: &'a [u64],
}

/// Upper bound on the bytes of such an event.
pub(crate) const BARE_MAX: usize = 128;

impl Bare<'_> {
    /// Encodes everything but the result, for a previous event at tick `last`.
    #[inline]
    fn head(&self, last: u64, short: &mut Short) {
        short.clear();
        short.byte(tag::SYSCALL | flag::DIGEST);
        short.int(self.ticks.wrapping_sub(last));
        short.fixed(self.digest.to_le_bytes());
        short.byte(self.args.len() as u8 & parts::ARGS);
        short.int(self.nr.into());
        for arg in self.args {
            short.int(*arg);
        }
    }
}

impl Encoder {
    /// Replaces the content of `short` by the bytes of a call, as [`Encoder::encode`] appends them.
    #[inline]
    pub fn bare(&mut self, call: &Bare<'_>, result: i64, short: &mut Short) {
        call.head(self.last_ticks, short);
        short.int(varint::zigzag(result));
        self.last_ticks = call.ticks;
    }
}

impl Decoder {
    /// If the event at the beginning of `bytes` is this call: its result and the length of the
    /// event. Otherwise the decoder stays unchanged.
    #[inline]
    pub(crate) fn bare(&mut self, bytes: &[u8], call: &Bare<'_>) -> Option<(i64, usize)> {
        let mut head = Short::new();
        call.head(self.last_ticks, &mut head);
        let rest = bytes.strip_prefix(head.as_slice())?;
        let mut cursor = Cursor::new(rest);
        let result = cursor.signed().ok()?;
        self.last_ticks = call.ticks;
        Some((result, bytes.len() - rest.len() + cursor.position()))
    }

    /// The ticks of the event at the beginning of `bytes`, if it is a bare call and certainly
    /// whole.
    #[inline]
    pub(crate) fn glance(&self, bytes: &[u8]) -> Option<u64> {
        if bytes.len() < BARE_MAX || bytes[0] != tag::SYSCALL | flag::DIGEST {
            return None;
        }
        let mut cursor = Cursor::new(&bytes[1..]);
        let delta = cursor.varint().ok()?;
        let _digest: [u8; 4] = cursor.fixed().ok()?;
        let follows = cursor.byte().ok()?;
        (follows & !parts::ARGS == 0).then(|| self.last_ticks.wrapping_add(delta))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Args, Event, Kind, Syscall};
    use crate::refs::Refs;
    use crate::short::WIDE;
    use crate::writes::Writes;
    use proptest::prelude::*;

    fn event<'a>(call: &Bare<'_>, result: i64) -> Event<'a> {
        let (ticks, digest) = (call.ticks, call.digest);
        let kind = Kind::Syscall(Syscall {
            nr: call.nr,
            args: Args::new(call.args),
            result,
            switched: false,
            order: None,
            stream: 0,
            writes: Writes::NONE,
            refs: Refs::NONE,
            extra: &[],
        });
        Event {
            ticks,
            digest,
            kind,
        }
    }

    proptest! {
        /// The same bytes as of the event, and the same event out of them.
        #[test]
        fn a_bare_call_is_the_event(
            calls in prop::collection::vec(
                (any::<u64>(), 1u32.., any::<u32>(), prop::collection::vec(any::<u64>(), 0..=6), any::<i64>()),
                1..8,
            ),
        ) {
            let (mut whole, mut bare, mut decoder) = (Encoder::new(), Encoder::new(), Decoder::new());
            for (ticks, digest, nr, args, result) in &calls {
                let (ticks, digest, nr) = (*ticks, *digest, *nr);
                let call = Bare { ticks, digest, nr, args };
                let mut bytes = Vec::new();
                whole.encode(&event(&call, *result), &mut bytes);
                let mut short = Short::new();
                bare.bare(&call, *result, &mut short);
                prop_assert_eq!(short.as_slice(), &bytes[..]);
                match short.wide() {
                    Some((n, wide)) => prop_assert_eq!(&wide[..n], &bytes[..]),
                    None => prop_assert!(bytes.len() > WIDE),
                }
                let n = bytes.len();
                prop_assert!(n <= BARE_MAX);
                prop_assert_eq!(decoder.glance(&bytes), None);
                bytes.resize(n + BARE_MAX, 0);
                prop_assert_eq!(decoder.glance(&bytes), Some(ticks));
                let more = [&args[..], &[1]].concat();
                for other in [
                    Bare { ticks: ticks ^ 1, ..call },
                    Bare { digest: digest ^ 0x8000_0000, ..call },
                    Bare { nr: nr ^ 1, ..call },
                    Bare { args: &more[..(args.len() + 1) % 7], ..call },
                ] {
                    prop_assert_eq!(decoder.bare(&bytes, &other), None);
                }
                prop_assert_eq!(decoder.bare(&bytes, &call), Some((*result, n)));
            }
        }
    }

    #[test]
    fn a_call_that_tells_more_is_not_bare() {
        let call = Bare {
            ticks: 3,
            digest: 9,
            nr: 1,
            args: &[1, 2],
        };
        let bare = event(&call, 4);
        let Kind::Syscall(plain) = bare.kind else {
            panic!("a system call")
        };
        for more in [
            Syscall {
                switched: true,
                ..plain
            },
            Syscall {
                order: Some(1),
                ..plain
            },
            Syscall { stream: 1, ..plain },
            Syscall {
                extra: b"x",
                ..plain
            },
            Syscall {
                writes: Writes::new(&[(4096, b"ab")]),
                ..plain
            },
        ] {
            let mut bytes = Vec::new();
            let kind = Kind::Syscall(more);
            Encoder::new().encode(&Event { kind, ..bare }, &mut bytes);
            bytes.resize(bytes.len() + BARE_MAX, 0);
            assert_eq!(Decoder::new().glance(&bytes), None, "{more:?}");
            assert_eq!(Decoder::new().bare(&bytes, &call), None, "{more:?}");
        }
    }
}
