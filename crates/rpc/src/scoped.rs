//! Futures and functions that run as a task.
//!
//! A future that is dropped before its end is a cancelled task, which is noted; one that was cancelled
//! in the recording is dropped in the replay when it begins the operation that it did not begin then.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::current::Entered;
use crate::task::Task;

impl Task {
    /// `future` as this task.
    pub fn scope<F>(self, future: F) -> Scoped<F> {
        Scoped {
            inner: Some(future),
            task: Some(self),
        }
    }

    /// Runs `function` as this task.
    pub fn run<R>(self, function: impl FnOnce() -> R) -> R {
        let mut home = Some(self);
        let _entered = Entered::new(&mut home);
        function()
    }
}

pin_project_lite::pin_project! {
    /// A future that runs as a task; see [`Task::scope`] and [`fork`].
    pub struct Scoped<F> {
        #[pin]
        inner: Option<F>,
        task: Option<Task>,
    }

    impl<F> PinnedDrop for Scoped<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let (Some(task), true) = (this.task.as_ref(), this.inner.is_some()) {
                task.given_up();
                let _entered = Entered::new(this.task);
                this.inner.set(None);
            }
        }
    }
}

impl<F> Scoped<F> {
    /// The future of `begin`, which runs as `task` already; without one, the future as it is.
    #[cfg(feature = "tower")]
    pub(crate) fn begin(mut task: Option<Task>, begin: impl FnOnce() -> F) -> Self {
        let entered = Entered::new(&mut task);
        let inner = Some(begin());
        drop(entered);
        Self { inner, task }
    }

    /// Its task; `None` while off.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            // Stopped: it was cancelled in the recording.
            return Poll::Pending;
        };
        let entered = Entered::new(this.task);
        let poll = inner.poll(cx);
        drop(entered);
        let Some(task) = this.task.as_ref() else {
            return poll;
        };
        let stopped = match &poll {
            Poll::Ready(_) => !task.ended(),
            Poll::Pending => task.is_stopped(),
        };
        if stopped || poll.is_ready() {
            let _entered = Entered::new(this.task);
            this.inner.set(None);
        }
        if stopped { Poll::Pending } else { poll }
    }
}

/// `future` as the next child of the current task: for work that runs beside it. While off the future as
/// it is.
pub fn fork<F: Future>(future: F) -> Scoped<F> {
    Scoped {
        inner: Some(future),
        task: Task::current().map(|task| task.child()),
    }
}

/// `function` as the next child of the current task: for a thread that runs beside it.
pub fn fork_thread<R>(function: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let task = Task::current().map(|task| task.child());
    move || match task {
        Some(task) => task.run(function),
        None => function(),
    }
}
