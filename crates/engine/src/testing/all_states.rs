//! All states of a small model of a protocol, in all orders of the steps that its parties can take.

use std::collections::HashMap;
use std::hash::Hash;

/// A protocol, reduced to steps that nothing comes between.
pub trait StateSpace {
    /// Where all parties are.
    type State: Clone + Eq + Hash;

    /// Where they begin.
    fn start(&self) -> Self::State;

    /// The states after one step of any party that can take one.
    fn all_after(&self, state: &Self::State) -> Vec<Self::State>;

    /// The fault of a state, if it has one.
    fn fault(&self, state: &Self::State) -> Option<&'static str>;

    /// Whether nobody has anything left to do.
    fn is_end(&self, state: &Self::State) -> bool;
}

/// Goes through all states: how many there are, or the fault of one with it. From each an end can be reached: no party
/// sleeps, or runs to and fro, for ever.
///
/// # Errors
/// The first fault.
pub fn explore<M: StateSpace>(model: &M) -> Result<usize, (&'static str, M::State)> {
    let start = model.start();
    let mut numbers = HashMap::from([(start.clone(), 0)]);
    let (mut all, mut before) = (vec![start], vec![Vec::new()]);
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(state) = all.get(at).cloned() {
        if let Some(fault) = model.fault(&state) {
            return Err((fault, state));
        }
        if model.is_end(&state) {
            ends.push(at);
        }
        for next in model.all_after(&state) {
            let number = *numbers.entry(next.clone()).or_insert_with(|| {
                all.push(next);
                before.push(Vec::new());
                all.len() - 1
            });
            before[number].push(at);
        }
        at += 1;
    }
    let mut leads_on = vec![false; all.len()];
    while let Some(end) = ends.pop() {
        if !std::mem::replace(&mut leads_on[end], true) {
            ends.extend(&before[end]);
        }
    }
    match leads_on.iter().position(|leads| !leads) {
        Some(stuck) => Err(("there is no way to an end", all.swap_remove(stuck))),
        None => Ok(all.len()),
    }
}
