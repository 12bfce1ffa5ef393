//! The client reads the recorded program's files: the copies in the trace, by the paths that
//! they had, and nothing else of this machine.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
    HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
    HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps, HostIoResult, HostIoSetfs, HostIoSetfsOps,
    HostIoStat,
};

use crate::debuggee::Debuggee;
use crate::tables::portion;

/// Most files that a client may have open.
const MOST: usize = 256;

/// An open file.
pub struct Open(File);

impl HostIo for Debuggee {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl Debuggee {
    fn file(&self, fd: u32) -> Result<&File, HostIoError<relive_engine::Failure>> {
        match self.open.get(fd as usize) {
            Some(Some(open)) => Ok(&open.0),
            _ => Err(HostIoError::Errno(HostIoErrno::EBADF)),
        }
    }
}

impl HostIoOpen for Debuggee {
    fn open(
        &mut self,
        filename: &[u8],
        flags: HostIoOpenFlags,
        _mode: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        let writes = HostIoOpenFlags::O_WRONLY
            | HostIoOpenFlags::O_RDWR
            | HostIoOpenFlags::O_CREAT
            | HostIoOpenFlags::O_TRUNC;
        if flags.intersects(writes) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let Some(file) = self.files.open(filename) else {
            return Err(HostIoError::Errno(HostIoErrno::ENOENT));
        };
        let free = self.open.iter().position(Option::is_none);
        let at = free.unwrap_or(self.open.len());
        if at >= MOST {
            return Err(HostIoError::Errno(HostIoErrno::EMFILE));
        }
        if at == self.open.len() {
            self.open.push(None);
        }
        self.open[at] = Some(Open(file));
        Ok(at as u32)
    }
}

impl HostIoClose for Debuggee {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.file(fd)?;
        self.open[fd as usize] = None;
        Ok(())
    }
}

impl HostIoPread for Debuggee {
    fn pread(
        &mut self,
        fd: u32,
        count: usize,
        offset: u64,
        buf: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        let n = count.min(buf.len());
        Ok(self.file(fd)?.read_at(&mut buf[..n], offset)?)
    }
}

impl HostIoFstat for Debuggee {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let meta = self.file(fd)?.metadata()?;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: meta.ino() as u32,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: meta.len(),
            st_blksize: 4096,
            st_blocks: meta.len().div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

impl HostIoReadlink for Debuggee {
    fn readlink(&mut self, filename: &[u8], buf: &mut [u8]) -> HostIoResult<usize, Self> {
        let own = format!("/proc/{}/exe", self.status().pid);
        match filename == own.as_bytes() {
            true => Ok(portion(&self.program.0, 0, buf.len(), buf)),
            false => Err(HostIoError::Errno(HostIoErrno::ENOENT)),
        }
    }
}

impl HostIoSetfs for Debuggee {
    fn setfs(&mut self, _fs: FsKind) -> HostIoResult<(), Self> {
        // The recording has one view of the files.
        Ok(())
    }
}
