//! Primitives: operations whose result is not a function of the program's state.
//!
//! While recording the result is computed and noted, while replaying it is the noted one and nothing
//! is computed. The functions without `try_` panic where they have no result, with the sentence of the
//! [`Halt`]: a made-up value would be a silent wrong answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::halt::Halt;
use crate::recording;
use crate::scoped::{Scoped, fork};
use crate::task::Task;

/// The current task; `None` if there is none and need not be.
pub(crate) fn task(name: &str) -> Result<Option<Task>, Halt> {
    match Task::current() {
        Some(task) => Ok(Some(task)),
        None if recording::is_on() => Err(Halt::NoTask(name.to_owned())),
        None => Ok(None),
    }
}

/// The result of `compute`, or the recorded one.
pub fn try_nondet<T: Serialize + DeserializeOwned>(
    name: &str,
    compute: impl FnOnce() -> T,
) -> Result<T, Halt> {
    let Some(task) = task(name)? else {
        return Ok(compute());
    };
    let number = task.begin()?;
    if let Some(value) = task.recorded(number, name)? {
        return Ok(value);
    }
    let value = compute();
    task.note(number, name, &value)?;
    Ok(value)
}

/// As [`try_nondet`], and panics where that fails.
pub fn nondet<T: Serialize + DeserializeOwned>(name: &str, compute: impl FnOnce() -> T) -> T {
    try_nondet(name, compute).unwrap_or_else(|halt| panic!("{halt}"))
}

/// The first of two futures to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first one's result.
    First(A),
    /// The second one's.
    Second(B),
}

/// Runs two futures side by side, as children of the current task, until one ends; the other is given
/// up. Which one it was is recorded, and how far the other one had come.
pub async fn select<A: Future, B: Future>(
    name: &str,
    first: A,
    second: B,
) -> Result<Either<A::Output, B::Output>, Halt> {
    let task = task(name)?;
    let (first, second) = (fork(first), fork(second));
    let Some(task) = task else {
        return Ok(race(first, second, |_| true).await);
    };
    let number = task.begin_or_stay().await;
    match task.recorded(number, name) {
        Ok(Some(is_first)) => Ok(race(first, second, |won| won == is_first).await),
        Ok(None) => {
            // Its end takes down how far the loser came, before the choice is noted.
            let won = race(first, second, |_| true).await;
            task.note(number, name, &matches!(won, Either::First(_)))?;
            Ok(won)
        }
        // Neither had ended; both go as far as they did then.
        Err(Halt::Over) => Err(task.until_end(race(first, second, |_| false)).await),
        Err(halt) => Err(halt),
    }
}

/// The last branch of [`select!`](crate::select!).
#[doc(hidden)]
pub async fn last_branch<F: Future>(future: F) -> Result<F::Output, Halt> {
    Ok(future.await)
}

/// `future` for as long as `sleep` does not end; `None` if it does first. A replay of that does not
/// sleep.
pub async fn timeout<F: Future>(
    name: &str,
    sleep: impl Future<Output = ()>,
    future: F,
) -> Result<Option<F::Output>, Halt> {
    let replays = Task::current().is_some_and(|task| task.is_replay());
    let sleep = async move {
        if !replays {
            sleep.await;
        }
    };
    Ok(match select(name, future, sleep).await? {
        Either::First(result) => Some(result),
        Either::Second(()) => None,
    })
}

/// Asks whether a future has ended (the paper's TestSpawn): its result if so. One that had ended in the
/// recording is waited for in the replay.
pub async fn test<F: Future>(
    name: &str,
    mut future: Pin<&mut F>,
) -> Result<Option<F::Output>, Halt> {
    let Some(task) = task(name)? else {
        return Ok(once(future).await);
    };
    let number = task.begin_or_stay().await;
    match task.recorded(number, name)? {
        Some(true) => Ok(Some(future.await)),
        Some(false) => Ok(None),
        None => {
            let result = once(future.as_mut()).await;
            task.note(number, name, &result.is_some())?;
            Ok(result)
        }
    }
}

async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    })
    .await
}

/// Polls both until one has ended that `counts` (true: the first), and the other has come as far as
/// it did in the recording.
async fn race<A: Future, B: Future>(
    first: Scoped<A>,
    second: Scoped<B>,
    counts: impl Fn(bool) -> bool,
) -> Either<A::Output, B::Output> {
    let tasks = [first.task().cloned(), second.task().cloned()];
    let far = |task: &Option<Task>| task.as_ref().is_none_or(Task::at_limit);
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut of_first, mut of_second) = (None, None);
    poll_fn(|cx| {
        for polls_second in [false, true] {
            if polls_second {
                poll_into(&mut of_second, second.as_mut(), cx);
            } else {
                poll_into(&mut of_first, first.as_mut(), cx);
            }
            if counts(true)
                && far(&tasks[1])
                && let Some(result) = of_first.take()
            {
                return Poll::Ready(Either::First(result));
            }
            if counts(false)
                && far(&tasks[0])
                && let Some(result) = of_second.take()
            {
                return Poll::Ready(Either::Second(result));
            }
        }
        Poll::Pending
    })
    .await
}

fn poll_into<F: Future>(
    result: &mut Option<F::Output>,
    future: Pin<&mut F>,
    cx: &mut std::task::Context<'_>,
) {
    if result.is_none()
        && let Poll::Ready(ready) = future.poll(cx)
    {
        *result = Some(ready);
    }
}
