//! `relive rpc causality`: which receipt led to which.

use std::collections::HashMap;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_rpc::{NameId, Origin, Path, Receipt, TaskId};
use serde_json::json;

use super::recording::Recording;
use crate::args::RpcCausalityArgs;
use crate::output;

/// A receipt: tape, lane and place.
type Key = (NameId, NameId, u64);

/// A task's family: the common part of its receipts.
type Family = TaskId;

/// One receipt.
struct Node<'a> {
    key: Key,
    receipt: &'a Receipt,
}

/// Receipts, and the effects of each.
struct Graph<'a> {
    recording: &'a Recording,
    nodes: Vec<Node<'a>>,
    by_key: HashMap<Key, usize>,
    children: HashMap<Family, Vec<usize>>,
}

fn family(task: &TaskId) -> Family {
    let path = Path::default();
    TaskId { path, ..*task }
}

impl<'a> Graph<'a> {
    fn new(recording: &'a Recording) -> Self {
        let mut nodes = Vec::new();
        for tape in &recording.tapes {
            for lane in &tape.lanes {
                let receipts = (0..).zip(&lane.receipts);
                nodes.extend(receipts.map(|(place, receipt)| Node {
                    key: (tape.process.id(), lane.name.id(), place),
                    receipt,
                }));
            }
        }
        // A sender's receipts in the order of its operations; one that came twice, as received.
        nodes.sort_by_key(|node| (node.receipt.id, node.key));
        let mut children: HashMap<Family, Vec<usize>> = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            let of = family(&node.receipt.id.task);
            children.entry(of).or_default().push(at);
        }
        let by_key = nodes.iter().enumerate().map(|(at, node)| (node.key, at));
        Self {
            recording,
            by_key: by_key.collect(),
            nodes,
            children,
        }
    }

    /// The receipt whose handling sent this one.
    fn cause(&self, at: usize) -> Option<usize> {
        let task = &self.nodes[at].receipt.id.task;
        match task.origin {
            Origin::Gate(lane, place) => self.by_key.get(&(task.process, lane, place)).copied(),
            Origin::Root(_) | Origin::Outside(_) => None,
        }
    }

    fn led_to(&self, at: usize) -> &[usize] {
        let (process, lane, place) = self.nodes[at].key;
        let family = TaskId {
            process,
            origin: Origin::Gate(lane, place),
            path: Path::default(),
        };
        self.children.get(&family).map_or(&[], Vec::as_slice)
    }

    /// `PROCESS/LANE#PLACE`.
    fn name(&self, at: usize) -> String {
        let (process, lane, place) = self.nodes[at].key;
        let (process, lane) = (self.recording.named(process), self.recording.named(lane));
        format!("{process}/{lane}#{place}")
    }

    /// Every receipt with its depth, each below its cause.
    fn forest(&self) -> Vec<(usize, usize)> {
        let tops = (0..self.nodes.len()).filter(|&at| self.cause(at).is_none());
        let mut stack: Vec<(usize, usize)> = tops.map(|at| (at, 0)).collect();
        stack.reverse();
        let (mut order, mut seen) = (Vec::new(), vec![false; self.nodes.len()]);
        while let Some((at, depth)) = stack.pop() {
            // Forged identities may go round in circles.
            if !std::mem::replace(&mut seen[at], true) {
                order.push((at, depth));
                let below = self.led_to(at).iter().rev();
                stack.extend(below.map(|&below| (below, depth + 1)));
            }
        }
        order
    }

    /// The receipts that led to one, the first one first.
    fn chain(&self, of: &str) -> Option<Vec<(usize, usize)>> {
        let at = (0..self.nodes.len()).find(|&at| self.name(at) == of)?;
        let mut chain = vec![at];
        while let Some(cause) = chain.last().and_then(|&at| self.cause(at)) {
            if chain.contains(&cause) {
                break;
            }
            chain.push(cause);
        }
        chain.reverse();
        Some((0..).zip(chain).map(|(depth, at)| (at, depth)).collect())
    }
}

/// Shows the receipts.
pub fn execute(args: &RpcCausalityArgs) -> Result<EndStatus, Failure> {
    let recording = Recording::open(&args.dir)?;
    let graph = Graph::new(&recording);
    let shown = match &args.of {
        None => graph.forest(),
        Some(of) => graph.chain(of).ok_or_else(|| {
            Failure::setup(format!(
                "the recording has no receipt {of}: they are PROCESS/LANE#PLACE"
            ))
        })?,
    };
    output::print(|out| {
        for (at, depth) in shown {
            let request = recording.request(graph.nodes[at].receipt.id);
            let entry = recording.named(graph.nodes[at].receipt.entry);
            let name = graph.name(at);
            if args.json {
                let object = json!({
                    "receipt": name, "entry": entry, "request": request, "depth": depth,
                    "cause": graph.cause(at).map(|cause| graph.name(cause)),
                });
                writeln!(out, "{object}")?;
            } else {
                // Deeper than a screen is wide, the number says it.
                let indent = match depth {
                    0..=20 => "  ".repeat(depth),
                    _ => format!("{}({depth}) ", "  ".repeat(20)),
                };
                writeln!(out, "{indent}{name} <- {request}")?;
            }
        }
        Ok(())
    })
}
