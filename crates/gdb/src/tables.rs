//! Data that a client reads in portions: the target description, the program's path, the auxiliary
//! vector, a thread's name.

use gdbstub::common::{Pid, Tid};
use gdbstub::target::ext::auxv::Auxv;
use gdbstub::target::ext::exec_file::ExecFile;
use gdbstub::target::ext::target_description_xml_override::TargetDescriptionXmlOverride;
use gdbstub::target::ext::thread_extra_info::ThreadExtraInfo;
use gdbstub::target::{TargetError, TargetResult};
use relive_engine::Failure;
use relive_engine::timeline::Thread;

use crate::debuggee::Debuggee;

/// Errno for a missing description.
const ENOENT: u8 = 2;

/// The requested part of `all`.
pub fn portion(all: &[u8], offset: u64, length: usize, buf: &mut [u8]) -> usize {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
    let n = length.min(buf.len()).min(all.len() - from);
    buf[..n].copy_from_slice(&all[from..from + n]);
    n
}

impl TargetDescriptionXmlOverride for Debuggee {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::Errno(ENOENT));
        }
        Ok(portion(self.description.as_bytes(), offset, length, buf))
    }
}

impl ExecFile for Debuggee {
    fn get_exec_file(
        &self,
        _pid: Option<Pid>,
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        Ok(portion(&self.program.0, offset, length, buf))
    }
}

impl Auxv for Debuggee {
    fn get_auxv(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(portion(&self.auxv, offset, length, buf))
    }
}

impl ThreadExtraInfo for Debuggee {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, Failure> {
        let same = |t: &&Thread| t.tid as usize == tid.get();
        let thread = self.threads.iter().find(same);
        let text = thread.map_or_else(String::new, |t| {
            let process = self.status().process;
            format!("{} p{process}.t{}", t.name, t.index)
        });
        Ok(portion(text.as_bytes(), 0, buf.len(), buf))
    }
}
