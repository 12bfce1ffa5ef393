//! Arguments: the lengths and counts that a row names are arguments of the right kind.

use crate::arg::{Arg, Dir, Len, Special};

pub(super) const fn argument(arg: Arg, args: &[Arg]) {
    match arg {
        Arg::Buf { dir, cap, out, .. } => {
            length(cap, args);
            length(out, args);
            assert!(
                !matches!(cap, Len::Ret | Len::RetTimes(_) | Len::RetPlus(_)),
                "the result is not known before the call"
            );
            assert!(
                dir.written() || matches!(out, Len::Fixed(0)),
                "a buffer that the kernel only reads is not written"
            );
        }
        Arg::Iovec { count, .. } | Arg::Mmsghdr { count, .. } => number(args, count),
        Arg::TempMask { size } => number(args, size),
        _ => {}
    }
}

const fn length(len: Len, args: &[Arg]) {
    match len {
        Len::Arg(index) | Len::ArgTimes(index, _) | Len::ArgPlus(index, _) => number(args, index),
        Len::Deref32(index) | Len::Deref64(index) => pointer(args, index),
        Len::Special(special) => match special {
            Special::FdSet(index)
            | Special::PollFds(index)
            | Special::Pages(index)
            | Special::NodeMask(index) => {
                number(args, index);
            }
            Special::FileHandle(index)
            | Special::CapData(index)
            | Special::Extents(index)
            | Special::ExtentsFound(index)
            | Special::SizeInside(index)
            | Special::Targets(index) => pointer(args, index),
            Special::MountId(index) => {
                assert!(
                    matches!(at_index(args, index), Arg::Flags),
                    "flags tell this length"
                );
            }
        },
        Len::Fixed(_) | Len::Ret | Len::RetTimes(_) | Len::RetPlus(_) => {}
    }
}

pub(super) const fn number(args: &[Arg], index: u8) {
    assert!(
        matches!(at_index(args, index), Arg::Int | Arg::Uint | Arg::Size),
        "a length or a count is a number"
    );
}

pub(super) const fn pointer(args: &[Arg], index: u8) {
    assert!(
        matches!(at_index(args, index), Arg::Buf { .. }),
        "a length behind a pointer"
    );
}

pub(super) const fn at_index(args: &[Arg], index: u8) -> Arg {
    assert!((index as usize) < args.len(), "no such argument");
    args[index as usize]
}

pub(super) const fn written(args: &[Arg], index: u8) -> bool {
    matches!(at_index(args, index), Arg::Buf { dir: Dir::Out, .. })
}

pub(super) const fn offset(args: &[Arg], index: u8) {
    assert!(
        matches!(at_index(args, index), Arg::Off),
        "an offset in a file"
    );
}
