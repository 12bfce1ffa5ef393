//! A replay of one process without its peers: the recorded requests are brought by the tape, each when it
//! is its turn.
//!
//! Only requests of which the tape has the bytes are brought; others have to come by themselves, as those
//! that the process sends itself by [`crate::call`].

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::header::Header;
use crate::id::Origin;
use crate::name::{Name, NameId};
use crate::payload::Parts;
use crate::session::Session;
use crate::shared::Shared;
use crate::tape::Lane;

/// The requests that a replayed process received, as they become due.
pub struct Requests {
    lanes: HashMap<NameId, Lanes>,
    shared: Arc<Shared>,
}

struct Lanes {
    lane: Arc<Lane>,
    /// Places before this were brought.
    brought: u64,
}

/// One of them.
pub struct Incoming {
    /// The entry point that it came to.
    pub entry: Name,
    /// `None`: it came from outside of all recorded processes.
    pub header: Option<Header>,
    /// Whether it was answered in the recording: its handler has an end.
    pub is_answered: bool,
    pub(crate) parts: Parts,
}

impl Incoming {
    /// Its bytes, as [`crate::EntryPoint::serve_bytes`] got them.
    pub fn bytes(self) -> Option<Vec<u8>> {
        self.parts.whole()
    }
}

impl Session {
    /// The source of requests in a replay of this process alone; `None` in any other session. To be asked
    /// for once.
    pub fn requests(&self) -> Option<Requests> {
        let replayer = self.alone()?;
        let lanes = replayer.lanes.iter().map(|(name, lane)| {
            let lane = lane.clone();
            (*name, Lanes { lane, brought: 0 })
        });
        Some(Requests {
            lanes: lanes.collect(),
            shared: replayer.shared.clone(),
        })
    }
}

impl Requests {
    /// The next request; `None` when the replay has ended. Its handling must not be waited for before
    /// that: others may be due before it ends.
    pub async fn next(&mut self) -> Option<Incoming> {
        poll_fn(|cx| {
            if self.shared.end().is_some() {
                return Poll::Ready(None);
            }
            match self.due(cx.waker()) {
                Some(incoming) => Poll::Ready(Some(incoming)),
                // The end may have come between the two.
                None if self.shared.end().is_some() => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Whether the replay left its recording.
    #[cfg(feature = "tower")]
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.failure().is_some()
    }

    fn due(&mut self, waker: &Waker) -> Option<Incoming> {
        for (name, place) in self.shared.places(waker) {
            let Some(Lanes { lane, brought }) = self.lanes.get_mut(&name) else {
                continue;
            };
            if *brought > place {
                continue;
            }
            *brought = place + 1;
            let Some(receipt) = lane.receipts.get(place as usize) else {
                continue;
            };
            if let Some(parts) = Parts::of_request(lane, &self.shared, place) {
                let (id, content) = (receipt.id, receipt.content);
                let outside = matches!(id.task.origin, Origin::Outside(_));
                let entry = self.shared.names.get(&receipt.entry);
                return Some(Incoming {
                    entry: entry.unwrap_or(&lane.name).clone(),
                    header: (!outside).then_some(Header {
                        id,
                        content,
                        epoch: 0,
                        known: None,
                    }),
                    is_answered: parts.is_answered(),
                    parts,
                });
            }
        }
        None
    }
}
