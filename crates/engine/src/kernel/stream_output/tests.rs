//! Output that no replay could write again: the kernel says that it wrote bytes that are nowhere.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

use libc::SYS_write;

use crate::streams::OUT;
use crate::testing::Guest;

const AT: u64 = 0x1000_9000_0000;
/// Outside of all guest memory.
const NOWHERE: u64 = 0x5500_0000;

#[test]
fn bytes_that_nobody_has_read_are_no_output() {
    let mut guest = Guest::new();
    guest.map(AT, 0x1000);
    guest.is_recorded();
    let null = OpenOptions::new().write(true).open("/dev/null");
    let null = null.expect("each system has it");
    let fd = null.as_raw_fd();
    guest.task.process.state().streams.leads(fd, OUT);
    for (at, is_output) in [(AT, true), (NOWHERE, false)] {
        let result = guest.live(SYS_write, &[fd as u64, at, 8]);
        assert_eq!(result.ok(), Some(8), "null(4) reads nothing");
        let log = &guest.task.log;
        let found = (log.order.is_some(), log.stream != 0);
        assert_eq!(found, (is_output, is_output), "{at:#x}");
    }
}
