//! Whether a call sleeps, and whether it waits with a limit, by the descriptors that it moves bytes
//! between.

use relive_kabi::Transfer;
use rustix::net::sockopt::{Timeout, socket_timeout};

use crate::call::Call;
use crate::descriptor;
use crate::input::descriptors::is_regular;
use crate::task::Task;

/// Whether a call that may sleep by its row may sleep on these descriptors. A call that only moves
/// bytes to and from regular files does not, and need not cost a switch.
pub fn may_sleep(task: &Task, call: &Call) -> bool {
    if task.log.keeps_baton {
        return false;
    }
    if !task.mode().others_see(task) {
        return true;
    }
    let mut ends = ends(call).map(|(fd, _)| is_regular(task, fd));
    match ends.next() {
        None => true,
        Some(first) => !first || !ends.all(|regular| regular),
    }
}

/// The descriptors that a call reads from or writes to, each with the socket option that limits how
/// long the call waits there.
fn ends(call: &Call) -> impl Iterator<Item = (i32, Timeout)> {
    let end = |column: Transfer, option: Timeout| Some((call.arg(column.fd()?) as i32, option));
    let input = call.row.and_then(|r| end(r.input, Timeout::Recv));
    let output = call.row.and_then(|r| end(r.output, Timeout::Send));
    input.into_iter().chain(output)
}

/// Whether a call waits on a socket for as long as SO_RCVTIMEO or SO_SNDTIMEO allows: then it is
/// never made again (signal(7)).
pub fn times_out(call: &Call) -> bool {
    ends(call).any(|(fd, option)| limits_waits(fd, option))
}

/// Whether the option of a socket limits how long calls wait.
fn limits_waits(fd: i32, option: Timeout) -> bool {
    // Fails on a file that is no socket.
    let limit = descriptor::borrow(fd).and_then(|fd| socket_timeout(fd, option).ok());
    limit.flatten().is_some()
}
