//! The encoding of newer ioctl requests: ioctl(2), `<asm-generic/ioctl.h>`.

/// Direction of the argument of an encoded request, as its author saw it: from user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoctlDir {
    /// `_IO`: no argument, or a value. Also every old request, with a number that encodes nothing.
    None,
    /// `_IOW`: the kernel reads.
    Write,
    /// `_IOR`: the kernel writes.
    Read,
    /// `_IOWR`: both.
    Both,
}

/// Direction and size in bytes that a request number encodes.
///
/// For messages only. Authors got it wrong too often to trust it with memory (the request
/// `FS_IOC_GETFLAGS` says 8 bytes and 4 are written), which is why unlisted requests are refused.
pub const fn ioc_decode(request: u32) -> (IoctlDir, u32) {
    let dir = match request >> 30 {
        0 => IoctlDir::None,
        1 => IoctlDir::Write,
        2 => IoctlDir::Read,
        _ => IoctlDir::Both,
    };
    (dir, request >> 16 & 0x3fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_header_has_them() {
        assert_eq!(ioc_decode(0x802c_542a), (IoctlDir::Read, 44));
        assert_eq!(ioc_decode(0x4020_940d), (IoctlDir::Write, 32));
        assert_eq!(ioc_decode(0xc018_5879), (IoctlDir::Both, 24));
        assert_eq!(ioc_decode(0x5401), (IoctlDir::None, 0));
    }
}
