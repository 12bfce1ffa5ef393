//! LLDB's queries beyond gdb's protocol, when it has not been given the program.

use gdbstub::common::Endianness;
use gdbstub::target::ext::host_info::{HostInfo, HostInfoResponse};
use gdbstub::target::ext::process_info::{ProcessInfo, ProcessInfoResponse};
use relive_engine::Failure;

use crate::debuggee::{Debuggee, tid};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const POINTER: usize = 8;

impl HostInfo for Debuggee {
    fn host_info(&self, write_item: &mut dyn FnMut(&HostInfoResponse<'_>)) -> Result<(), Failure> {
        write_item(&HostInfoResponse::Triple(TRIPLE));
        write_item(&HostInfoResponse::Endianness(Endianness::Little));
        write_item(&HostInfoResponse::PointerSize(POINTER));
        Ok(())
    }
}

impl ProcessInfo for Debuggee {
    fn process_info(
        &self,
        write_item: &mut dyn FnMut(&ProcessInfoResponse<'_>),
    ) -> Result<(), Failure> {
        write_item(&ProcessInfoResponse::Pid(tid(self.pid)));
        write_item(&ProcessInfoResponse::Triple(TRIPLE));
        write_item(&ProcessInfoResponse::Endianness(Endianness::Little));
        write_item(&ProcessInfoResponse::PointerSize(POINTER));
        Ok(())
    }
}
