//! The process as gdbstub's target: which of its parts the protocol reaches, registers and memory.

use gdbstub::common::{Pid, Tid};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{MultiThreadBase, MultiThreadResumeOps};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::extended_mode::{
    Args, AttachKind, CurrentActivePid, ExtendedMode, ShouldTerminate,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use relive_engine::Failure;

use crate::arch::{Amd64, Block, Number, set, value};
use crate::debuggee::{Debuggee, EFAULT, EINVAL, ESRCH, tid};

impl Target for Debuggee {
    type Arch = Amd64;
    type Error = Failure;

    fn base_ops(&mut self) -> BaseOps<'_, Amd64, Failure> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(
        &mut self,
    ) -> Option<gdbstub::target::ext::breakpoints::BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<
        gdbstub::target::ext::target_description_xml_override::TargetDescriptionXmlOverrideOps<
            '_,
            Self,
        >,
    > {
        Some(self)
    }

    fn support_exec_file(
        &mut self,
    ) -> Option<gdbstub::target::ext::exec_file::ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<gdbstub::target::ext::auxv::AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<gdbstub::target::ext::host_io::HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(
        &mut self,
    ) -> Option<gdbstub::target::ext::monitor_cmd::MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_catch_syscalls(
        &mut self,
    ) -> Option<gdbstub::target::ext::catch_syscalls::CatchSyscallsOps<'_, Self>> {
        Some(self)
    }

    fn support_host_info(
        &mut self,
    ) -> Option<gdbstub::target::ext::host_info::HostInfoOps<'_, Self>> {
        Some(self)
    }

    fn support_process_info(
        &mut self,
    ) -> Option<gdbstub::target::ext::process_info::ProcessInfoOps<'_, Self>> {
        Some(self)
    }

    fn support_extended_mode(
        &mut self,
    ) -> Option<gdbstub::target::ext::extended_mode::ExtendedModeOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debuggee {
    fn read_registers(&mut self, regs: &mut Block, tid: Tid) -> TargetResult<(), Self> {
        let guest = self.registers_of(tid)?;
        regs.0 = self
            .registers
            .iter()
            .flat_map(|r| value(r, &guest))
            .collect();
        Ok(())
    }

    fn write_registers(&mut self, regs: &Block, tid: Tid) -> TargetResult<(), Self> {
        let mut guest = self.registers_of(tid)?;
        let mut rest = &regs.0[..];
        for register in &self.registers {
            if !set(register, &mut guest, rest) {
                break;
            }
            rest = &rest[register.size..];
        }
        self.set_registers_of(tid, &guest)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        let bytes = self.timeline.guest().read(start, data.len() as u64);
        let bytes = self.survive(bytes)?;
        if bytes.is_empty() && !data.is_empty() {
            return Err(TargetError::Errno(EFAULT));
        }
        data[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        let guest = self.timeline.changeable().map_err(TargetError::Fatal)?;
        let written = guest.write(start, data);
        match self.survive(written)? {
            true => Ok(()),
            false => Err(TargetError::Errno(EFAULT)),
        }
    }

    fn list_active_threads(&mut self, each: &mut dyn FnMut(Tid)) -> Result<(), Failure> {
        if !self.killed {
            self.threads.iter().for_each(|t| each(tid(t.tid)));
        }
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(
        &mut self,
    ) -> Option<gdbstub::target::ext::thread_extra_info::ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Debuggee {
    fn read_register(
        &mut self,
        tid: Tid,
        reg_id: Number,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let guest = self.registers_of(tid)?;
        let register = self.registers.get(reg_id.0);
        let bytes = value(register.ok_or(TargetError::Errno(EINVAL))?, &guest);
        let n = bytes.len().min(buf.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn write_register(&mut self, tid: Tid, reg_id: Number, val: &[u8]) -> TargetResult<(), Self> {
        let mut guest = self.registers_of(tid)?;
        let register = self.registers.get(reg_id.0);
        let register = register.ok_or(TargetError::Errno(EINVAL))?;
        if !set(register, &mut guest, val) {
            return Err(TargetError::Errno(EINVAL));
        }
        self.set_registers_of(tid, &guest)
    }
}

impl ExtendedMode for Debuggee {
    fn on_start(&mut self) -> Result<(), Failure> {
        self.extended = true;
        Ok(())
    }

    fn run(&mut self, _: Option<&[u8]>, _: Args<'_, '_>) -> TargetResult<Pid, Self> {
        // The client's program and arguments are ignored: the restart is of the recorded run.
        self.restart().map_err(TargetError::Fatal)?;
        self.killed = false;
        Ok(tid(self.pid))
    }

    fn attach(&mut self, pid: Pid) -> TargetResult<(), Self> {
        match pid == tid(self.pid) {
            true => Ok(()),
            false => Err(TargetError::Errno(ESRCH)),
        }
    }

    fn query_if_attached(&mut self, _: Pid) -> TargetResult<AttachKind, Self> {
        // A client that disconnects then detaches instead of killing the process.
        Ok(AttachKind::Attach)
    }

    fn kill(&mut self, pid: Option<Pid>) -> TargetResult<ShouldTerminate, Self> {
        if pid.is_some_and(|pid| pid != tid(self.pid)) {
            return Err(TargetError::Errno(ESRCH));
        }
        // An extended client may restart it; if it disconnects instead, that is the end.
        self.killed = true;
        Ok(match self.extended {
            true => ShouldTerminate::No,
            false => ShouldTerminate::Yes,
        })
    }

    fn restart(&mut self) -> Result<(), Failure> {
        self.timeline.goto_start()?;
        (self.at_signal, self.owed, self.met) = (false, None, None);
        (self.astray, self.finished) = (None, None);
        self.look()
    }

    fn support_current_active_pid(
        &mut self,
    ) -> Option<gdbstub::target::ext::extended_mode::CurrentActivePidOps<'_, Self>> {
        Some(self)
    }
}

impl CurrentActivePid for Debuggee {
    fn current_active_pid(&mut self) -> Result<Pid, Failure> {
        Ok(tid(self.pid))
    }
}
