//! Programs of the paper's model: processes with entry points, handlers that call, spawn, wait, test,
//! ask primitives and touch state, and roots that begin it all.
//!
//! A handler calls entry points of a higher number only, and holds a lock over no call, so that no
//! program can dead-lock by itself.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use relive_rpc::{
    CallError, Either, EntryPoint, Halt, Header, HeaderText, Keep, Lock, Mark, Outcome, Requests,
    Sender, Session, Tape, Task, depend, exchange, fork, halted, select, test, try_nondet,
};

use crate::executor::{Executor, Rng, Slot, yield_now};

/// One step of a script.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    /// A request to this entry point, waited for.
    Call(usize),
    /// One that is not.
    Spawn(usize),
    /// Waits for the oldest spawned one.
    Wait,
    /// Asks whether the oldest spawned one has ended.
    Test,
    /// Whichever of two requests is answered first; the other one is given up.
    Select(usize, usize),
    /// A primitive.
    Nondet,
    /// Reads the entry point's state, lets others run, and writes it.
    Touch,
    /// The same under the process's lock.
    Locked,
    /// Into the process's channel.
    Send,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub process: usize,
    /// Its state is its own, and handlers come one at a time.
    pub exclusive: bool,
    pub script: Vec<Op>,
}

#[derive(Debug, Clone)]
pub struct Program {
    pub processes: usize,
    pub entries: Vec<Entry>,
    /// Process and script.
    pub roots: Vec<(usize, Vec<Op>)>,
}

/// All that can be seen of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// Of each entry point, lock, channel and root.
    pub states: BTreeMap<String, u64>,
    /// The values that each task emitted, in its order: the histories of definition 2.
    pub emitted: BTreeMap<String, Vec<(usize, u64)>>,
}

pub fn mix(a: u64, b: u64) -> u64 {
    let z = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).wrapping_add(b)
}

/// How long things take.
#[derive(Clone)]
pub enum Delays {
    None,
    Random(Arc<Rng>),
}

impl Delays {
    async fn wait(&self) {
        if let Self::Random(rng) = self {
            let turns = [0, 0, 1, 1, 2, 7, 20][rng.below(7) as usize];
            for _ in 0..turns {
                yield_now().await;
            }
        }
    }
}

struct Running {
    executor: Executor,
    program: Program,
    sessions: Vec<Session>,
    entries: Vec<EntryPoint>,
    states: Vec<Mutex<u64>>,
    locks: Vec<Lock<u64>>,
    channels: Vec<Sender<u64>>,
    delays: Delays,
    seen: Mutex<Seen>,
}

type World = Arc<Running>;
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs a program in sessions, of which there is one for each process; `run` runs the executor and
/// says whether all ended.
pub fn run(
    program: &Program,
    sessions: Vec<Session>,
    executor: Executor,
    delays: Delays,
    run: impl FnOnce(&Executor) -> bool,
) -> (bool, Seen) {
    let open = |(at, entry): (usize, &Entry)| {
        let (session, name) = (&sessions[entry.process], format!("entry{at}"));
        let opened = match entry.exclusive {
            true => session.exclusive(&name),
            false => session.entry_point(&name),
        };
        opened.expect("it is opened once")
    };
    let entries: Vec<EntryPoint> = program.entries.iter().enumerate().map(open).collect();
    let locks = sessions
        .iter()
        .map(|session| session.lock("lock", 1).unwrap());
    let channels = sessions
        .iter()
        .map(|session| session.channel("channel").unwrap());
    let (senders, receivers): (Vec<_>, Vec<_>) = channels.unzip();
    let world = Arc::new(Running {
        states: entries.iter().map(|_| Mutex::new(0)).collect(),
        locks: locks.collect(),
        channels: senders,
        executor: executor.clone(),
        program: program.clone(),
        sessions,
        entries,
        delays,
        seen: Mutex::default(),
    });
    for (at, (process, script)) in program.roots.iter().enumerate() {
        let root = world.sessions[*process].root(&format!("root{at}")).unwrap();
        let (inner, script) = (world.clone(), script.clone());
        let work = async move {
            if let Ok(value) =
                perform(inner.clone(), script, inner.process_of_root(at), None, 7).await
            {
                inner.saw(format!("root{at}"), value);
            }
        };
        // None of a process that does not take part.
        if let Some(root) = root {
            executor.spawn(root.scope(work));
        }
    }
    for session in &world.sessions {
        if let Some(requests) = session.requests() {
            executor.spawn(bring(world.clone(), requests));
        }
    }
    let ended = run(&executor);
    let mut seen = world.seen.lock().unwrap().clone();
    for (at, state) in world.states.iter().enumerate() {
        seen.states
            .insert(format!("entry{at}"), *state.lock().unwrap());
    }
    drop(world);
    if ended {
        // No task is left, and with them no sender.
        for (at, mut receiver) in receivers.into_iter().enumerate() {
            let value = crate::executor::block_on(async {
                let mut value = 0;
                while let Some(next) = receiver.receive().await {
                    value = mix(value, next);
                }
                value
            });
            seen.states.insert(format!("channel{at}"), value);
        }
    }
    (ended, seen)
}

impl Running {
    fn process_of_root(&self, root: usize) -> usize {
        self.program.roots[root].0
    }

    fn saw(&self, name: String, value: u64) {
        self.seen.lock().unwrap().states.insert(name, value);
    }

    fn emits(&self, entry: usize, payload: u64) {
        let task = Task::current()
            .expect("scripts run as tasks")
            .id()
            .to_string();
        let mut seen = self.seen.lock().unwrap();
        seen.emitted.entry(task).or_default().push((entry, payload));
    }
}

/// A request and its way: delivered by a task of its own, as a network would.
fn request(world: World, entry: usize, payload: u64) -> Boxed<Result<u64, Halt>> {
    Box::pin(async move {
        let bytes = payload.to_le_bytes();
        let answer = exchange(&bytes, |header| {
            world.emits(entry, payload);
            let slot = Arc::new(Slot::default());
            let text = header.map(|header| header.to_text());
            let carried = carry(world.clone(), entry, text, payload, slot.clone());
            world.executor.spawn(carried);
            async move {
                let (bytes, mark) = slot.take().await;
                mark.into_iter().for_each(depend);
                Ok::<_, Infallible>(bytes)
            }
        });
        match answer.await {
            Ok(bytes) if bytes.is_empty() => Err(halted("it has ended".to_owned()).await),
            Ok(bytes) => Ok(u64::from_le_bytes(bytes.try_into().unwrap())),
            Err(CallError::Halt(halt)) => Err(halt),
            Err(CallError::Failed(text)) => Err(Halt::Failed(text)),
        }
    })
}

fn carry(
    world: World,
    entry: usize,
    header: Option<HeaderText>,
    payload: u64,
    slot: Arc<Slot<(Vec<u8>, Option<Mark>)>>,
) -> Boxed<()> {
    Box::pin(async move {
        world.delays.wait().await;
        let header = header.map(|text| Header::parse(text.as_bytes()).expect("it was written so"));
        let bytes = payload.to_le_bytes().to_vec();
        let answer = serve(world.clone(), entry, header, bytes).await;
        let mark = world.sessions[world.program.entries[entry].process].mark();
        world.delays.wait().await;
        slot.put((answer, mark));
    })
}

/// The answer of an entry point: empty where it has none.
async fn serve(world: World, entry: usize, header: Option<Header>, bytes: Vec<u8>) -> Vec<u8> {
    let receiver = world.entries[entry].clone();
    let Entry {
        process, script, ..
    } = world.program.entries[entry].clone();
    let handler = |bytes: Vec<u8>| async move {
        let payload = u64::from_le_bytes(bytes.try_into().unwrap());
        let answer = perform(world, script, process, Some(entry), payload).await;
        answer.map_or_else(|_| Vec::new(), |answer| answer.to_le_bytes().to_vec())
    };
    let answer = receiver.serve_bytes(header.as_ref(), bytes, handler).await;
    answer.unwrap_or_default()
}

/// Brings the recorded requests of a process that is alone.
async fn bring(world: World, mut requests: Requests) {
    while let Some(incoming) = requests.next().await {
        world.delays.wait().await;
        let entry = incoming.entry.as_str().strip_prefix("entry").unwrap();
        let (entry, header) = (entry.parse().unwrap(), incoming.header);
        let bytes = incoming.bytes().expect("it was kept whole");
        let served = serve(world.clone(), entry, header, bytes);
        world.executor.spawn(async { drop(served.await) });
    }
}

fn perform(
    world: World,
    script: Vec<Op>,
    process: usize,
    entry: Option<usize>,
    payload: u64,
) -> Boxed<Result<u64, Halt>> {
    Box::pin(async move {
        let mut value = payload;
        let mut spawned = VecDeque::new();
        for op in script {
            world.delays.wait().await;
            match op {
                Op::Call(to) => value = mix(value, request(world.clone(), to, value).await?),
                Op::Spawn(to) => {
                    let slot = Arc::new(Slot::default());
                    let (end, sent) = (slot.clone(), request(world.clone(), to, value));
                    world
                        .executor
                        .spawn(fork(async move { end.put(sent.await) }));
                    spawned.push_back(slot);
                }
                Op::Wait => {
                    if let Some(slot) = spawned.pop_front() {
                        value = mix(value, slot.take().await?);
                    }
                }
                Op::Test => {
                    if let Some(slot) = spawned.front() {
                        let found = test("test", pin!(slot.take())).await?;
                        if let Some(answer) = found {
                            value = mix(value, answer?);
                            spawned.pop_front();
                        }
                    }
                }
                Op::Select(a, b) => {
                    let (a, b) = (
                        request(world.clone(), a, value),
                        request(world.clone(), b, value),
                    );
                    value = match select("select", a, b).await? {
                        Either::First(answer) => mix(value, answer?),
                        Either::Second(answer) => mix(value, !answer?),
                    };
                }
                Op::Nondet => {
                    let found = try_nondet("number", || RANDOM.below(1 << 20))?;
                    value = mix(value, found);
                }
                Op::Touch => {
                    if let Some(entry) = entry {
                        let before = *world.states[entry].lock().unwrap();
                        yield_now().await;
                        value = mix(before, value);
                        *world.states[entry].lock().unwrap() = value;
                    }
                }
                Op::Locked => {
                    let mut state = world.locks[process].acquire().await?;
                    yield_now().await;
                    *state = mix(*state, value);
                    value = *state;
                    world.saw(format!("lock{process}"), value);
                }
                Op::Send => world.channels[process].send(value).await?,
            }
        }
        // Answers that nobody waited for are still on their way.
        for slot in spawned {
            value = mix(value, slot.take().await?);
        }
        Ok(value)
    })
}

static RANDOM: LazyLock<Rng> = LazyLock::new(|| Rng::new(std::process::id().into()));

/// A session for each process that records into memory.
pub fn recording(program: &Program, keep: Keep) -> Vec<Session> {
    let name = |at| format!("process{at}");
    let open = |at| Session::record_in_memory(&name(at), keep).expect("the name is one");
    (0..program.processes).map(open).collect()
}

/// The tapes of ended sessions.
pub fn tapes(sessions: &[Session]) -> Vec<Vec<u8>> {
    sessions.iter().map(Session::finish_in_memory).collect()
}

/// A session for each process that replays these tapes.
pub fn replaying(tapes: &[Vec<u8>], limit: Option<Duration>) -> Vec<Session> {
    let open = |at| {
        let tapes = tapes
            .iter()
            .map(|bytes| Tape::parse(bytes).expect("it has a head"));
        let name = format!("process{at}");
        Session::replay_tapes(tapes.collect(), &name, limit).expect("its tape is there")
    };
    (0..tapes.len()).map(open).collect()
}

/// Sessions of which one replays its tape alone; the other processes do not take part.
pub fn alone(tapes: &[Vec<u8>], process: usize, limit: Option<Duration>) -> Vec<Session> {
    let open = |at: usize| match at == process {
        false => Session::off(&format!("process{at}")).unwrap(),
        true => Session::replay_tape_alone(Tape::parse(&tapes[at]).unwrap(), limit).unwrap(),
    };
    (0..tapes.len()).map(open).collect()
}

impl Seen {
    /// The states that belong to a process.
    pub fn states_of(&self, program: &Program, process: usize) -> BTreeMap<String, u64> {
        let entries = program.entries.iter().map(|entry| entry.process);
        let roots = program.roots.iter().map(|(process, _)| *process);
        let named = |name: &'static str| move |(at, of)| (format!("{name}{at}"), of);
        let of: BTreeMap<String, usize> = entries
            .enumerate()
            .map(named("entry"))
            .chain(roots.enumerate().map(named("root")))
            .chain((0..program.processes).map(|at| (format!("lock{at}"), at)))
            .chain((0..program.processes).map(|at| (format!("channel{at}"), at)))
            .collect();
        let mut states = self.states.clone();
        states.retain(|name, _| of[name] == process);
        states
    }
}

/// The first divergence of any session.
pub fn divergence(sessions: &[Session]) -> Option<String> {
    sessions.iter().find_map(|session| match session.outcome() {
        Outcome::Diverged(divergence) => Some(divergence.to_string()),
        _ => None,
    })
}
