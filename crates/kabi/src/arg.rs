//! The vocabulary for one argument of a system call: its printed form and the memory that it names.
//! Descriptions only; how a length becomes a number of bytes is in `eval`.

/// The length of a buffer. Indexes name the call's own arguments, 0 to 5.
///
/// A length is taken at one of two moments: a *capacity* before the call, a *written* length after
/// it. A length that depends on memory reads the memory of that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Len {
    /// A constant number of bytes.
    Fixed(u32),
    /// The value of that argument, in bytes.
    Arg(u8),
    /// The value of that argument times an element size in bytes.
    ArgTimes(u8, u32),
    /// The value of that argument plus this many bytes (a System V message and its type word).
    ArgPlus(u8, u32),
    /// The `u32` behind the pointer in that argument.
    Deref32(u8),
    /// The `u64` behind the pointer in that argument.
    Deref64(u8),
    /// The result of the call, in bytes; nothing when the call failed.
    Ret,
    /// The result of the call times an element size in bytes.
    RetTimes(u32),
    /// The result of the call plus this many bytes.
    RetPlus(u32),
    /// A rule of its own.
    Special(Special),
}

/// Lengths that follow a rule of their own. The index names the argument that the rule reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// An `fd_set` that holds this many descriptors, in whole 64-bit words: select(2). The argument
    /// is the `nfds` of the call. The kernel may use less (never more) when the process has
    /// a smaller descriptor table.
    FdSet(u8),
    /// An array of `struct pollfd`, of this many elements: poll(2).
    PollFds(u8),
    /// One byte for each page of a range; that argument is its length in bytes: mincore(2).
    Pages(u8),
    /// `struct file_handle`; its first `u32` is the number of bytes after its 8-byte header:
    /// open_by_handle_at(2). The argument is the pointer to the handle itself.
    FileHandle(u8),
    /// A node mask of `maxnode - 1` bits, in whole 64-bit words: get_mempolicy(2). The argument
    /// is `maxnode`.
    NodeMask(u8),
    /// `struct __user_cap_data_struct`, once or twice after the version in the header: capget(2).
    /// The argument is the pointer to the header.
    CapData(u8),
    /// `struct fiemap` with room for its `fm_extent_count` extents. The argument is the pointer.
    Extents(u8),
    /// The same with its `fm_mapped_extents` extents.
    ExtentsFound(u8),
    /// `struct file_dedupe_range` with its `dest_count` targets. The argument is the pointer.
    Targets(u8),
    /// A mount identifier: 8 bytes with `AT_HANDLE_MNT_ID_UNIQUE` among the flags, else 4:
    /// open_by_handle_at(2). The argument is the flags.
    MountId(u8),
    /// A structure that says in its first `u32` how long it is: statmount(2). The argument is the pointer.
    SizeInside(u8),
}

/// Direction of the bytes, seen from the kernel: `In` is read by it, `Out` written by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// The kernel reads.
    In,
    /// The kernel writes.
    Out,
    /// The kernel reads and then writes.
    InOut,
}

impl Dir {
    /// Whether the kernel writes into this memory.
    pub const fn written(self) -> bool {
        matches!(self, Dir::Out | Dir::InOut)
    }
}

/// The results with which the kernel writes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Only when the call succeeds (the result is not an error).
    Success,
    /// Only when the call fails: the time left of an interrupted nanosleep(2).
    Failure,
    /// Either way: the `revents` of poll(2), the timeout of pselect(2).
    Always,
}

impl Written {
    /// Whether a call that returned `ret` (a result, or a negative errno) wrote the buffer.
    pub const fn after(self, ret: i64) -> bool {
        let failed = ret < 0 && ret >= -4095;
        match self {
            Written::Success => !failed,
            Written::Failure => failed,
            Written::Always => true,
        }
    }
}

/// One argument of a system call.
///
/// Every pointer may be NULL: the engine then skips it, before looking at any length. A pointer may
/// also be bad, or its length may reach beyond mapped memory although the kernel accepts less: the
/// engine captures memory with a fault-tolerant copy.
///
/// The variants up to `Addr` are plain values ([`Arg::is_value`]). They differ in how they print and
/// in the width of the kernel's parameter: the upper half of the register is garbage for a 32-bit
/// parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// `int`, 32 bits, signed decimal.
    Int,
    /// `unsigned int`, 32 bits, decimal.
    Uint,
    /// 64 bits, hexadecimal.
    Hex,
    /// `size_t` or `unsigned long`, 64 bits, decimal.
    Size,
    /// `loff_t` or `long`, 64 bits, signed decimal.
    Off,
    /// A file descriptor, 32 bits. The engine answers EBADF for one of its own.
    Fd,
    /// A file descriptor that may also be `AT_FDCWD`, 32 bits.
    DirFd,
    /// A process, thread, process group or session identifier, 32 bits.
    Pid,
    /// A signal number, 32 bits.
    Sig,
    /// Permission bits, 32 bits, octal.
    Mode,
    /// A set of flags, up to 64 bits; [`crate::flags::of_arg`] knows the names of some.
    Flags,
    /// An address that the kernel does not write through, or that a hook handles.
    Addr,
    /// A NUL-terminated path or string that the kernel reads.
    Str,
    /// A NULL-terminated array of strings that the kernel reads: `argv`, `envp`.
    StrVec,
    /// A flat buffer.
    Buf {
        /// Whether the kernel reads or writes it.
        dir: Dir,
        /// Taken before the call: the bytes that the kernel may read or write.
        cap: Len,
        /// Taken after the call: the bytes that the kernel wrote, never more than `cap` (a
        /// truncated answer reports its full length, so the engine takes the smaller one).
        /// `Fixed(0)` where `dir` is `In`.
        out: Len,
        /// The results with which it is written.
        when: Written,
    },
    /// An array of `struct iovec`; the kernel only reads the array itself. With `Out` or `InOut`
    /// the result is the number of bytes spread over the buffers in order.
    Iovec {
        /// Direction of the bytes in the buffers.
        dir: Dir,
        /// The argument with the number of elements.
        count: u8,
    },
    /// One `struct msghdr`. With `Out` the kernel fills name, control data and the buffers of
    /// the inner `iovec` array (the result's bytes, not more than they hold), and rewrites
    /// `msg_namelen`, `msg_controllen` and `msg_flags` in the header.
    Msghdr {
        /// `In` to send, `Out` to receive.
        dir: Dir,
    },
    /// An array of `struct mmsghdr`. The result is the number of elements used, from the first one
    /// on: each has its `msg_len` written with either direction, and with `Out` all that
    /// [`Arg::Msghdr`] describes, for `msg_len` bytes.
    Mmsghdr {
        /// `In` to send, `Out` to receive.
        dir: Dir,
        /// The argument with the number of elements.
        count: u8,
    },
    /// A structure of an `int` and, at offset 8, an address: `struct ifconf` of netdevice(7). The
    /// kernel fills a buffer there of that many bytes and sets the number to the bytes written, or
    /// without an address to the bytes needed. Of calls that do not sleep only.
    LengthAndBuffer,
    /// A signal mask that replaces the thread's own while the call sleeps (ppoll, epoll_pwait). The
    /// kernel must not see the guest's mask: the engine passes its own.
    TempMask {
        /// The argument with the size of the mask in bytes.
        size: u8,
    },
    /// As [`Arg::TempMask`], behind one more pointer: the sixth argument of pselect6 points to
    /// the address and the size of the mask.
    TempMaskPair,
    /// Depends on the request: see [`crate::Row::choice`] and [`crate::Sub::arg`].
    Select,
    /// The kernel ignores the register.
    Unused,
}

impl Arg {
    /// Whether it is a plain number and no pointer.
    #[must_use]
    pub const fn is_value(self) -> bool {
        matches!(
            self,
            Self::Int
                | Self::Uint
                | Self::Hex
                | Self::Size
                | Self::Off
                | Self::Fd
                | Self::DirFd
                | Self::Pid
                | Self::Sig
                | Self::Mode
                | Self::Flags
                | Self::Unused
        )
    }
}
