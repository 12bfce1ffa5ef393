//! A run of the recording: direction and order.

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In recorded order.
    Forward,
    /// In reverse.
    Back,
}

/// A run of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The direction.
    pub way: Way,
    /// The order given.
    pub order: Order,
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Run until an event stops it.
    Go,
    /// A step.
    Step,
    /// Go to a place.
    Leap,
    /// A command at gdb's console.
    Console,
}

impl Run {
    /// Any command of gdb's console.
    pub const CONSOLE: Self = Self {
        way: Way::Forward,
        order: Order::Console,
    };

    /// To another place, without stops on the way.
    pub const GOTO: Self = Self {
        way: Way::Forward,
        order: Order::Leap,
    };

    /// Runs until an event stops it.
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

    /// Whether it stays the same run when it is interrupted and resumed: a step would lose its
    /// start.
    pub fn may_be_interrupted(self) -> bool {
        self.order == Order::Go
    }
}
