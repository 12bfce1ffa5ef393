//! The threads of processes that the model runs, and the faults that it finds without a step.

use super::Act::{self, Ask, Bear, Guest, Loop, Sleep, Work};
use super::{Model, ModelStep, model};
use crate::testing::all_states::explore;

/// The threads of a process: all that are there at the start, then those that are made.
const STORIES: [(usize, &[&[Act]]); 9] = [
    // Two ask at once, and a third one does all that there is to do.
    (3, &[&[Ask, Work], &[Work, Ask], &[Guest, Sleep, Work]]),
    (3, &[&[Ask, Ask], &[Guest, Ask], &[Sleep, Guest]]),
    // Three ask at once.
    (3, &[&[Ask], &[Ask], &[Ask]]),
    // One leaves guest code only because it is called out.
    (3, &[&[Ask], &[Work, Ask], &[Loop]]),
    // One is born meanwhile, and ends.
    (2, &[&[Ask, Guest], &[Guest, Bear(2), Ask], &[Guest, Work]]),
    (2, &[&[Ask], &[Bear(2), Loop], &[Sleep, Ask]]),
    // Sleepers come back at any time.
    (3, &[&[Ask, Ask], &[Sleep, Work, Sleep], &[Sleep, Guest]]),
    // One is alone before the others are there, and after they have ended.
    (
        1,
        &[
            &[Guest, Bear(1), Guest, Guest, Ask],
            &[Ask, Bear(2)],
            &[Ask],
        ],
    ),
    (1, &[&[Guest, Bear(1), Loop], &[Guest, Ask, Work]]),
];

#[test]
fn no_thread_works_beside_quiet_and_none_sleeps_for_ever() {
    let mut states = 0;
    for story in STORIES {
        match explore(&model(story)) {
            Ok(n) => states += n,
            Err((fault, state)) => panic!("{story:?}: {fault}: {state:#?}"),
        }
    }
    assert!(states > 10_000, "{states}");
}

#[test]
fn each_step_is_needed() {
    for step in [
        ModelStep::LookBehindEntering,
        ModelStep::LookBehindSleeping,
        ModelStep::LookAgainAfterParking,
        ModelStep::CallOut,
        ModelStep::SayThatOneWaits,
        ModelStep::SeeOthers,
    ] {
        let fails = |story| {
            let without = Some(step);
            let model = Model {
                without,
                ..model(story)
            };
            explore(&model).is_err()
        };
        assert!(STORIES.into_iter().any(fails), "{step:?}");
    }
}
