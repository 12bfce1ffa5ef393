//! Setting up a program image in an empty guest: the same code for record and replay.

use relive_host::{Context, Reg};
use relive_trace::{FileId, Image, MapKind};

use crate::failure::{Failure, Result, answered};
use crate::map_names::VDSO;
use crate::memory::{Memory, Source};
use crate::space::{Region, RegionTraits};

/// Makes the maps and writes of `image`, and sets the first registers.
///
/// `open` gives a host descriptor for a file that a map names.
///
/// # Errors
/// The kernel refuses a map, or a file cannot be opened.
pub fn apply(
    image: &Image,
    memory: &mut Memory,
    ctx: &mut Context,
    mut open: impl FnMut(FileId) -> Result<i32>,
) -> Result<()> {
    for op in &image.maps {
        let (source, offset, copy) = match op.kind {
            MapKind::Anon => (Source::Anon, 0, None),
            MapKind::File { file, offset } => {
                (Source::File(open(file)?, offset), offset, Some(file))
            }
        };
        let region = Region {
            start: op.addr,
            end: op.addr + op.len,
            prot: u32::from(op.prot),
            shared: false,
            common: false,
            name: op.name.as_str().into(),
            offset,
            inode: u64::from(!op.name.is_empty() && op.name != VDSO),
            copy,
            traits: RegionTraits::default(),
        };
        answered(memory.map(region, source))?.map_err(|e| {
            Failure::setup(format!(
                "cannot map {} at {:#x}: errno {}",
                op.name, op.addr, -e
            ))
        })?;
    }
    for (addr, bytes) in &image.writes {
        // An address that is mapped can be written, if there is memory for it.
        memory.poke(*addr, bytes)?.map_err(|e| {
            let mapped = memory.space.at(e.0.0).is_some();
            Failure::setup(if mapped {
                format!("no memory can be had for the program at {}: lift the limits on it (`ulimit -d unlimited`)", e.0)
            } else {
                format!("the recording is damaged: its program begins with a write to {}, where nothing is mapped", e.0)
            })
        })?;
    }
    memory.space.brk = (image.brk, image.brk);
    ctx.gpr = [0; 16];
    ctx.rflags = 0x202;
    ctx.vectors_mut().reset();
    (ctx.guest_fs, ctx.guest_gs) = (0, 0);
    ctx.rip = image.rip;
    ctx.set_reg(Reg::Rsp, image.rsp);
    Ok(())
}
