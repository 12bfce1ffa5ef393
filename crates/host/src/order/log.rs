//! The edges that a thread has logged. They must never be dropped: without room for one the process
//! ends.

use super::edge::{Edge, MANY_EDGES};
use crate::context::Context;

impl Context {
    /// The edges that the thread has logged since [`Context::clear_edges`], oldest first.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        let room = self.edges.as_ref().map_or(&[][..], |room| &room[..]);
        &room[..self.edge_count as usize]
    }

    /// The engine has taken the edges.
    pub fn clear_edges(&mut self) {
        self.edge_count = 0;
    }

    /// Whether the engine should take the edges soon.
    #[must_use]
    pub fn has_many_edges(&self) -> bool {
        self.edge_count as usize > MANY_EDGES
    }

    pub(super) fn log_edge(&mut self, edge: Edge) {
        let at = self.edge_count as usize;
        let place = self.edges.as_mut().and_then(|room| room.get_mut(at));
        *place.expect("room for an edge") = edge;
        self.edge_count += 1;
    }
}
