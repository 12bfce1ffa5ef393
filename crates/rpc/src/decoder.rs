//! Records from bytes that anybody may have written: no byte is trusted, and the encoder's state is kept
//! beside them.

use crate::bytes::{Cursor, Malformed, at_distance};
use crate::header::{Content, Mark};
use crate::id::{Path, RequestId, STEPS_MAX};
use crate::name::{NAME_MAX, Name, NameId};
use crate::record::{LaneKind, Member, Receipt, Record, StreamId, VALUE_MAX};
use crate::senders::{Sender, Senders, tag};

/// Reads a lane's records, from the first one on.
#[derive(Debug, Default)]
pub struct Decoder {
    own: Option<NameId>,
    senders: Senders,
    names: Vec<Name>,
    place: u64,
    epoch: u64,
}

impl Decoder {
    /// All records of bytes that hold whole ones.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Vec<Record>, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let mut records = Vec::new();
        while !cursor.is_empty() {
            records.push(self.record(&mut cursor)?);
        }
        Ok(records)
    }

    /// The names that the lane's records brought so far, without its own.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    fn record(&mut self, cursor: &mut Cursor) -> Result<Record, Malformed> {
        let bits = cursor.byte()?;
        let allowed = match bits & tag::KIND {
            tag::DEFINE if bits & tag::PAYLOAD != 0 => tag::PAYLOAD | tag::PATH | tag::PLACE,
            tag::DEFINE if bits & tag::DEPENDS != 0 => tag::DEPENDS,
            tag::DEFINE => tag::EPOCH,
            tag::RECEIPT => tag::PATH | tag::NEW | tag::PLACE | tag::CONTENT | tag::ENTRY,
            _ => tag::PATH | tag::PLACE,
        };
        if bits & !tag::KIND & !allowed != 0 {
            return Err(Malformed("a record's kind is unknown"));
        }
        match (bits & tag::KIND, self.own) {
            (tag::DEFINE, Some(_)) if bits & tag::PAYLOAD != 0 => self.payload(cursor, bits),
            (tag::DEFINE, Some(_)) if bits & tag::DEPENDS != 0 => Ok(Record::Depends(Mark {
                process: NameId::from_hash(cursor.u64()?),
                epoch: cursor.varint()?,
            })),
            (tag::DEFINE, Some(_)) if bits & tag::EPOCH != 0 => {
                let later = self.epoch.checked_add(cursor.varint()?);
                let later = later.filter(|later| *later > self.epoch);
                self.epoch = later.ok_or(Malformed("epochs are not in order"))?;
                Ok(Record::Epoch(self.epoch))
            }
            (tag::DEFINE, None) if bits == tag::DEFINE => self.define(cursor),
            (tag::DEFINE, _) | (_, None) => Err(Malformed(
                "a lane begins with its definition, and has no other",
            )),
            (tag::RECEIPT, Some(own)) => self.receipt(cursor, bits, own).map(Record::Receipt),
            (tag::PRIMITIVE, _) => {
                let task = self.member(cursor, bits)?;
                Ok(Record::Primitive {
                    task,
                    number: cursor.varint()?,
                    name: self.name(cursor)?,
                    value: cursor.bytes(VALUE_MAX)?.to_vec(),
                })
            }
            _ => {
                let task = self.member(cursor, bits)?;
                let operations = cursor.varint()?;
                Ok(Record::Cancelled { task, operations })
            }
        }
    }

    fn payload(&mut self, cursor: &mut Cursor, bits: u8) -> Result<Record, Malformed> {
        let task = self.member(cursor, bits)?;
        let stream = match cursor.byte()? {
            0 => StreamId::Request,
            1 => StreamId::Answer(cursor.varint()?),
            2 => StreamId::Given,
            _ => return Err(Malformed("a payload is of nothing that is known")),
        };
        let part = cursor.bytes(VALUE_MAX)?.to_vec();
        Ok(Record::Payload { task, stream, part })
    }

    fn define(&mut self, cursor: &mut Cursor) -> Result<Record, Malformed> {
        let kind = LaneKind::ALL
            .get(usize::from(cursor.byte()?))
            .ok_or(Malformed("a lane's kind is unknown"))?;
        let name = name(cursor)?;
        self.own = Some(name.id());
        Ok(Record::Define(*kind, name))
    }

    fn receipt(
        &mut self,
        cursor: &mut Cursor,
        bits: u8,
        own: NameId,
    ) -> Result<Receipt, Malformed> {
        let slot = if bits & tag::NEW != 0 {
            self.senders.add(Sender {
                process: NameId::from_hash(cursor.u64()?),
                origin: cursor.byte()?,
                name: NameId::from_hash(cursor.u64()?),
                place: 0,
            });
            self.senders.last
        } else {
            usize::from(cursor.byte()?)
        };
        let sender = self
            .senders
            .slots
            .get_mut(slot)
            .ok_or(Malformed("a sender is unknown"))?;
        if bits & tag::PLACE != 0 {
            sender.place = at_distance(sender.place, cursor.varint()?);
        }
        let sender = *sender;
        let task = sender.task(path(cursor, bits)?)?;
        let number = cursor.varint()?;
        let entry = match bits & tag::ENTRY {
            0 => own,
            _ => self.name(cursor)?.id(),
        };
        let content = match bits & tag::CONTENT {
            0 => None,
            _ => Some(Content(cursor.u64()?)),
        };
        Ok(Receipt {
            id: RequestId { task, number },
            entry,
            content,
        })
    }

    fn member(&mut self, cursor: &mut Cursor, bits: u8) -> Result<Member, Malformed> {
        if bits & tag::PLACE != 0 {
            self.place = at_distance(self.place, cursor.varint()?);
        }
        Ok(Member {
            place: self.place,
            path: path(cursor, bits)?,
        })
    }

    fn name(&mut self, cursor: &mut Cursor) -> Result<Name, Malformed> {
        let number = usize::try_from(cursor.varint()?).unwrap_or(usize::MAX);
        if number == self.names.len() {
            self.names.push(name(cursor)?);
        }
        let name = self.names.get(number);
        Ok(name.ok_or(Malformed("a name is unknown"))?.clone())
    }
}

fn name(cursor: &mut Cursor) -> Result<Name, Malformed> {
    let text = str::from_utf8(cursor.bytes(NAME_MAX)?);
    Name::new(text.map_err(|_| Malformed("a name is no text"))?)
}

fn path(cursor: &mut Cursor, bits: u8) -> Result<Path, Malformed> {
    if bits & tag::PATH == 0 {
        return Ok(Path::default());
    }
    const WRONG: Malformed = Malformed("a path is not one");
    let head = cursor.byte()?;
    let len = usize::from(head & 0x7f);
    let folded = match head & 0x80 {
        0 => 0,
        _ => cursor.u64()?,
    };
    if len == 0 || len > STEPS_MAX || (head & 0x80 != 0) != (folded != 0) {
        return Err(WRONG);
    }
    let mut steps = [0; STEPS_MAX];
    for step in &mut steps[..len] {
        *step = u32::try_from(cursor.varint()?).map_err(|_| WRONG)?;
    }
    Path::from_parts(folded, &steps[..len]).ok_or(WRONG)
}
