//! The workloads: one row each. `docs/performance.md` lists the same rows, which a test compares.
//!
//! A word of a command line that begins with `@` names a file that [`crate::inputs`] made; the
//! first word is looked up on the fixed search path.

use crate::inputs::Input;

/// One workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Short name, unique; `--filter` searches it.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    /// Programs that it needs beside its own first word.
    pub needs: &'static [&'static str],
    /// Files that it needs.
    pub inputs: &'static [Input],
    /// The program to run.
    pub action: Action,
    /// Number of runs of the command for one sample: more than one for short ones.
    pub repeat: u32,
    /// The required output.
    pub output: Output,
    /// Limit on recorded CPU time over native: the project's own bar. For [`Action::Redis`] native
    /// throughput over recorded.
    pub bar: f64,
    /// Whether it counts in the geometric mean over CPU-bound programs.
    pub in_mean: bool,
    /// Whether other tools are measured on it: programs that start no others.
    pub peers: bool,
}

/// Limit on the cost of a recording on all cores: the project's own bar.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub enum CoresBar {
    /// It has none.
    None,
    /// Its CPU time over native.
    Cpu(f64),
    /// Its wall time over native.
    Wall(f64),
    /// Its CPU time is at most the serial recording's.
    Serial,
}

/// The program of a workload.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// A command, run to its end.
    Command {
        /// Program and arguments.
        argv: &'static [&'static str],
        /// The file on standard input; none for `/dev/null`.
        stdin: Option<&'static str>,
    },
    /// redis-server on loopback, driven by redis-benchmark (which always runs natively).
    Redis {
        /// Threads that read and write for it, its first one among them.
        io_threads: u32,
    },
}

/// The required output of a workload: a fast wrong run is not a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The same bytes in every mode.
    Same,
    /// Differs from run to run; a replay's must be its recording's.
    Varies,
    /// Too large to keep: goes to `/dev/null`.
    Discarded,
}

const DEFAULT: Workload = Workload {
    name: "",
    what: "",
    needs: &[],
    inputs: &[],
    action: command(&[]),
    repeat: 1,
    output: Output::Same,
    bar: 1.0,
    in_mean: false,
    peers: false,
};

const fn command(argv: &'static [&'static str]) -> Action {
    Action::Command { argv, stdin: None }
}

/// A computation by two threads.
const fn kernel(
    name: &'static str,
    what: &'static str,
    inputs: &'static [Input],
    argv: &'static [&'static str],
) -> Workload {
    Workload {
        name,
        what,
        needs: &["gcc"],
        inputs,
        action: command(argv),
        bar: 2.0,
        ..DEFAULT
    }
}

/// All rows, in the order in which they run and are shown.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "sort",
        what: "C: qsort of eight million numbers",
        needs: &["gcc"],
        inputs: &[Input::Program("sort", "-O2")],
        action: command(&["@sort"]),
        bar: 1.3,
        in_mean: true,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "fib",
        what: "C: recursive fib(38), three times",
        needs: &["gcc"],
        inputs: &[Input::Program("fib", "-O1")],
        action: command(&["@fib"]),
        bar: 1.3,
        in_mean: true,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "python-loop",
        what: "python3: a loop of about 3 s over objects, strings and dictionaries",
        inputs: &[Input::Script("loop.py")],
        action: command(&["python3", "-I", "@loop.py"]),
        bar: 1.3,
        in_mean: true,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "sqlite",
        what: "sqlite3: table, index, updates, join and aggregates over 600 000 rows in memory",
        inputs: &[Input::Script("script.sql")],
        action: Action::Command {
            argv: &["sqlite3", ":memory:"],
            stdin: Some("@script.sql"),
        },
        bar: 1.3,
        in_mean: true,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "xz",
        what: "xz -T1 -3 on 8 MiB of text",
        inputs: &[Input::Text("text-8", 8 << 20)],
        action: command(&["xz", "-T1", "-3", "-c", "@text-8"]),
        bar: 1.3,
        in_mean: true,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "cc1",
        what: "gcc's cc1 -O1 on 200 KB of C",
        needs: &["gcc"],
        inputs: &[Input::LargeSource("large.c", 200_000)],
        action: command(&["cc1", "-quiet", "-O1", "-o", "/dev/null", "@large.c"]),
        bar: 1.6,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "pigz",
        what: "pigz -p2 on 24 MiB of text",
        inputs: &[Input::Text("text-24", 24 << 20)],
        action: command(&["pigz", "-p2", "-n", "-c", "@text-24"]),
        bar: 1.25,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "xz-t2",
        what: "xz -T2 -3 on 8 MiB of text, in blocks of 2 MiB",
        inputs: &[Input::Text("text-8", 8 << 20)],
        action: command(&["xz", "-T2", "-3", "--block-size=2MiB", "-c", "@text-8"]),
        bar: 1.25,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "mutexes",
        what: "C: four threads on eight mutexes, 8 million lock operations",
        needs: &["gcc"],
        inputs: &[Input::Program("mutexes", "-O2")],
        action: command(&["@mutexes"]),
        bar: 1.5,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "getppid",
        what: "C: getppid, 5 million times",
        needs: &["gcc"],
        inputs: &[Input::Program("getppid", "-O2")],
        action: command(&["@getppid"]),
        bar: 3.0,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "clock_gettime",
        what: "C: clock_gettime, 15 million times (natively in the vDSO)",
        needs: &["gcc"],
        inputs: &[Input::Program("clock_gettime", "-O2")],
        action: command(&["@clock_gettime"]),
        bar: 3.0,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "pread",
        what: "C: pread of 4 KiB from 16 MiB of text, 409 600 times",
        needs: &["gcc"],
        inputs: &[
            Input::Program("pread", "-O2"),
            Input::Text("text-16", 16 << 20),
        ],
        action: command(&["@pread", "@text-16"]),
        bar: 3.0,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "tar",
        what: "tar cf - /usr/include | cat",
        needs: &["tar", "cat"],
        action: command(&["sh", "-c", "tar cf - -C / usr/include | cat"]),
        output: Output::Discarded,
        bar: 2.5,
        ..DEFAULT
    },
    Workload {
        name: "true-200",
        what: "/bin/true, 200 times from a shell",
        action: command(&[
            "sh",
            "-c",
            "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done",
        ]),
        bar: 4.0,
        ..DEFAULT
    },
    Workload {
        name: "python-pass",
        what: "python3 -c pass, 20 runs, each recorded by itself",
        action: command(&["python3", "-I", "-c", "pass"]),
        repeat: 20,
        bar: 3.0,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "git-status",
        what: "git status in a repository of 2 000 files, 20 runs, each recorded by itself",
        inputs: &[Input::Repository("repository", 2000)],
        action: command(&["git", "-C", "@repository", "status", "--porcelain"]),
        repeat: 20,
        bar: 3.0,
        peers: true,
        ..DEFAULT
    },
    Workload {
        name: "make",
        what: "make -j2 of 100 small C files with gcc -O1",
        needs: &["gcc"],
        inputs: &[Input::ManySources("many", 100)],
        action: command(&["make", "-s", "-B", "-j2", "-C", "@many"]),
        bar: 2.5,
        ..DEFAULT
    },
    Workload {
        name: "redis",
        what: "redis-server under redis-benchmark (SET and GET, 20 clients, loopback)",
        needs: &["redis-server", "redis-benchmark", "redis-cli"],
        action: Action::Redis { io_threads: 1 },
        output: Output::Discarded,
        bar: 1.67,
        ..DEFAULT
    },
    Workload {
        name: "tight-loop",
        what: "C: a loop of two instructions under a timer of 100 µs",
        needs: &["gcc"],
        inputs: &[Input::Program("tight_loop", "-O2")],
        action: command(&["@tight_loop"]),
        output: Output::Varies,
        bar: 3.0,
        peers: true,
        ..DEFAULT
    },
];

/// Programs whose threads are of interest, and nothing else: measured on all cores only.
pub const THREADED: &[Workload] = &[
    Workload {
        name: "queue",
        what: "C: a lock-free queue, two producers and two consumers, ten million items",
        needs: &["gcc"],
        inputs: &[Input::Program("queue", "-O2")],
        action: command(&["@queue"]),
        bar: 4.0,
        ..DEFAULT
    },
    Workload {
        name: "redis-threads",
        what: "redis-server with two threads for input and output, under the same load",
        needs: &["redis-server", "redis-benchmark", "redis-cli"],
        action: Action::Redis { io_threads: 2 },
        output: Output::Discarded,
        bar: 4.0,
        ..DEFAULT
    },
    kernel(
        "matrix",
        "C: a blocked product of two matrices of 1024 x 1024 numbers",
        &[Input::Program("matrix", "-O2")],
        &["@matrix"],
    ),
    kernel(
        "fft",
        "C: Fourier transforms of a million complex numbers, with barriers",
        &[Input::Program("fft", "-O2")],
        &["@fft"],
    ),
    kernel(
        "radix",
        "C: a radix sort of eight million numbers, with barriers",
        &[Input::Program("radix", "-O2")],
        &["@radix"],
    ),
    kernel(
        "nbody",
        "C: the motion of 3 000 bodies, with barriers",
        &[Input::Program("nbody", "-O2")],
        &["@nbody"],
    ),
];

/// The limits on sketches: the workload's name, one of [`WORKLOADS`] or [`THREADED`].
pub const SKETCHES: &[(&str, CoresBar)] = &[
    ("sort", CoresBar::Serial),
    ("fib", CoresBar::Serial),
    ("python-loop", CoresBar::Serial),
    ("sqlite", CoresBar::Serial),
    ("xz", CoresBar::Serial),
    ("pigz", CoresBar::Wall(1.25)),
    ("xz-t2", CoresBar::Wall(1.25)),
    ("mutexes", CoresBar::Cpu(1.5)),
    ("queue", CoresBar::Cpu(2.0)),
    ("redis-threads", CoresBar::Cpu(1.5)),
];

/// The limits on recordings with all accesses to memory in order.
pub const COHERENCE: &[(&str, CoresBar)] = &[
    ("sort", CoresBar::Cpu(1.45)),
    ("fib", CoresBar::Cpu(1.45)),
    ("python-loop", CoresBar::Cpu(1.45)),
    ("sqlite", CoresBar::Cpu(1.45)),
    ("xz", CoresBar::Cpu(1.45)),
    ("matrix", CoresBar::Wall(1.8)),
    ("fft", CoresBar::Wall(1.8)),
    ("radix", CoresBar::Wall(1.8)),
    ("nbody", CoresBar::Wall(1.8)),
    ("pigz", CoresBar::None),
    ("xz-t2", CoresBar::None),
    ("mutexes", CoresBar::None),
];

/// The workloads of which spare cores are computed: one run of a command each, some with one thread and some with more.
pub const SPARE_CORES: &[&str] = &[
    "sort",
    "python-loop",
    "sqlite",
    "pigz",
    "xz-t2",
    "mutexes",
    "matrix",
    "fft",
    "radix",
    "nbody",
];

/// The limits on recordings of which each epoch is run again meanwhile: their programs run twice.
pub const UNIPARALLEL: &[(&str, CoresBar)] = &[
    ("pigz", CoresBar::Cpu(2.4)),
    ("xz-t2", CoresBar::Cpu(2.4)),
    ("mutexes", CoresBar::Cpu(2.4)),
    ("redis-threads", CoresBar::Cpu(2.4)),
    ("matrix", CoresBar::Cpu(2.4)),
    ("fft", CoresBar::Cpu(2.4)),
    ("radix", CoresBar::Cpu(2.4)),
    ("nbody", CoresBar::Cpu(2.4)),
];
