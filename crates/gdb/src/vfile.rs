//! The client reads the recorded program's files: the copies in the trace, by their recorded paths,
//! files of `/proc` for the recorded process (`proc_files`), and nothing else of this machine.

use std::os::unix::fs::{FileExt, MetadataExt};

use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
    HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
    HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps, HostIoResult, HostIoSetfs, HostIoSetfsOps,
    HostIoStat,
};

use crate::debuggee::Debuggee;
use crate::files::Open;
use crate::tables::portion;

/// Most files that a client may have open in one process; a descriptor divided by it is the
/// number of the process.
pub const MOST_OPEN: usize = 256;

/// The bytes of hexadecimal digits.
pub fn decode(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    digits.collect()
}

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
    fn file(&mut self, fd: u32) -> Result<&mut Option<Open>, HostIoError<relive_engine::Failure>> {
        let at = fd as usize % MOST_OPEN;
        let slot = self.open.get_mut(at).filter(|slot| slot.is_some());
        slot.ok_or(HostIoError::Errno(HostIoErrno::EBADF))
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
        let made_up = self.proc_file(filename).map_err(HostIoError::Fatal)?;
        let open = match made_up {
            Some(text) => Some(Open::Text(text)),
            None => self.files.open(filename).map(Open::Copy),
        };
        let Some(open) = open else {
            return Err(HostIoError::Errno(HostIoErrno::ENOENT));
        };
        let free = self.open.iter().position(Option::is_none);
        let at = free.unwrap_or(self.open.len());
        if at >= MOST_OPEN {
            return Err(HostIoError::Errno(HostIoErrno::EMFILE));
        }
        if at == self.open.len() {
            self.open.push(None);
        }
        self.open[at] = Some(open);
        Ok(self.number * MOST_OPEN as u32 + at as u32)
    }
}

impl HostIoClose for Debuggee {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        *self.file(fd)? = None;
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
        Ok(match self.file(fd)? {
            Some(Open::Copy(file)) => file.read_at(&mut buf[..n], offset)?,
            Some(Open::Text(text)) => portion(text, offset, n, buf),
            None => 0,
        })
    }
}

impl HostIoFstat for Debuggee {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let (inode, size) = match self.file(fd)? {
            Some(Open::Copy(file)) => {
                let meta = file.metadata()?;
                (meta.ino() as u32, meta.len())
            }
            Some(Open::Text(text)) => (0, text.len() as u64),
            None => (0, 0),
        };
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: inode,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

impl HostIoReadlink for Debuggee {
    fn readlink(&mut self, filename: &[u8], buf: &mut [u8]) -> HostIoResult<usize, Self> {
        let own = format!("/proc/{}/exe", self.pid);
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
