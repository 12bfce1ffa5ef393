//! Calls that set up timers which send signals: made as they are, and noted for the search for deadlocks.

use super::generic::generic;
use super::operation::{Operation, Prepared};
use crate::alarms::ALARMS;
use crate::call::Call;
use crate::failure::Result;
use crate::task::Task;

/// alarm(2), setitimer(2), timer_create(2).
pub struct Timer;

impl Operation for Timer {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        if let Some(shm) = &task.machine().shm {
            ALARMS.of(shm).note();
        }
        generic(task, call)
    }
}

#[cfg(test)]
mod tests {
    use libc::{SYS_alarm, SYS_setitimer, SYS_timer_create, SYS_timer_delete};
    use relive_host::{GuestAddr, copy};

    use crate::alarms::{ALARMS, Alarms};
    use crate::testing::{Guest, machine};

    const AT: u64 = 0x1000_6000_0000;
    /// Outside of all guest memory.
    const NOWHERE: u64 = 0x5500_0000;
    const EFAULT: i64 = -(libc::EFAULT as i64);

    fn alarms() -> &'static Alarms {
        ALARMS.of(machine().shm.as_ref().expect("there is some"))
    }

    fn guest() -> Guest {
        let mut guest = Guest::new();
        alarms().forget();
        guest.map(AT, 0x1000);
        guest
    }

    #[test]
    fn a_timer_is_set_up_and_noted_where_the_call_is_made_only() {
        let mut guest = guest();
        for (nr, result) in [(SYS_alarm, 7), (SYS_setitimer, 0), (SYS_timer_create, 0)] {
            // No kernel would take these addresses.
            let told = guest.told(nr, &[3600, NOWHERE, NOWHERE], result, &[]);
            assert_eq!(told.ok(), Some(result));
        }
        assert!(!alarms().any());
        let left = guest.live(SYS_alarm, &[0]);
        assert_eq!(left.ok(), Some(0), "no alarm was set");
        assert!(alarms().any());
    }

    #[test]
    fn the_kernels_words_about_a_timer_are_noted_for_the_tape() {
        let mut guest = guest();
        let (event, id, old) = (AT, AT + 0x100, AT + 0x200);
        let mut none = [0; 64];
        none[12..16].copy_from_slice(&libc::SIGEV_NONE.to_le_bytes());
        copy::write(GuestAddr(event), &none).expect("it is mapped");
        copy::write(GuestAddr(id), &[0xff; 4]).expect("it is mapped");
        assert_eq!(guest.live(SYS_timer_create, &[0, event, id]).ok(), Some(0));
        assert_eq!(guest.task.log.spans, [(id, 4)]);
        let made = copy::read_array(GuestAddr(id)).expect("it is mapped");
        let delete = guest.live(SYS_timer_delete, &[u32::from_le_bytes(made).into()]);
        assert_eq!(delete.ok(), Some(0));
        // The new value, zeros, stops a timer that does not run.
        let result = guest.live(SYS_setitimer, &[0, AT + 0x300, old]);
        assert_eq!(result.ok(), Some(0));
        assert_eq!(guest.task.log.spans, [(old, 32)]);
    }

    #[test]
    fn the_kernels_words_about_a_refused_timer_are_noted_too() {
        const INVALID: i64 = -(libc::EINVAL as i64);
        let mut guest = guest();
        for (nr, args, errno, noted) in [
            // Some clocks refuse when the id is there.
            (SYS_timer_create, [99, 0, AT], INVALID, vec![(AT, 4)]),
            (SYS_timer_create, [0, NOWHERE, AT], EFAULT, vec![(AT, 4)]),
            (SYS_timer_create, [0, 0, NOWHERE], EFAULT, vec![]),
            (SYS_setitimer, [99, AT, AT + 0x100], INVALID, vec![]),
            (SYS_setitimer, [0, NOWHERE, AT], EFAULT, vec![(AT, 32)]),
        ] {
            guest.task.log.clear();
            assert_eq!(guest.live(nr, &args).ok(), Some(errno), "{args:x?}");
            let mut spans = guest.task.log.spans.clone();
            spans.retain(|span| span.1 != 0);
            assert_eq!(spans, noted, "{args:x?}");
        }
    }
}
