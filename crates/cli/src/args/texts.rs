//! The help of each command beyond its options. Words only.

pub(super) const TOP: &str = "\
Record a run of a Linux program once, and replay it exactly, as often as you like.

The program needs no change, no recompilation and no special rights. The replay executes the \
same instructions of all its threads and processes in the same order, with the same results of \
every system call.";

pub(super) const TOP_AFTER: &str = "\
Examples:
  relive record ./server --port 80   record a run
  relive replay                      replay it, with the same output and exit status
  relive hunt ./flaky-test           record until the test fails, and keep that run
  relive demo                        see it work on a small program with a real race

Exit status:
  that of the program, for record, replay and run
  2    the command line is wrong
  125  Relive cannot go on; one sentence on standard error says why

Environment:
  RELIVE_TRACE_DIR  the folder for recordings; without it relive in $XDG_DATA_HOME, or
                    ~/.local/share/relive
  RELIVE_CACHE_DIR  the folder for translations of programs, which make their next start
                    faster; without it relive in $XDG_CACHE_HOME, or ~/.cache/relive; empty:
                    nothing is kept";

pub(super) const RECORD: &str = "\
Run a program and record it, with every process that it starts.

The program has the terminal, standard input, output and error for itself, and relive ends as \
it ends: with its exit status, or of the same signal. Relive itself prints nothing, but for \
one line at the end if standard error is a terminal.

Without -o the trace gets a number in the folder for recordings, and becomes the latest: the \
one that other commands take when no trace is named.

With --flight the last part of the run lies in memory, and becomes a recording only if the program ends \
badly (by a signal, or with a status other than 0) or somebody asks for it: for servers that run for weeks. \
To ask: relive keep; the signal of --keep-on, sent to relive record; or the program itself, by \
prctl(0x524c564b) (prctl(2), an operation that no kernel has: without a flight recording it fails with EINVAL, and \
does nothing). While processes share memory that they may write, nothing is forgotten. All that is so with \
--mode sketch and --mode coherence too.

With --mode sketch the threads of a process run on all cores while they are recorded. The first \
replay, verify or debug then finds the order in which they acted on each other, checks it against \
all that was recorded, and keeps it in the trace; if it cannot, it shows both sides and ends with \
status 125. Threads that look at each other by plain loads, without locks or atomic instructions, \
may be such a case.

With --index as well the first replay of a recording of one process goes by epochs, several at the \
same time: each begins with a session image and is right when it comes to the next one. A search \
concerns its epoch alone. The images are an index then.

With --mode coherence they run on all cores too, and every access to memory has its place in the \
recording, races included: the first replay finds the turns without guessing. Programs that \
compute take several times their time, and those whose threads take memory from each other all \
the time more (docs/limits.md).

With --mode uniparallel a recording is as with --mode sketch and --index, and each stretch between two \
session images is run again meanwhile, by as many other processes as --jobs says: one thread at a time, until it \
ends as the program did. When relive record ends, the recording is exact, races included. It takes cores that the program \
leaves free; without them the program waits (--stats says how long). With --flight as well it is what is kept that is \
run again, one kept part after the other, and the program waits for none of that. With --commit nobody sees output \
of a run that cannot be replayed: each call that writes to a standard stream, a pipe or a socket waits until the order of all \
before it is found, and where that is not found the program is ended.";

pub(super) const RECORD_AFTER: &str = "\
Examples:
  relive record make test
  relive record -o /tmp/trace -- ./server --port 80
  relive record --chaos ./racy-test
  relive record --flight=1m ./server
  relive record --flight=200MiB --keep-on USR2 ./server
  relive record --mode coherence --flight=10s ./server   # on all cores, races included
  relive record --mode uniparallel ./test                # the same, with spare cores";

pub(super) const REPLAY: &str = "\
Replay a recording: the same bytes on standard output and error, in the same order, and the \
same end.

Nothing else is touched: a replay opens none of the program's files, sends nothing, and starts \
none of its programs anew. If it meets anything that the recording does not say, it stops, \
shows both sides, and ends with status 125.";

pub(super) const REPLAY_AFTER: &str = "\
Examples:
  relive replay
  relive replay make-3
  relive replay /tmp/trace
  relive replay --from 100 --to 200  only the output between these events of the first process";

pub(super) const DEBUG: &str = "\
Debug a recording with gdb, forwards and backwards.

All of gdb works: breakpoints, watchpoints, stepping, threads, and backwards reverse-continue, \
reverse-step, reverse-next, reverse-finish. The program's files are read out of the recording. \
What is written into the program, and functions that are called from gdb, go into a copy that \
is thrown away when the recording goes on. gdb's `monitor help` lists what Relive adds.

With --serve gdb is not started; any front end of the same user may connect that speaks \
its remote protocol.

The first debugger of a recording that takes more than a few seconds to replay has an index made in the background (see relive \
index), which goes on when the debugger ends, and takes a tenth of the room on disk at most: \
from then on the recording opens anywhere at once.";

pub(super) const DEBUG_AFTER: &str = "\
Examples:
  relive debug                          the latest recording, from its start
  relive debug --at crash make-3        right before the signal that killed it
  relive debug --at end -- -ex 'watch total' -ex reverse-continue
  relive debug --serve 1234             then in gdb: target remote :1234";

pub(super) const DAP: &str = "\
Serve an editor that debugs a recording, forwards and backwards: VS Code, Neovim, Zed, Helix, \
Emacs, and whatever else speaks the Debug Adapter Protocol.

The editor starts this command and talks to it over standard input and output. It says which \
recording it wants in its launch configuration, whose fields are those of `relive debug`: trace \
(name or folder; without it the latest), at (start, end, crash, a number of events, or EVENT:TICK), process, \
gdb; and sourceMap (an object: folders of the debug information, and where they are now), \
stopOnEntry, initCommands (of gdb's console). gdb does the work below, and has to be installed.

With --port it waits for one editor on the loopback interface instead, for those that want to \
connect; only programs of the same user are served.";

pub(super) const DAP_AFTER: &str = "\
A launch configuration of VS Code (docs/editors.md has those of other editors):
  { \"type\": \"relive\", \"request\": \"launch\", \"name\": \"Latest recording\" }

Backwards: the buttons Step Back and Reverse. In the debug console, relive position, relive goto \
PLACE and others are Relive's (relive debug has the same), and -exec COMMAND is any command of \
gdb's.";

pub(super) const BACKTRACE: &str = "\
Show the call stack of a recorded program at one place of its recording, with functions, files \
and lines.

Names and lines come from the copies of its files that the recording holds, and from debug \
information outside of them, in the recording or on this machine: by build id in /usr/lib/debug or \
the cache of debuginfod, by .gnu_debuglink, split (.dwo, .dwp), or shared (dwz). What is taken says \
by its content that it belongs to the program that ran, whatever lies on this machine now.";

pub(super) const BACKTRACE_AFTER: &str = "\
Examples:
  relive backtrace --at crash
  relive backtrace bank-2 --at 2000 --all --json
  relive backtrace --at 133:4004@0x10001168/p0.t3    a position that last-write --json has printed";

pub(super) const LAST_WRITE: &str = "\
Find the instruction, or the system call, that last wrote to memory of a recorded program.

The answer tells where it is (process, thread, events of the process before it, ticks of the \
thread, address of the instruction) and the bytes before and after. A write of the same value \
is a write.";

pub(super) const LAST_WRITE_AFTER: &str = "\
Examples:
  relive last-write --var total
  relive last-write --var 'config.limits[3].max' --before 2000
  relive last-write --var n --at crash --frame 2
  relive last-write --addr 0x100040a0
  relive last-write bank-2 --addr 0x100040a0 --len 8 --before 2000 --json";

pub(super) const RACES: &str = "\
Find data races in a recording: two accesses of different threads to the same memory, at least one \
of them a write, that no synchronisation of the program orders.

The recording is replayed, and the order of its threads is taken from what they do: atomic \
instructions on a word, futexes, threads that begin, end and are joined, pipes, sockets, signals. So a \
race is found although nothing went wrong in this run, as long as both accesses were made. Words that \
atomic instructions use too, and objects of an atomic type (_Atomic, std::atomic, AtomicU32), \
synchronise and do not race.

For each pair of places one race is reported: the variable, both accesses with thread, value and call \
stack, and positions for debug --at. Names and types need debug information. Each process is looked at \
by itself. The exit status is 0 without races, 1 with races, and 125 if the search failed.

A file of suppressions has one pattern a line, in which * stands for any characters. A race is not \
reported if a pattern covers a frame of either stack, or the variable:
  # a comment
  function:stats_*
  file:legacy.c
  module:libfoo.so*
  variable:debug_level

With --learn no race is reported: the places of all, those of words that synchronise by plain loads and \
stores too, are kept as instructions that sketches order (record --mode sketch and uniparallel). It is for \
programs whose sketches need long searches: record one with --mode coherence, learn from it, and the sketches \
recorded from then on have these accesses in order. Several recordings show more places than one. It takes \
some hundred times as long as a replay.";

pub(super) const RACES_AFTER: &str = "\
Examples:
  relive races
  relive races bank-2 --suppressions known.txt
  relive races bank-2 --json
  relive debug bank-2 --at 133:4004@0x10001168/p0.t3    a position of a race
  relive races exact-1 --learn          what the next sketches of this program should order";

pub(super) const CALLS: &str = "\
List the calls of a function over a whole recording: where, by which thread, with which \
arguments and which result.

Arguments and results are shown by the types that debug information gives them; what it does not \
say, and the calling convention neither, is shown as ?. Without debug information they are the six \
integer registers of arguments, and the one of results. Lines come in the order of calls, except \
that after 65 536 calls within one that has not returned, that one comes when it returns.";

pub(super) const CALLS_AFTER: &str = "\
Examples:
  relive calls transfer
  relive calls 0x10001159
  relive calls 0x10001159 bank-2 --max 10 --json";

pub(super) const VERIFY: &str = "\
Replay a recording twice without its output, and compare both with it and with each other.

The files that the trace holds are compared with their checksums first. The two replays \
translate the program differently: in large pieces, and in very small ones. In both, the \
position and the registers must be the recorded ones at every event of every thread. Checksums \
of the program's whole memory, taken every N events of each process, must be the same in both.";

pub(super) const HUNT: &str = "\
Run a program again and again under different schedules until it fails, and keep that run.

For tests that fail now and then. The first run has a fair schedule, each later one a chaotic \
schedule with a new seed. It learns at which instructions threads meet in memory, and varies the \
order of these accesses; with --mode sketch threads run on all cores, and pause there. A run fails \
if it ends with another exit status than 0, dies of a signal, or does not end in time. Its recording is kept and becomes the latest; those of the \
other runs are removed. The runs read an empty standard input, and their output is not shown: \
replay the one that was kept to see it.";

pub(super) const HUNT_AFTER: &str = "\
Exit status:
  0    no run failed
  1    a run failed, and its recording is kept
  125  Relive cannot go on

Examples:
  relive hunt ./flaky-test
  relive hunt -n 1000 --timeout 5s -- cargo test --release
  relive hunt --mode sketch ./flaky-test   # on all cores; then relive explore, if the first replay fails";

pub(super) const EXPLORE: &str = "\
Search on for the order of threads in a sketch (record --mode sketch) whose replay has failed, or, with \
--failing, for a failing run near a recording that passed.

The first replay of a sketch looks for an order that agrees with all of the recording, and gives up \
soon. This command goes on from there: it turns around the last races before the recording was left, \
and tries neighbouring orders, several at the same time, each from the nearest snapshot. An order that \
agrees to the end, with every event and with the end itself, is replayed once more from the beginning \
and kept in the trace: from then on the recording is exact. With session images (record --index) it searches \
each epoch that lacks, from its image to the next one. What was tried is kept in the trace too, so \
a search that was interrupted (Ctrl-C) or has given up goes on where it was.

With --failing the accesses by which threads of the recording meet are listed, in their order, locks \
included. Then the program is recorded again: the same command, in the same folder and environment. In \
each run one of these orders, or several, are turned around: a thread waits in front of its access \
until another one has made the access that came behind it. The first run that fails, as for relive \
hunt, is kept and becomes the latest. The runs read an empty standard input.";

pub(super) const EXPLORE_AFTER: &str = "\
Exit status:
  0    the recording is exact; with --failing: no run failed
  1    no order that agrees was found; with --failing: a run failed, and its recording is kept
  125  Relive cannot go on

Examples:
  relive explore
  relive explore --time 10m --explain pool-3
  relive explore --failing pool-3";

pub(super) const RUN: &str = "\
Run a program translated, without recording it: to see whether a program works under the \
translator, and what that costs.

With --attachable it can be recorded from any moment on: relive keep --from-now. Until then what happens is followed, as a \
recording that begins in the midst of it needs that, and forgotten: it costs about as much as relive record. Threads run \
as with relive record (--mode sketch and --mode coherence: on all cores).";

pub(super) const RUN_AFTER: &str = "\
Examples:
  relive run ./program --option
  relive run --attachable --mode sketch ./server &
  relive keep --from-now         records all from here on
  relive keep                    ends the recording, and not the server";

pub(super) const INDEX: &str = "\
Write session images into a recording, so that debuggers need not replay it from its beginning.

A session image is all of a process at one place: its memory, its threads with their registers, \
and where they stand in the recording. relive debug --at end, --at crash and --at EVENT, replay \
--from, backtrace and last-write begin with the nearest image before their place. Images lie evenly \
on the way, and close to each other before the end. What they show is checked as ever: a replay \
from an image that is not what the recording says stops with both sides.

Pages of memory that are equal are kept once. The index is a folder in the recording, which replays \
without it as well; a new one takes the place of an old one.";

pub(super) const INDEX_AFTER: &str = "\
Examples:
  relive index
  relive index bank-2 --process 3 --max-size 200MiB
  relive index --remove";

pub(super) const KEEP: &str = "\
Keep what a flight recording that runs has by now: the last part of its program's run, which goes on.

relive record --flight keeps the last part of a run in memory, and nothing else. This makes a recording of it: \
it begins with images of the processes, as a part does that relive split makes. Each time that it is asked \
another recording is made.

With --from-now all that happens from now on is recorded, into the folder where it stays, until the program ends or relive \
keep asks again: that ends the recording, and the program goes on. relive run --attachable starts programs of \
which nothing else is kept.";

pub(super) const KEEP_AFTER: &str = "\
Examples:
  relive record --flight=30s -o bad ./server &
  relive keep                    while it runs: the last 30 seconds or more, as bad
  relive keep --from-now 4711    all that comes, of the program with this process
  relive debug bad";

pub(super) const SPLIT: &str = "\
Make a part of a recording a recording of its own, which begins in the midst of the program.

The part begins with an image of every process that there is at --from: all of its memory, its threads \
with their registers, what it still has to read. Replays of the part begin with them, so that nothing from before is \
repeated, output neither. Events keep their numbers: a place of the whole recording is one of the \
part. Where a process cannot be described (between two instructions, or while a child of vfork(2) runs \
in its memory) the part begins a little earlier, and says so.

The other processes of a tree are cut where they were then, as far as the recording tells: at the last \
place that is known to be before --from. The recording itself stays as it is.";

pub(super) const SPLIT_AFTER: &str = "\
Examples:
  relive split --from 120000                 from that event of the first process to the end
  relive split make-3 --from 5000 --to crash -o short
  relive debug short                         back to the part's beginning, and no further";

pub(super) const PACK: &str = "\
Pack a recording into one file that another machine can replay and debug.

A recording has all that a replay needs. With it go debug information of its programs and \
libraries that is in files of its own, in every form that relive backtrace finds, and the source \
files that debug information names, as far as they are on this machine; sources as they are now. A recording holds everything that the program \
read: look at whom you give it to. The file is a compressed tar archive.";

pub(super) const PACK_AFTER: &str = "\
Examples:
  relive pack
  relive pack bank-2 -o race.tar.zst
  relive debug race.tar.zst
  relive unpack race.tar.zst";

pub(super) const UNPACK: &str = "\
Unpack a packed recording: a new one in the folder for recordings, which becomes the latest, or \
a new folder of its own. Commands that take a recording take a packed one too: they unpack it \
once into RELIVE_CACHE_DIR, where it is removed when nobody has used it for a week.

What is no whole recording is refused and removed. If this machine lacks instruction sets that \
the recorded one had, that is said.";

pub(super) const LS: &str = "\
List the recordings in the folder for recordings, oldest first.

An asterisk marks the latest, which other commands take when no trace is named.";

pub(super) const INFO: &str = "\
Show the facts of one recording: what was run, where, how it ended, its processes and threads \
with their events and ticks, and what a machine needs to replay it.

A tick is one executed backward jump, call or indirect jump; ticks measure how far a thread has \
come.";

pub(super) const DUMP: &str = "\
Print the events of a recording as text, one line for each: thread, index, tick, and what \
happened.

Events are what a replay cannot compute: results of system calls, signals, switches of threads, \
and instructions such as rdtsc. Each thread has its own tape, and so the threads come one after \
the other. What a call wrote into the program's memory is shown as text; what it only read is \
not in a recording, and shows as an address.";

pub(super) const DUMP_AFTER: &str = "\
Examples:
  relive dump
  relive dump make-3 --process 0 --thread 1 --from 100 --to 200
  relive dump --json | jq 'select(.name == \"openat\")'";

pub(super) const DEMO: &str = "\
Show the main job on a small program with a real data race: a bank whose threads move money \
between accounts without a lock.

The program is compiled with the C compiler cc or gcc, and recorded until its total is wrong. \
That recording is replayed three times, and output and exit status are compared. The recording \
is kept as the latest. Ends with status 1 if anything is not as it should be.";

pub(super) const RPC: &str = "\
Look at recordings of services that were made with the library relive-rpc.

Such a recording has, for each process, the order in which each of its entry points, locks and \
channels received requests, and the results of operations that are not functions of the program's \
state. docs/rpc.md says how a service is recorded and replayed. These commands only read: a damaged \
or cut tape is shown up to where it is whole.

A request is named by the task that sends it: PROCESS/ROOT.STEPS:NUMBER or \
PROCESS/ENTRY#PLACE.STEPS:NUMBER, where PLACE is the receipt that the task handles, STEPS lead to the \
child tasks that it forks, and NUMBER counts the operations of the task.";

pub(super) const RPC_AFTER: &str = "\
Examples:
  RELIVE_RPC=record:/tmp/bank ./bank    record a service
  relive rpc ls /tmp/bank               its processes
  relive rpc dump /tmp/bank             who was received when
  RELIVE_RPC=replay:/tmp/bank ./bank    replay it";

pub(super) const RPC_LS: &str = "\
List the processes of a recording, with the sizes of their tapes and how these end.

A tape that is cut is one of a process that was killed, or still runs.";

pub(super) const RPC_INFO: &str = "\
Show, for each entry point, group, lock, channel and root: how many requests it received, from how \
many senders, how many results of primitives its tasks have, how many of its tasks were cancelled, and \
the bytes of payloads.";

pub(super) const RPC_DUMP: &str = "\
Print what a recording says, lane by lane. A lane is an entry point, group, lock, channel or root.

Each receipt has its place, the request, its entry point where the lane has several, and the hash of its \
content. Below it stand the results of primitives, the payloads and the cancellations of the tasks that \
handled it. Values are shown as bytes: their types are the program's.";

pub(super) const RPC_DUMP_AFTER: &str = "\
Examples:
  relive rpc dump /tmp/bank --lane balance --from 3 --to 5
  relive rpc dump /tmp/bank --json | jq 'select(.record == \"receipt\")'";

pub(super) const RPC_DIFF: &str = "\
Show where two recordings of the same processes part: for each lane the first place with another \
request, and the first result of a primitive that is another one.

Processes and lanes that only one of them has are differences too. Payloads are not compared.";

pub(super) const RPC_DIFF_AFTER: &str = "\
Exit status:
  0    they are equal
  1    they part
  125  one of them cannot be read

Examples:
  relive rpc diff /tmp/good /tmp/bad";

pub(super) const RPC_CAUSALITY: &str = "\
Show which receipt led to which: below each root, and below each request from outside, the receipts of \
the requests that its tasks sent, and so on.

Receipts of one sender come in the order of its operations, whatever the order in which they were \
received. A receipt whose cause is on no tape, as where a tape is cut, stands by itself.";

pub(super) const RPC_CAUSALITY_AFTER: &str = "\
Examples:
  relive rpc causality /tmp/bank
  relive rpc causality /tmp/bank --of accounts/balance#7
  relive rpc causality /tmp/bank --json";
