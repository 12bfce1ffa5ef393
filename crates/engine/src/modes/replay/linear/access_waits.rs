//! Where threads stop for the orders of accesses that a search has decided, from instruction to instruction. Must never
//! run anything.

use std::collections::BTreeSet;

use super::hints::AccessesInOrder;

/// How a thread goes on because of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessStop {
    /// Not as far as it would beyond this tick.
    Tick(u64),
    /// By one instruction.
    Step,
    /// When the thread of this index has made its access.
    Wait(u32),
}

/// Which accesses have been made.
#[derive(Default)]
pub struct AccessWaits {
    made: BTreeSet<AccessesInOrder>,
    /// A thread has stood in front of its access.
    reached: BTreeSet<AccessesInOrder>,
}

impl AccessWaits {
    /// What the orders mean for a thread that stands in front of this instruction.
    pub fn stop<'a>(
        &mut self,
        orders: impl Iterator<Item = &'a AccessesInOrder>,
        (thread, tick, pc): (u32, u64, u64),
    ) -> Option<AccessStop> {
        let mut stop = None;
        for order in orders {
            let place = match thread {
                _ if order.first.thread == thread => order.first,
                _ if order.second.thread == thread => order.second,
                _ => continue,
            };
            if place == order.first {
                let has_stood = self.reached.contains(order);
                let here = (place.tick, place.pc) == (tick, pc);
                if here {
                    self.reached.insert(*order);
                }
                if tick > place.tick || has_stood && !here {
                    self.made.insert(*order);
                }
            }
            if tick > place.tick || self.made.contains(order) {
                continue;
            }
            let new = match place == order.second && place.pc == pc {
                _ if tick < place.tick => AccessStop::Tick(place.tick),
                true => AccessStop::Wait(order.first.thread),
                false => AccessStop::Step,
            };
            stop = Some(match (stop, new) {
                (Some(AccessStop::Wait(other)), _) => AccessStop::Wait(other),
                (Some(AccessStop::Step), AccessStop::Tick(_)) => AccessStop::Step,
                (Some(AccessStop::Tick(one)), AccessStop::Tick(other)) => {
                    AccessStop::Tick(one.min(other))
                }
                (_, new) => new,
            });
        }
        stop
    }

    /// A thread has ended, with all that it did: nothing waits for it.
    pub fn has_ended<'a>(
        &mut self,
        orders: impl Iterator<Item = &'a AccessesInOrder>,
        thread: u32,
    ) {
        let its = orders.filter(|order| order.first.thread == thread);
        self.made.extend(its);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_thread_waits_until_the_first_has_made_its_access() {
        let orders = [AccessesInOrder::with(0, (1, 5, 100), (2, 7, 200))];
        let mut waits = AccessWaits::default();
        let mut stop = |thread, tick, pc| waits.stop(orders.iter(), (thread, tick, pc));
        assert_eq!(stop(0, 5, 100), None, "another thread");
        assert_eq!(stop(2, 3, 200), Some(AccessStop::Tick(7)));
        assert_eq!(stop(2, 7, 190), Some(AccessStop::Step));
        assert_eq!(stop(2, 7, 200), Some(AccessStop::Wait(1)));
        assert_eq!(stop(1, 4, 100), Some(AccessStop::Tick(5)));
        assert_eq!(stop(1, 5, 90), Some(AccessStop::Step));
        assert_eq!(stop(1, 5, 100), Some(AccessStop::Step));
        assert_eq!(stop(2, 7, 200), Some(AccessStop::Wait(1)), "not yet");
        assert_eq!(stop(1, 5, 104), None);
        assert_eq!(stop(2, 7, 200), None);
    }

    #[test]
    fn one_that_is_past_the_place_is_not_waited_for() {
        let orders = [AccessesInOrder::with(0, (1, 5, 100), (2, 7, 200))];
        let mut waits = AccessWaits::default();
        assert_eq!(waits.stop(orders.iter(), (1, 6, 0)), None);
        assert_eq!(waits.stop(orders.iter(), (2, 7, 200)), None);
        let mut waits = AccessWaits::default();
        waits.has_ended(orders.iter(), 1);
        assert_eq!(waits.stop(orders.iter(), (2, 7, 200)), None);
    }

    #[test]
    fn of_several_orders_the_nearest_one_counts() {
        let orders = [
            AccessesInOrder::with(0, (1, 5, 100), (2, 7, 200)),
            AccessesInOrder::with(0, (1, 9, 100), (2, 6, 200)),
            AccessesInOrder::with(0, (2, 7, 210), (1, 9, 300)),
        ];
        let mut waits = AccessWaits::default();
        let mut stop = |thread, tick, pc| waits.stop(orders.iter(), (thread, tick, pc));
        assert_eq!(stop(2, 0, 0), Some(AccessStop::Tick(6)));
        assert_eq!(stop(2, 6, 200), Some(AccessStop::Wait(1)));
        assert_eq!(stop(2, 7, 200), Some(AccessStop::Wait(1)));
    }
}
