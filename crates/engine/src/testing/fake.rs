//! The mode of unit tests: it notes the questions about memory and files, and answers them as a test
//! wants. All others have no answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use relive_dbt::{AtPause, Ordered};
use relive_host::reading::Use;
use relive_host::signal::{KernelAction, Mask};
use relive_trace::{Kind, TapeId};

use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::memory::Source;
use crate::memory::content::{Content, ContentRequest, KeptContent};
use crate::mode::{
    Begun, Contents, FileUse, HandedOn, Host, Lives, Mode, ModeTraits, Order, Outcomes, Reading,
    Signals, Turns,
};
use crate::registry::Registry;
use crate::shm::{Logged, Shm};
use crate::siginfo::{SigInfo, signo};
use crate::tape::{Tape, TapeOut};
use crate::task::Task;

/// A question to the mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeQuery {
    /// For the content of a map.
    Content {
        /// Others may see it.
        shared: bool,
        /// Identity and path of its file.
        named: Option<(u64, String)>,
        /// Where in the file it begins.
        offset: u64,
        /// Bytes of it.
        len: Option<u64>,
        /// The file has been opened.
        opened: bool,
    },
    /// For memory of a shared file up to an end.
    ShowsFile(u64, u64),
    /// For a file that is about to be mapped shared, or to be written through the map.
    Acquires(u64, bool),
    /// For a report of a divergence.
    Diverged(String),
    /// Nothing: it is told that memory is written.
    Wrote(u64, u64),
    /// For a tape that must have this signal, raised by the present instruction.
    Raised(i32),
    /// For a tape, in the ring that it has already.
    Tape(TapeId, Option<u32>),
}

/// See the module.
pub struct Fake(Mutex<State>);

struct State {
    asked: Vec<ModeQuery>,
    content: Source,
    /// The thread is one of several.
    one_of_several: bool,
    /// Content is kept for a trace.
    keeps: bool,
    /// The deeds of another thread while the thread sleeps in a call.
    meanwhile: Option<fn(&Task)>,
    /// Numbers and handlers of the actions that the kernel was told.
    actions: Vec<(i32, u64)>,
    /// Where tapes are written to.
    tapes: Option<Shm>,
}

impl State {
    const NEW: Self = Self {
        asked: Vec::new(),
        content: Source::Anon,
        one_of_several: false,
        keeps: false,
        meanwhile: None,
        actions: Vec::new(),
        tapes: None,
    };
}

impl Fake {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(State::NEW))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self) {
        *self.state() = State::NEW;
    }

    pub(super) fn take(&self) -> Vec<ModeQuery> {
        std::mem::take(&mut self.state().asked)
    }

    /// All content is this from now on; zeros before.
    pub fn brings(&self, source: Source) {
        self.state().content = source;
    }

    /// The thread is one of several from now on.
    pub fn has_other_threads(&self) {
        self.state().one_of_several = true;
    }

    /// Content is kept for a trace from now on, by tasks that get this mode then.
    pub(super) fn keeps(&self) {
        self.state().keeps = true;
    }

    /// From now on another thread does this each time before the kernel is entered for a call that may
    /// sleep.
    pub fn does_meanwhile(&self, deed: fn(&Task)) {
        let mut state = self.state();
        (state.one_of_several, state.meanwhile) = (true, Some(deed));
    }

    /// Tapes are written from now on, into rings of this memory.
    pub fn writes_tapes(&self, shm: Shm) {
        self.state().tapes = Some(shm);
    }

    /// The signal actions that the kernel was told: numbers and handlers.
    pub fn actions(&self) -> Vec<(i32, u64)> {
        self.state().actions.clone()
    }

    fn note(&self, asked: ModeQuery) {
        self.state().asked.push(asked);
    }
}

fn no_answer() -> ! {
    panic!("the mode of unit tests does not answer that")
}

impl Mode for Fake {
    fn traits(&self) -> ModeTraits {
        ModeTraits {
            together: false,
            multiplexed: false,
            confined: false,
            traces: false,
            samples: false,
            checkpoints: false,
            keeps: self.state().keeps,
            clocks: Use::Live,
            at_pause: AtPause::Leave,
            operations: Ordered::Off,
        }
    }

    fn host(&self) -> &'static dyn Host {
        &super::MODE
    }

    fn order(&self) -> &dyn Order {
        self
    }
}

impl Outcomes for Fake {
    fn diverged(&self, _: &Task, expected: &str, actual: &str) -> Failure {
        let text = format!("{expected}: {actual}");
        self.note(ModeQuery::Diverged(text.clone()));
        Failure::divergence(text)
    }

    fn begin_call(&self, _: &mut Task, _: &Call) -> Result<Begun> {
        no_answer()
    }

    fn end_call(&self, _: &mut Task, _: &Call, _: i64, _: Option<&Answer>) -> Result<()> {
        no_answer()
    }

    fn plain_call(&self, _: &mut Task, _: u64, _: &[u64; 6], _: usize) -> Logged<Option<i64>> {
        no_answer()
    }

    fn instruction(
        &self,
        _: &mut Task,
        _: u8,
        _: u8,
        _: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]> {
        no_answer()
    }

    fn reading(
        &self,
        _: &mut Task,
        _: u32,
        _: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading> {
        no_answer()
    }
}

impl Turns for Fake {
    fn others_see(&self, _: &Task) -> bool {
        self.state().one_of_several
    }

    fn asleep(&self, task: &mut Task, enter: &mut dyn FnMut() -> i64) -> Result<i64> {
        let deed = self.state().meanwhile.unwrap_or_else(|| no_answer());
        deed(task);
        // SAFETY: the context lives in its box, and no test enters another one in the midst of a call.
        unsafe { relive_host::enter::adopt(&raw mut *task.ctx) };
        Ok(enter())
    }

    fn begin_slice(&self, _: &mut Task) {
        no_answer()
    }

    fn end_budget(&self, _: &mut Task) -> Result<Flow> {
        no_answer()
    }

    fn pause(&self, _: &mut Task) -> Result<()> {
        no_answer()
    }

    fn give_way(&self, _: &mut Task, _: &mut dyn FnMut(&mut Task) -> Result<i64>) -> Result<i64> {
        no_answer()
    }
}

impl Signals for Fake {
    fn is_being_killed(&self, _: &Task) -> bool {
        false
    }

    fn send_signal(
        &self,
        _: &mut Task,
        _: &Call,
        _: i32,
        _: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        no_answer()
    }

    fn raised(&self, _: &mut Task, info: &SigInfo) -> Result<bool> {
        self.note(ModeQuery::Raised(signo(info)));
        Ok(true)
    }

    fn ends_thread_alone(&self, _: &mut Task) -> Result<bool> {
        Ok(self.state().one_of_several)
    }
}

impl Contents for Fake {
    fn content(&self, wanted: ContentRequest<'_>) -> Result<Content> {
        let named = wanted.named.as_ref();
        self.note(ModeQuery::Content {
            shared: wanted.shared,
            named: named.map(|n| (n.identity(), n.path().into_owned())),
            offset: wanted.offset,
            len: wanted.len,
            opened: wanted.opened.is_some(),
        });
        Ok(Content {
            source: self.state().content,
            len: wanted.len.unwrap_or(0),
            shared: wanted.shared,
            common: wanted.shared,
            _file: None,
        })
    }

    fn shows_file(&self, file: u64, _: Option<&KeptContent>, (_, end): (u64, u64)) -> Result<()> {
        self.note(ModeQuery::ShowsFile(file, end));
        Ok(())
    }

    fn wrote(&self, addr: u64, len: u64) {
        self.note(ModeQuery::Wrote(addr, len));
    }
}

impl Lives for Fake {
    fn tape(&self, id: TapeId, handed_on: &HandedOn) -> Result<Tape> {
        self.note(ModeQuery::Tape(id, handed_on.ring));
        let tape = |shm| TapeOut::create(shm, id);
        let tapes = self.state().tapes;
        tapes.map_or(Ok(Tape::None), |shm| Ok(Tape::Out(tape(shm)?)))
    }

    fn clone_thread(&self, _: &mut Task, _: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        no_answer()
    }

    fn fork(&self, _: &mut Task, _: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        no_answer()
    }

    fn vfork(&self, _: &mut Task, _: &Call, _: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        no_answer()
    }

    fn thread_begins(&self, _: &mut Task, _: Kind<'_>) -> Result<()> {
        no_answer()
    }

    fn thread_ends(&self, _: &mut Task) {
        no_answer()
    }

    fn process_ends(&self, _: &Task) {
        no_answer()
    }

    fn handed_on(&self, _: &mut Task, _: bool) -> Result<HandedOn> {
        Ok(HandedOn::default())
    }

    fn executes(&self, _: &Task) {
        no_answer()
    }
}

impl Order for Fake {
    fn acquire_file(&self, _: &mut Task, _: &Call, used: &FileUse<'_>) -> Result<()> {
        self.note(ModeQuery::Acquires(used.part.file, used.writes));
        Ok(())
    }
}

/// The kernel keeps nothing of the guest's threads but the actions that it was told.
impl Host for Fake {
    fn mask(&self, _: Mask) {}

    fn action(&self, sig: i32, action: &KernelAction) {
        self.state().actions.push((sig, action.handler));
    }

    fn wake(&self, _: u64) {}
    fn stop(&self, _: i32) {}
    fn leaves(&self, _: &Registry) -> bool {
        false
    }
    fn robust_list(&self, _: u64, _: u64) {}
}
