//! The engine: sessions that record and replay, guest threads, the guest's memory map,
//! signals and system calls.
//!
//! A host process (`boot`) runs guest threads as [`task::Task`]s: `live` loops really run
//! them, `replay` runs them from their tapes. Both hand the stops of translated code to
//! `stops`, system calls to `kernel`, signals to `signals`. The `supervisor` is the process
//! beside it that writes the trace.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod alarms;
pub mod allocator;
pub mod boot;
mod brief_process;
mod broker;
mod call;
mod closed_page;
mod confined;
mod copy_notes;
mod course;
mod cpuid;
mod descriptor;
mod descriptor_kinds;
mod descriptor_limit;
mod difference;
mod elapsed;
mod encoding;
mod ended;
mod exits;
pub mod explore;
pub mod failure;
mod file_copies;
mod file_table;
mod flow;
mod forbidden;
mod guide;
mod ids;
mod image;
mod image_stream;
mod inherit;
mod input;
mod instr;
mod kept_files;
mod kernel;
mod learnt_sites;
mod lines;
mod loader;
mod logging;
mod machine;
mod map_names;
mod memfd;
mod memory;
mod messages;
mod mode;
mod modes;
mod ordered_sites;
mod own_descriptors;
mod proc_stat;
mod process;
mod ptrace;
mod readings;
mod received;
mod registry;
mod remarks;
mod resource_limits;
mod retained_fds;
mod seccomp;
mod section;
mod sections;
mod session_state;
mod sharing;
mod shm;
mod sigaction;
mod siginfo;
mod signals;
mod space;
mod spin;
mod stack_limit;
mod start_data;
pub mod stats;
mod streams;
pub mod supervisor;
mod tape;
mod task;
#[cfg(test)]
mod testing;
pub mod timeline;
mod traced;
mod translations;
mod trap_flag;
mod vdso;
mod vforked;

pub use descriptor_limit::for_command as raise_descriptor_limit;
pub use failure::{EXIT_STATUS, Failure, FailureClass};
pub use instr::name as instruction_name;
pub use readings::name as clock_name;
pub use relive_host::signal::die_of;
pub use translations::store::chosen as kept_folder;
