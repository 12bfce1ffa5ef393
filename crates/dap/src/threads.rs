//! The recorded threads. The client identifies a thread by its recorded id: a thread that comes
//! into being again gets a new number from gdb.

use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal};
use crate::program::Thread;
use crate::session::Session;

impl Session {
    /// Asks gdb for its threads, and tells the client the changes.
    pub(crate) fn look_at_threads(&mut self) -> Result<(), Refusal> {
        let answer = self.ask("-thread-info")?;
        let mut threads: Vec<Thread> = answer
            .list("threads")
            .iter()
            .filter_map(Thread::read)
            .collect();
        threads.sort_by_key(|t| t.id);
        let old = std::mem::replace(&mut self.threads, threads);
        let is_in = |all: &[Thread], id| all.iter().any(|t| t.id == id);
        for t in old.iter().filter(|t| !is_in(&self.threads, t.id)) {
            let body = json!({ "reason": "exited", "threadId": t.id });
            self.pen.event("thread", body);
        }
        for t in self.threads.iter().filter(|t| !is_in(&old, t.id)) {
            let body = json!({ "reason": "started", "threadId": t.id });
            self.pen.event("thread", body);
        }
        Ok(())
    }

    pub(crate) fn list_threads(&mut self, _: &Json) -> Answer {
        let all: Vec<Json> = self
            .threads
            .iter()
            .map(|t| json!({ "id": t.id, "name": t.name }))
            .collect();
        Ok(json!({ "threads": all }))
    }

    /// gdb's number of a thread.
    pub(crate) fn thread(&self, id: i64) -> Result<u32, Refusal> {
        let found = self.threads.iter().find(|t| t.id == id);
        found
            .map(|t| t.gdb)
            .ok_or_else(|| format!("there is no thread {id} here").into())
    }

    /// The recorded id of a thread of gdb's.
    pub(crate) fn thread_of(&self, gdb: Option<u32>) -> Option<i64> {
        let found = self.threads.iter().find(|t| Some(t.gdb) == gdb);
        found.or(self.threads.first()).map(|t| t.id)
    }
}
