//! The index that a long recording gets in the background of its first debugger, so that the next one opens it anywhere at
//! once. Must never hold the debugger up, nor fail it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use relive_trace::{ImageSet, Trace};
use rustix::fs::statvfs;
use rustix::process::{nice, setsid};

use crate::output;

/// Recordings that are replayed within a few seconds need none.
const TICKS: u64 = 1 << 30;
/// Many events take long too.
const EVENTS: u64 = 1 << 20;
/// Bytes of an index, at most.
const MOST: u64 = 1 << 30;
/// Of the room that there is on disk, the part that it may take.
const PART: u64 = 10;
/// Debuggers come first.
const NICE: i32 = 10;

/// Begins to make one, if the recording would profit from it and has none. It ends by itself.
pub fn begin(trace: &Trace) {
    let folder = trace.directory();
    let summary = trace.manifest().summary.as_ref();
    let long = summary.is_some_and(|all| all.ticks >= TICKS || all.events >= EVENTS);
    // One without images is there too: they would not help.
    let there = ImageSet::Index.folder(folder).exists();
    let Some(room) = statvfs(folder).ok().filter(|_| long && !there) else {
        return;
    };
    let most = MOST.min(room.f_bavail.saturating_mul(room.f_frsize) / PART);
    let mut command = Command::new("/proc/self/exe");
    command.arg0("relive").arg("index").arg(folder);
    command.arg("--max-size").arg(most.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // Another one may make it just now.
    command.stderr(Stdio::null());
    // SAFETY: both are system calls, which may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // The keyboard's signals are the debugger's.
            setsid()?;
            // It is only slower for others without it.
            let _ = nice(NICE);
            Ok(())
        })
    };
    if command.spawn().is_ok() {
        output::tell(
            "an index is being made in the background: the next debugger opens this recording anywhere at once (--no-index: not)",
        );
    }
}
