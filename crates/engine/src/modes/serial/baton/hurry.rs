//! The patience of a thread that waits for its turn, as plain data. Must never know the baton.

/// Milliseconds that a turn may go on while others wait. The longest slices of plain code take as long.
const PATIENCE: u32 = 10;
/// Of many waiting threads those further behind look more seldom, up to so many times.
const MOST: u32 = 20;

/// The turn of which a waiting thread has seen the end not come yet.
#[derive(Default)]
pub struct Hurry {
    turn: Option<u64>,
    /// So many wait before it.
    before: u32,
}

impl Hurry {
    /// This turn was going on when the thread began to wait.
    pub fn since(turn: u64) -> Self {
        Self {
            turn: Some(turn),
            before: 0,
        }
    }

    /// Milliseconds up to the next look.
    pub fn moment(&self) -> u32 {
        PATIENCE * (1 + self.before).min(MOST)
    }

    /// The thread has waited for a moment, and sees this turn, with so many threads before it: whether that has gone on all the time.
    pub fn looks(&mut self, turn: u64, before: Option<usize>) -> bool {
        self.before = before.map_or(MOST, |before| before as u32);
        self.turn.replace(turn) == Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_goes_on_is_seen_at_the_second_look() {
        let mut hurry = Hurry::since(3);
        assert!(hurry.looks(3, Some(0)) && hurry.looks(3, Some(0)));
        assert!(!hurry.looks(5, Some(1)) && hurry.looks(5, Some(1)));
        assert!(!Hurry::default().looks(0, None));
    }

    #[test]
    fn those_further_behind_look_more_seldom() {
        let moment = |before| {
            let mut hurry = Hurry::default();
            hurry.looks(0, before);
            hurry.moment()
        };
        assert_eq!([moment(Some(0)), moment(Some(1))], [PATIENCE, 2 * PATIENCE]);
        assert_eq!([moment(Some(999)), moment(None)], [MOST * PATIENCE; 2]);
    }
}
