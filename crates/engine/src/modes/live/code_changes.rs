//! Changes of files that the process maps shared, where no other process is asked: code that was translated
//! from them is translated anew.

use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::kernel::changed_files;
use crate::task::Task;

/// Makes a call by `make`, which may change files that are mapped.
///
/// # Errors
/// Those of `make`.
pub fn renew_code(
    task: &mut Task,
    call: &Call,
    make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
) -> Result<Reply> {
    let reply = make(task, call)?;
    // Most calls change no file, and need no look at the map.
    if let Reply::Value(result) = reply
        && changed_files::find(task, call).is_some()
        && task.machine().memory().space.has_shared_files()
        && let Some(file) = changed_files::changed(task, call, result)
    {
        let mut memory = task.machine().memory();
        let views = memory.space.shared_views(file, 0, u64::MAX);
        let views: Vec<(u64, u64)> = views.collect();
        for (start, end) in views {
            memory.code_changed(start, end)?;
        }
    }
    Ok(reply)
}
