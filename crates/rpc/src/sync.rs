//! A lock and a channel whose order is recorded as that of an entry point.
//!
//! A lock is an exclusive entry point that tasks of its own process ask; sending is a request to a
//! channel. Both work as usual while nothing is recorded.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crate::gate::{Gate, Permit};
use crate::halt::Halt;
use crate::lane::lock;
use crate::outcome::OpenError;
use crate::record::LaneKind;
use crate::session::Session;

/// A mutual exclusion whose order of acquisition is recorded. Clones are the same lock.
pub struct Lock<T> {
    gate: Arc<Gate>,
    /// `None` while it is held.
    value: Arc<Mutex<Option<Box<T>>>>,
}

impl<T> Clone for Lock<T> {
    fn clone(&self) -> Self {
        Self {
            gate: self.gate.clone(),
            value: self.value.clone(),
        }
    }
}

/// A held lock.
pub struct Guard<T> {
    value: Option<Box<T>>,
    home: Arc<Mutex<Option<Box<T>>>>,
    /// Given back after the value.
    _permit: Permit,
}

impl<T> Lock<T> {
    /// Waits for the lock. Asked for by the current task.
    pub async fn acquire(&self) -> Result<Guard<T>, Halt> {
        let permit = self.gate.acquire().await?;
        let value = lock(&self.value).take();
        Ok(Guard {
            value: Some(value.expect("one holds the lock at a time")),
            home: self.value.clone(),
            _permit: permit,
        })
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
            .as_deref()
            .expect("it is here until the guard goes")
    }
}

impl<T> DerefMut for Guard<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
            .as_deref_mut()
            .expect("it is here until the guard goes")
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        *lock(&self.home) = self.value.take();
    }
}

impl Session {
    /// A lock around a value. Its name is its identity: it must be the same in every run.
    pub fn lock<T>(&self, name: &str, value: T) -> Result<Lock<T>, OpenError> {
        let gate = self.gate(LaneKind::Lock, Self::name(name)?)?;
        let value = Arc::new(Mutex::new(Some(Box::new(value))));
        Ok(Lock { gate, value })
    }

    /// A channel without a bound: many senders, one receiver.
    pub fn channel<T>(&self, name: &str) -> Result<(Sender<T>, Receiver<T>), OpenError> {
        let gate = self.gate(LaneKind::Channel, Self::name(name)?)?;
        let queue = Arc::new(Mutex::new(Queue {
            values: VecDeque::new(),
            senders: 1,
            receiver: None,
        }));
        let sender = Sender {
            gate,
            queue: queue.clone(),
        };
        Ok((sender, Receiver { queue }))
    }
}

struct Queue<T> {
    values: VecDeque<T>,
    senders: usize,
    receiver: Option<Waker>,
}

/// Sends into a channel.
pub struct Sender<T> {
    gate: Arc<Gate>,
    queue: Arc<Mutex<Queue<T>>>,
}

/// Takes from a channel.
pub struct Receiver<T> {
    queue: Arc<Mutex<Queue<T>>>,
}

impl<T> Sender<T> {
    /// Sends a value, by the current task. One that nobody takes any more is lost without a word:
    /// whether a receiver is still there is a matter of time.
    pub async fn send(&self, value: T) -> Result<(), Halt> {
        let _permit = self.gate.acquire().await?;
        let mut queue = lock(&self.queue);
        queue.values.push_back(value);
        let receiver = queue.receiver.take();
        drop(queue);
        receiver.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.queue).senders += 1;
        Self {
            gate: self.gate.clone(),
            queue: self.queue.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue);
        queue.senders -= 1;
        let receiver = match queue.senders {
            0 => queue.receiver.take(),
            _ => None,
        };
        drop(queue);
        receiver.into_iter().for_each(Waker::wake);
    }
}

impl<T> Receiver<T> {
    /// The next value; `None` when no sender is left.
    pub async fn receive(&mut self) -> Option<T> {
        poll_fn(|cx| {
            let mut queue = lock(&self.queue);
            match queue.values.pop_front() {
                Some(value) => Poll::Ready(Some(value)),
                None if queue.senders == 0 => Poll::Ready(None),
                None => {
                    queue.receiver = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
