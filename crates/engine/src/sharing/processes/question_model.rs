//! A model of how a process that maps shared files alone becomes a member: its threads, which run together, and a process
//! that asks, in all orders of their steps. Nobody who has an answer may see a thread of the process run before that has a
//! turn, and everybody comes to an end. Without any one of the looks there is an order in which one of these fails.

use super::standing::{ALONE, ASKED, JOINING};
use crate::testing::all_states::{StateSpace, explore};

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum SharerAct {
    /// Uses shared memory.
    Run,
    /// The same, until the other process has its answer.
    Spin,
    /// Sleeps in the kernel, and wakes up.
    Sleep,
    /// Sleeps until the other process has its answer.
    SleepLong,
}

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum SharerAt {
    /// In front of its next act.
    Begin,
    Running,
    /// At a safe point behind its act.
    Safe,
    /// Has said that it sleeps: it was the last.
    SaidLast,
    /// Has seen the question.
    SeesQuestion,
    /// Has seen that no thread is awake.
    Answers,
    Asleep,
    /// Back from the kernel.
    Back,
    /// Has said that it is awake.
    SaidAwake,
    /// Has seen the question, and asks for quiet.
    WantsQuiet,
    /// Has asked for it: waits until all others are at rest.
    AwaitsQuiet,
    /// At rest while another one has quiet.
    Parked,
    /// Has turns, or has ended.
    Over,
}

/// Where the process is that asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Asker {
    Begin,
    HasAsked,
    Waits,
    AnswersItself,
    HasAnswer,
}

/// The looks of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SharerLook {
    /// Of a thread that has said that it sleeps, for the question.
    BehindFallingAsleep,
    /// Of one that falls asleep and has seen the question, for threads that have woken up meanwhile.
    BehindQuestion,
    /// Of one that has said that it is awake, for the question.
    BehindWaking,
    /// Of one that runs, at a safe point.
    AtSafePoint,
    /// Of the asker, for threads that are awake.
    BehindAsking,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct QuestionState {
    standing: u32,
    awake: u32,
    /// The thread that asks for quiet, or has it.
    quiet: Option<usize>,
    turns: bool,
    asker: Asker,
    threads: Vec<(SharerAt, usize)>,
}

struct QuestionModel {
    acts: Vec<Vec<SharerAct>>,
    without: Option<SharerLook>,
}

impl QuestionModel {
    fn looks(&self, look: SharerLook) -> bool {
        self.without != Some(look)
    }

    fn is_to_join(state: &QuestionState) -> bool {
        matches!(state.standing, ASKED | JOINING)
    }

    /// After one step of the asker, if it can take one.
    fn step_of_asker(&self, state: &QuestionState) -> Option<QuestionState> {
        let mut next = state.clone();
        next.asker = match (state.asker, state.standing) {
            (Asker::Begin, ALONE) => {
                next.standing = ASKED;
                Asker::HasAsked
            }
            (Asker::HasAsked, ASKED)
                if state.awake == 0 && self.looks(SharerLook::BehindAsking) =>
            {
                Asker::AnswersItself
            }
            (Asker::HasAsked, ASKED) => Asker::Waits,
            (Asker::AnswersItself, ASKED) => {
                next.standing = JOINING;
                Asker::HasAnswer
            }
            (Asker::HasAnswer, _) | (Asker::Waits, ASKED) => return None,
            _ => Asker::HasAnswer,
        };
        Some(next)
    }

    /// After one step of a thread, if it can take one.
    fn step_of(&self, state: &QuestionState, i: usize) -> Option<QuestionState> {
        let mut next = state.clone();
        let (at, act) = state.threads[i];
        let is_quiet = state.quiet.is_some_and(|thread| thread != i);
        let to = match (at, self.acts[i].get(act)) {
            (SharerAt::Begin, _) if state.turns => SharerAt::Over,
            (SharerAt::Begin, Some(SharerAct::Run | SharerAct::Spin)) => SharerAt::Running,
            (SharerAt::Running, _) => SharerAt::Safe,
            (SharerAt::Safe, _) if is_quiet => SharerAt::Parked,
            (SharerAt::Safe, _)
                if Self::is_to_join(state) && self.looks(SharerLook::AtSafePoint) =>
            {
                SharerAt::WantsQuiet
            }
            (SharerAt::Safe, Some(SharerAct::Spin)) if state.asker != Asker::HasAnswer => {
                SharerAt::Begin
            }
            (SharerAt::Safe, _) => {
                next.threads[i].1 += 1;
                SharerAt::Begin
            }
            // One that ends says the same as one that falls asleep.
            (SharerAt::Begin, _) => {
                next.awake -= 1;
                match next.awake == 0 && self.looks(SharerLook::BehindFallingAsleep) {
                    true => SharerAt::SaidLast,
                    false => SharerAt::Asleep,
                }
            }
            (SharerAt::SaidLast, _) if state.standing == ASKED => SharerAt::SeesQuestion,
            (SharerAt::SeesQuestion, _)
                if state.awake == 0 || !self.looks(SharerLook::BehindQuestion) =>
            {
                SharerAt::Answers
            }
            (SharerAt::SaidLast | SharerAt::SeesQuestion, _) => SharerAt::Asleep,
            (SharerAt::Answers, _) => {
                if state.standing == ASKED {
                    next.standing = JOINING;
                }
                SharerAt::Asleep
            }
            (SharerAt::Asleep, None) => SharerAt::Over,
            (SharerAt::Asleep, Some(SharerAct::SleepLong)) if state.asker != Asker::HasAnswer => {
                return None;
            }
            (SharerAt::Asleep, _) if is_quiet => return None,
            (SharerAt::Asleep, _) => SharerAt::Back,
            (SharerAt::Back, _) if state.turns => SharerAt::Over,
            (SharerAt::Back, _) => {
                next.awake += 1;
                SharerAt::SaidAwake
            }
            (SharerAt::SaidAwake, _)
                if Self::is_to_join(state) && self.looks(SharerLook::BehindWaking) =>
            {
                SharerAt::WantsQuiet
            }
            (SharerAt::SaidAwake, _) => {
                next.threads[i].1 += 1;
                SharerAt::Begin
            }
            (SharerAt::WantsQuiet, _) if is_quiet => SharerAt::Parked,
            (SharerAt::WantsQuiet, _) => {
                next.quiet = Some(i);
                SharerAt::AwaitsQuiet
            }
            (SharerAt::AwaitsQuiet, _) => {
                let at_rest =
                    |at| matches!(at, SharerAt::Asleep | SharerAt::Parked | SharerAt::Over);
                let mut others = (0..state.threads.len()).filter(|&other| other != i);
                if !others.all(|other| at_rest(state.threads[other].0)) {
                    return None;
                }
                next.quiet = None;
                next.turns = true;
                if state.standing == ASKED {
                    next.standing = JOINING;
                }
                SharerAt::Over
            }
            (SharerAt::Parked, _) if is_quiet => return None,
            (SharerAt::Parked, _) if state.turns => SharerAt::Over,
            (SharerAt::Parked, _) => SharerAt::Safe,
            (SharerAt::Over, _) => return None,
        };
        next.threads[i].0 = to;
        Some(next)
    }
}

impl StateSpace for QuestionModel {
    type State = QuestionState;

    fn start(&self) -> QuestionState {
        QuestionState {
            standing: ALONE,
            awake: self.acts.len() as u32,
            quiet: None,
            turns: false,
            asker: Asker::Begin,
            threads: vec![(SharerAt::Begin, 0); self.acts.len()],
        }
    }

    fn all_after(&self, state: &QuestionState) -> Vec<QuestionState> {
        let threads = 0..state.threads.len();
        let by_thread = threads.filter_map(|i| self.step_of(state, i));
        by_thread.chain(self.step_of_asker(state)).collect()
    }

    fn fault(&self, state: &QuestionState) -> Option<&'static str> {
        let runs = state.threads.iter().any(|(at, _)| *at == SharerAt::Running);
        let is_answered = state.asker == Asker::HasAnswer;
        (is_answered && runs).then_some("a thread runs without a turn")
    }

    fn is_end(&self, state: &QuestionState) -> bool {
        let over = state.threads.iter().all(|(at, _)| *at == SharerAt::Over);
        over && state.asker == Asker::HasAnswer
    }
}

fn programs() -> Vec<Vec<Vec<SharerAct>>> {
    use SharerAct::{Run, Sleep, SleepLong, Spin};
    vec![
        vec![vec![Run, SleepLong, Run]],
        vec![vec![Run, Sleep, Run], vec![Sleep, Run, Sleep]],
        vec![vec![Run, SleepLong, Run], vec![Run, SleepLong, Run]],
        vec![vec![Run, Run, Run], vec![SleepLong, Run]],
        vec![vec![Spin], vec![SleepLong, Run]],
        vec![vec![Sleep, Run], vec![Run, SleepLong, Run], vec![SleepLong]],
    ]
}

#[test]
fn whoever_asks_sees_no_thread_run_before_it_has_a_turn() {
    for acts in programs() {
        let model = QuestionModel {
            acts,
            without: None,
        };
        let states = explore(&model).expect("the protocol holds");
        assert!(states > 20, "{states} states are not all");
    }
}

#[test]
fn each_look_is_needed() {
    for look in [
        SharerLook::BehindFallingAsleep,
        SharerLook::BehindQuestion,
        SharerLook::BehindWaking,
        SharerLook::AtSafePoint,
        SharerLook::BehindAsking,
    ] {
        let fails = |acts| {
            let without = Some(look);
            explore(&QuestionModel { acts, without }).is_err()
        };
        assert!(
            programs().into_iter().any(fails),
            "nothing is wrong without the look {look:?}"
        );
    }
}
