//! When the strings of a call are copied before all other steps ([`crate::call::strings`]): where other
//! threads run between the engine's look at them and the kernel's. Must never copy them elsewhere, at a
//! cost for nothing.

use crate::call::Call;
use crate::task::Task;

/// Copies the strings of a call, before it is examined, if other threads could change them.
pub fn begin(task: &mut Task, call: &Call) {
    // Where threads take turns, a call that may sleep gives the turn away before the kernel reads.
    let asleep = call.blocks() && task.mode().others_see(task);
    match asleep || task.has_company() {
        true => task.strings.take(call),
        false => task.strings.forget(),
    }
}

#[cfg(test)]
mod tests {
    use crate::call::strings::MAX;
    use crate::kernel::own;
    use crate::testing::Guest;

    const AT: u64 = 0x1000_4000_0000;
    const PAGE: u64 = 4096;

    fn guest(text: &[u8]) -> Guest {
        let mut guest = Guest::new();
        guest.map(AT, 3 * PAGE);
        guest.task.write(AT, text).expect("it is mapped");
        guest
    }

    /// The copied path of access(2), or whether it is endless; and the call's result.
    fn taken(guest: &mut Guest, at: u64) -> (Result<Vec<u8>, bool>, i64) {
        let call = guest.call(libc::SYS_access, &[at, 0]);
        guest.task.strings.take(&call);
        let mut text = Vec::new();
        let strings = &guest.task.strings;
        let read = strings.read(&call, 0, MAX, &mut text);
        let text = read.map_or_else(|_| Err(strings.is_endless(&call, 0)), |()| Ok(text));
        let result = guest.live(libc::SYS_access, &[at, 0]);
        (text, result.expect("it is let through"))
    }

    #[test]
    fn what_changes_behind_the_first_look_changes_nothing() {
        let mut guest = guest(b"/proc/self/fd\0");
        let args = [AT, 0];
        let call = guest.call(libc::SYS_access, &args);
        guest.task.strings.take(&call);
        guest
            .task
            .write(AT, b"/there is none")
            .expect("it is mapped");
        let mut text = Vec::new();
        let read = guest.task.strings.read(&call, 0, MAX, &mut text);
        assert_eq!((read.is_ok(), &text[..]), (true, &b"/proc/self/fd"[..]));
        assert_eq!(guest.task.strings.head(&call, 0), Some(*b"/proc"));
        assert_eq!(guest.live(libc::SYS_access, &args).ok(), Some(0));
        guest.task.strings.forget();
        let missing = -i64::from(libc::ENOENT);
        assert_eq!(guest.live(libc::SYS_access, &args).ok(), Some(missing));
        assert_eq!(own::refuses(&guest.task, &call), None);
    }

    #[test]
    fn a_call_that_may_sleep_has_its_path_from_before_its_sleep() {
        let mut guest = guest(b"/proc/self/fd\0");
        guest.mode().does_meanwhile(|task| {
            let changed = task.write(AT, b"/there is none");
            changed.expect("it is mapped");
        });
        let args = [AT, libc::O_PATH as u64];
        let call = guest.call(libc::SYS_open, &args);
        super::begin(&mut guest.task, &call);
        let opened = guest.live(libc::SYS_open, &args).expect("it is allowed");
        assert!(opened >= 0, "{opened}");
        guest.task.strings.forget();
        let close = guest.live(libc::SYS_close, &[opened as u64]);
        assert_eq!(close.ok(), Some(0));
    }

    #[test]
    fn the_kernel_says_of_long_paths_what_it_says_of_the_guests() {
        let mut guest = guest(&[b'/'; 2 * PAGE as usize]);
        let long = (Err(true), -i64::from(libc::ENAMETOOLONG));
        assert_eq!(taken(&mut guest, AT), long);
        let end = AT + 2 * PAGE;
        assert_eq!(taken(&mut guest, end - PAGE), long);
        let fits = vec![b'/'; MAX - 1];
        assert_eq!(taken(&mut guest, end - PAGE + 1), (Ok(fits), 0));
        assert_eq!(
            taken(&mut guest, end),
            (Ok(Vec::new()), -i64::from(libc::ENOENT))
        );
    }

    #[test]
    fn how_openat2_opens_is_read_once() {
        let mut guest = guest(b"/\0");
        let how = [libc::O_PATH as u64, 0, libc::RESOLVE_IN_ROOT].map(u64::to_le_bytes);
        let at = AT + PAGE;
        guest
            .task
            .write(at, how.as_flattened())
            .expect("it is mapped");
        let call = guest.call(libc::SYS_openat2, &[u64::MAX - 99, AT, at, 24]);
        guest.task.strings.take(&call);
        guest.task.write(at, &[0; 24]).expect("it is mapped");
        let strings = &guest.task.strings;
        let opening = call.opening().expect("it opens a file");
        assert_eq!(strings.open_flags(&call, opening), libc::O_PATH as u64);
        assert_eq!(strings.word(&call, 2, 16), Some(libc::RESOLVE_IN_ROOT));
        assert_eq!(strings.word(&call, 2, 24), None);
        let mut args = call.args;
        strings.point(&mut args);
        assert_ne!((args[1], args[2]), (AT, at));
    }
}
