//! Two executors: threads that take ready tasks at random, and one thread whose every choice is given.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Random numbers that threads may share.
pub struct Rng(Mutex<relive_sched::Rng>);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(relive_sched::Rng::new(seed)))
    }

    /// The next one below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.lock().unwrap().below(bound)
    }
}

/// Chooses one of so many ready tasks.
pub type Choose = Box<dyn FnMut(usize) -> usize + Send>;

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    ready: VecDeque<Arc<Cell>>,
    unfinished: usize,
    choose: Choose,
    end: bool,
}

struct Cell {
    future: Mutex<Option<Boxed>>,
    queued: Mutex<bool>,
    shared: Arc<Shared>,
}

impl Wake for Cell {
    fn wake(self: Arc<Self>) {
        let mut queued = self.queued.lock().unwrap();
        if !std::mem::replace(&mut *queued, true) {
            drop(queued);
            let shared = self.shared.clone();
            shared.state.lock().unwrap().ready.push_back(self);
            shared.changed.notify_all();
        }
    }
}

impl Cell {
    fn poll(self: &Arc<Self>) {
        let mut future = self.future.lock().unwrap();
        *self.queued.lock().unwrap() = false;
        let waker = Waker::from(self.clone());
        let Some(running) = future.as_mut() else {
            return;
        };
        if let Poll::Ready(()) = running.as_mut().poll(&mut Context::from_waker(&waker)) {
            *future = None;
            self.shared.state.lock().unwrap().unfinished -= 1;
            self.shared.changed.notify_all();
        }
    }
}

/// Runs futures.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

impl Executor {
    pub fn new(choose: Choose) -> Self {
        let state = State {
            ready: VecDeque::new(),
            unfinished: 0,
            choose,
            end: false,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let cell = Arc::new(Cell {
            future: Mutex::new(Some(Box::pin(future))),
            queued: Mutex::new(false),
            shared: self.0.clone(),
        });
        self.0.state.lock().unwrap().unfinished += 1;
        cell.wake();
    }

    /// Polls ready tasks in this thread until none is ready; whether all have ended.
    pub fn run_here(&self) -> bool {
        loop {
            let mut state = self.0.state.lock().unwrap();
            if state.ready.is_empty() {
                return state.unfinished == 0;
            }
            let ready = state.ready.len();
            let chosen = if ready == 1 { 0 } else { (state.choose)(ready) };
            let cell = state.ready.remove(chosen).unwrap();
            drop(state);
            cell.poll();
        }
    }

    /// Polls with so many threads until all tasks have ended; false if they do not in time.
    pub fn run(&self, threads: usize, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.work());
            }
            let mut state = self.0.state.lock().unwrap();
            while state.unfinished > 0 && Instant::now() < deadline {
                let wait = Duration::from_millis(100);
                state = self.0.changed.wait_timeout(state, wait).unwrap().0;
            }
            state.end = true;
            self.0.changed.notify_all();
            state.unfinished == 0
        })
    }

    fn work(&self) {
        loop {
            let mut state = self.0.state.lock().unwrap();
            while state.ready.is_empty() && !state.end {
                state = self.0.changed.wait(state).unwrap();
            }
            if state.end {
                return;
            }
            let ready = state.ready.len();
            let chosen = (state.choose)(ready);
            let cell = state.ready.remove(chosen).unwrap();
            drop(state);
            cell.poll();
        }
    }
}

/// Runs a future in this thread, with others that it spawns nowhere.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Lets others run first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// One value from one task to another.
pub struct Slot<T>(Mutex<(Option<T>, Option<Waker>)>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Mutex::new((None, None)))
    }
}

impl<T> Slot<T> {
    pub fn put(&self, value: T) {
        let mut slot = self.0.lock().unwrap();
        slot.0 = Some(value);
        let waker = slot.1.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }

    pub async fn take(&self) -> T {
        std::future::poll_fn(|cx| {
            let mut slot = self.0.lock().unwrap();
            match slot.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    slot.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
