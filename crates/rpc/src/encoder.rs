//! Records as bytes.
//!
//! Senders and names are written once and then referred to, places by their distance from the one
//! before, so that a receipt takes a few bytes.

use std::collections::HashMap;

use crate::bytes::{distance, put, put_bytes};
use crate::header::Mark;
use crate::id::Path;
use crate::name::{Name, NameId};
use crate::record::{LaneKind, Member, Receipt, StreamId};
use crate::senders::{Sender, Senders, tag};

/// Writes a lane's records.
#[derive(Debug)]
pub struct Encoder {
    own: NameId,
    senders: Senders,
    names: HashMap<NameId, u64>,
    place: u64,
    epoch: u64,
}

impl Encoder {
    /// Begins a lane with its definition.
    pub fn new(out: &mut Vec<u8>, kind: LaneKind, name: &Name) -> Self {
        out.push(tag::DEFINE);
        out.push(kind as u8);
        put_bytes(out, name.as_str().as_bytes());
        Self {
            own: name.id(),
            senders: Senders::default(),
            names: HashMap::new(),
            place: 0,
            epoch: 0,
        }
    }

    /// The following records belong to this epoch; epochs only grow.
    #[inline]
    pub fn epoch(&mut self, out: &mut Vec<u8>, epoch: u64) {
        if epoch != self.epoch {
            out.push(tag::DEFINE | tag::EPOCH);
            put(out, epoch.wrapping_sub(self.epoch));
            self.epoch = epoch;
        }
    }

    /// A request was received. `name`: of its entry point, whose number is in the receipt.
    #[inline]
    pub fn receipt(&mut self, out: &mut Vec<u8>, receipt: &Receipt, name: &Name) {
        let at = out.len();
        let mut bits = tag::RECEIPT;
        out.push(0);
        let sender = Sender::of(&receipt.id.task);
        let before = match self.senders.find(&sender) {
            Some(slot) => {
                out.push(slot as u8);
                std::mem::replace(&mut self.senders.slots[slot].place, sender.place)
            }
            None => {
                bits |= tag::NEW;
                self.senders.add(sender);
                out.extend_from_slice(&sender.process.get().to_le_bytes());
                out.push(sender.origin);
                out.extend_from_slice(&sender.name.get().to_le_bytes());
                0
            }
        };
        if before != sender.place {
            bits |= tag::PLACE;
            put(out, distance(before, sender.place));
        }
        bits |= put_path(out, &receipt.id.task.path);
        put(out, receipt.id.number);
        if receipt.entry != self.own {
            bits |= tag::ENTRY;
            self.name(out, name);
        }
        if let Some(content) = receipt.content {
            bits |= tag::CONTENT;
            out.extend_from_slice(&content.0.to_le_bytes());
        }
        out[at] = bits;
    }

    /// An operation had this result.
    pub fn primitive(
        &mut self,
        out: &mut Vec<u8>,
        task: Member,
        number: u64,
        name: &Name,
        value: &[u8],
    ) {
        self.member(out, tag::PRIMITIVE, task);
        put(out, number);
        self.name(out, name);
        put_bytes(out, value);
    }

    /// The following records depend on those of another process.
    pub fn depends(&mut self, out: &mut Vec<u8>, mark: Mark) {
        out.push(tag::DEFINE | tag::DEPENDS);
        out.extend_from_slice(&mark.process.get().to_le_bytes());
        put(out, mark.epoch);
    }

    /// A part of a payload came.
    pub fn payload(&mut self, out: &mut Vec<u8>, task: Member, stream: StreamId, part: &[u8]) {
        self.member(out, tag::DEFINE | tag::PAYLOAD, task);
        match stream {
            StreamId::Request => out.push(0),
            StreamId::Given => out.push(2),
            StreamId::Answer(number) => {
                out.push(1);
                put(out, number);
            }
        }
        put_bytes(out, part);
    }

    /// A task was given up after so many operations.
    pub fn cancelled(&mut self, out: &mut Vec<u8>, task: Member, operations: u64) {
        self.member(out, tag::CANCELLED, task);
        put(out, operations);
    }

    fn member(&mut self, out: &mut Vec<u8>, mut bits: u8, task: Member) {
        let at = out.len();
        out.push(0);
        if task.place != self.place {
            bits |= tag::PLACE;
            put(out, distance(self.place, task.place));
            self.place = task.place;
        }
        bits |= put_path(out, &task.path);
        out[at] = bits;
    }

    /// A number for a name that was written before; the next number and the name else.
    fn name(&mut self, out: &mut Vec<u8>, name: &Name) {
        let next = self.names.len() as u64;
        let number = *self.names.entry(name.id()).or_insert(next);
        put(out, number);
        if number == next {
            put_bytes(out, name.as_str().as_bytes());
        }
    }
}

fn put_path(out: &mut Vec<u8>, path: &Path) -> u8 {
    if path.is_empty() {
        return 0;
    }
    out.push(path.steps().len() as u8 | if path.folded() == 0 { 0 } else { 0x80 });
    if path.folded() != 0 {
        out.extend_from_slice(&path.folded().to_le_bytes());
    }
    path.steps().iter().for_each(|&step| put(out, step.into()));
    tag::PATH
}
