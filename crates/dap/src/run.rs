//! How a recording goes on.

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it was recorded.
    Forward,
    /// The other one.
    Back,
}

/// How the recording goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where to.
    pub way: Way,
    /// What was ordered.
    pub order: Order,
}

/// What was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To go on until something is met.
    Go,
    /// A step.
    Step,
    /// To go to a place.
    Leap,
    /// Something at gdb's console.
    Console,
}

impl Run {
    /// By a command of gdb's console, which may be any.
    pub const CONSOLE: Self = Self {
        way: Way::Forward,
        order: Order::Console,
    };

    /// To another place, past all that lies between.
    pub const GOTO: Self = Self {
        way: Way::Forward,
        order: Order::Leap,
    };

    /// Until something is met.
    pub fn go(way: Way) -> Self {
        Self {
            way,
            order: Order::Go,
        }
    }

    /// A step.
    pub fn step(way: Way) -> Self {
        Self {
            way,
            order: Order::Step,
        }
    }

    /// Whether it is the same run if it is interrupted and goes on: a step would forget where
    /// it began.
    pub fn may_be_interrupted(self) -> bool {
        self.order == Order::Go
    }
}
