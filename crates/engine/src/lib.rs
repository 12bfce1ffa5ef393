//! Sessions, tasks, address space, signals, system call hooks: what records and replays.
