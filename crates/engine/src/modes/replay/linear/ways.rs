//! How a thread goes its ways between moments: as a search has decided, or in long turns, in which it runs ahead of others. Must never
//! look at other threads.

use super::hints::What;
use super::wanted::AHEAD;
use crate::course::Note;
use crate::failure::Result;
use crate::tape::{TapeIn, Upcoming};

/// The decision for the way that the thread is on: one for a way before it, if that reaches so far.
pub fn decided(tape: &TapeIn, hint: &dyn Fn(What) -> Option<u64>) -> Option<u64> {
    let reaches = tape.early.filter(|&tick| tick > tape.behind.0);
    hint(What::Way(tape.moments)).or(reaches)
}

/// The tick of the last of the moments that come first, within half of what a thread may be ahead, and up to the next way of which
/// something is decided: on one way they are all the same.
pub fn far_moment<'a>(
    notes: impl Iterator<Item = &'a Note>,
    since: u64,
    moments: u64,
    hint: &dyn Fn(What) -> Option<u64>,
) -> Option<u64> {
    let is_decided = |way| hint(What::Way(way)).or(hint(What::Moment(way))).is_some();
    let ticks = notes.zip(moments..).map_while(|(note, way)| match *note {
        Note::Moment {
            event: false,
            ticks,
            end,
            ..
        } if way == moments || !is_decided(way) => {
            (end.saturating_sub(since) < AHEAD / 2).then_some(ticks)
        }
        _ => None,
    });
    ticks.last()
}

/// The tick from which on a thread in long turns goes as moments say: so many ticks before what is next on its tape, its event or
/// an operation that follows another one. `None` if there is no such tick.
pub fn late_from(tape: &TapeIn, next: Option<Upcoming>, near: u64) -> Option<u64> {
    if near == 0 {
        return None;
    }
    let operation = tape.notes.operations().next().map(|(ticks, _)| ticks);
    let what_comes = operation.or(next.map(|next| next.ticks))?;
    Some(what_comes.saturating_sub(near))
}

/// Whether a thread in long turns goes as moments say, or as a search has decided.
pub fn is_late(
    tape: &mut TapeIn,
    ticks: u64,
    hint: &dyn Fn(What) -> Option<u64>,
    near: u64,
) -> Result<bool> {
    let next = tape.upcoming()?;
    let late = late_from(tape, next, near);
    let step = decided(tape, hint).or(late);
    Ok(hint(What::Moment(tape.moments)).is_some() || step.is_some_and(|step| ticks >= step))
}

/// How far a thread goes on its way before it has to be due: the tick up to which it goes at the way's begin, and behind which at its end; and
/// whether it may run ahead of others now. A way that is all `late` is a short one, and gone at its begin: it is more likely
/// that of the thread which stores what others read in a loop.
pub fn pace(
    late: Option<u64>,
    (from, ticks, to): (u64, u64, u64),
    decided: Option<u64>,
) -> (Option<u64>, bool) {
    let is_short = late.is_some_and(|late| late <= from);
    let step = decided.or(if is_short { Some(to) } else { late });
    (step, !is_short && step.is_none_or(|step| ticks < step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_goes_on_to_the_last_moment_that_is_not_far_ahead() {
        let moment = |ticks, end| Note::Moment {
            event: false,
            ticks,
            begin: end,
            end,
        };
        let edge = Note::Edge {
            event: false,
            ticks: 30,
            at: 1,
            thread: 1,
            op: 1,
        };
        let far = |notes: &[Note]| far_moment(notes.iter(), 1000, 7, &|_| None);
        let near = AHEAD / 4;
        assert_eq!(far(&[moment(10, 1001), moment(20, 1000 + near)]), Some(20));
        assert_eq!(far(&[moment(10, 1001), moment(20, 1000 + AHEAD)]), Some(10));
        assert_eq!(far(&[moment(10, 1001), edge, moment(40, 1002)]), Some(10));
        assert_eq!(far(&[moment(10, 1000 + AHEAD)]), None);
        assert_eq!(far(&[edge]), None);
    }

    #[test]
    fn a_way_goes_on_to_the_next_one_of_which_something_is_decided() {
        let notes = [10, 20, 30].map(|ticks| Note::Moment {
            event: false,
            ticks,
            begin: 1000,
            end: 1000,
        });
        let decided = |what| move |w| (w == what).then_some(0);
        let far = |what| far_moment(notes.iter(), 1000, 7, &decided(what));
        assert_eq!(far(What::Way(9)), Some(20));
        assert_eq!(far(What::Moment(8)), Some(10));
        assert_eq!(far(What::Event(8)), Some(30));
    }

    #[test]
    fn a_short_way_is_gone_at_its_begin_and_a_long_one_up_to_where_it_is_late() {
        let way = (100, 120, 200);
        assert_eq!(pace(None, way, None), (None, true));
        assert_eq!(pace(Some(180), way, None), (Some(180), true));
        assert_eq!(pace(Some(110), way, None), (Some(110), false));
        assert_eq!(pace(Some(100), way, None), (Some(200), false));
        assert_eq!(pace(Some(180), way, Some(110)), (Some(110), false));
    }
}
