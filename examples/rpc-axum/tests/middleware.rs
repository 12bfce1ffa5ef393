//! What services put around the layers, as tower has it: retries, hedges, time limits, limits of concurrency,
//! buffers and balancers. Each request of them has an identity of its own, and none of them dead-locks with a
//! replay. `RUSTFLAGS= cargo test`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Ready;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use relive_rpc::tower::{Receive, Send as SendLayer};
use relive_rpc::{CallError, Keep, Outcome, RequestId, Session, Tape, fork, nondet, random_below};
use tower::balance::p2c::Balance;
use tower::buffer::Buffer;
use tower::discover::ServiceList;
use tower::hedge::Hedge;
use tower::limit::ConcurrencyLimit;
use tower::load::Constant;
use tower::retry::Retry;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt, service_fn};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Server = BoxCloneSyncService<Request<u64>, Response<u64>, Infallible>;
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How far the time of a step varies.
const STEP: u64 = 400;

const LIMIT: Duration = Duration::from_secs(20);

/// Of no recording: what the network and the machine do.
fn chance(bound: u64) -> u64 {
    RandomState::new().build_hasher().finish() % bound
}

async fn delay() {
    tokio::time::sleep(Duration::from_micros(chance(STEP))).await;
}

/// A connection: a task carries each request there, and its answer back.
#[derive(Clone)]
struct Wire {
    to: Server,
    /// Requests that are carried, also those that nobody waits for any more.
    carried: Arc<AtomicUsize>,
}

impl Service<Request<u64>> for Wire {
    type Response = Response<u64>;
    type Error = CallError;
    type Future = Boxed<Result<Response<u64>, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<u64>) -> Self::Future {
        let Self { to, carried } = self.clone();
        carried.fetch_add(1, Ordering::SeqCst);
        let carried = tokio::spawn(async move {
            delay().await;
            let answer = to.oneshot(request).await;
            delay().await;
            carried.fetch_sub(1, Ordering::SeqCst);
            answer
        });
        Box::pin(async move {
            let answer = carried.await.expect("no connection panics");
            answer.map_err(|never| match never {})
        })
    }
}

/// Adds what it is sent to a sum, slowly, one request after the other; refuses some. The state is the sum of all
/// sums, which depends on their order.
fn counter(state: &Arc<Mutex<Vec<u64>>>, refuses: bool) -> Server {
    let state = state.clone();
    BoxCloneSyncService::new(service_fn(move |request: Request<u64>| {
        let state = state.clone();
        async move {
            delay().await;
            let mut response = Response::new(0);
            if refuses && random_below(3) == 0 {
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                return Ok(response);
            }
            let mut state = state.lock().unwrap();
            state.push(*request.body());
            *response.body_mut() = state.len() as u64;
            Ok(response)
        }
    }))
}

fn request(value: u64) -> Request<u64> {
    Request::builder().uri("/counter").body(value).unwrap()
}

/// Twelve callers with four requests each; what each is answered.
async fn callers<C>(session: &Session, client: C) -> Vec<Vec<Option<u64>>>
where
    C: Service<Request<u64>, Response = Response<u64>> + Clone + Send + 'static,
    C::Future: Send,
    C::Error: Send,
{
    let work = async {
        let caller = |number: u64| {
            let client = client.clone();
            tokio::spawn(fork(async move {
                let mut answers = Vec::new();
                for at in 0..4 {
                    delay().await;
                    let answer = client.clone().oneshot(request(number * 10 + at)).await;
                    answers.push(answer.ok().map(Response::into_body));
                }
                answers
            }))
        };
        let callers: Vec<_> = (0..12).map(caller).collect();
        let mut all = Vec::new();
        for caller in callers {
            all.push(caller.await.unwrap());
        }
        all
    };
    session.run("main", work).await.unwrap()
}

/// All that is seen of a run.
type Seen = (Vec<u64>, Vec<Vec<Option<u64>>>);

/// Runs a client around a server, in sessions of both.
async fn once<F, C>(sessions: &[Session; 2], refuses: bool, limit: Option<usize>, around: F) -> Seen
where
    F: Fn(&Session, Wire) -> C,
    C: Service<Request<u64>, Response = Response<u64>> + Clone + Send + 'static,
    C::Future: Send,
    C::Error: Send,
{
    let state = Arc::default();
    let inner = counter(&state, refuses);
    let inner = match limit {
        Some(limit) => BoxCloneSyncService::new(ConcurrencyLimit::new(inner, limit)),
        None => inner,
    };
    let receive = Receive::new(sessions[0].exclusive("counter").unwrap());
    let wire = Wire {
        to: BoxCloneSyncService::new(receive.layer(inner)),
        carried: Arc::default(),
    };
    let carried = wire.carried.clone();
    let answers = callers(&sessions[1], around(&sessions[1], wire)).await;
    while carried.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let state = state.lock().unwrap().clone();
    (state, answers)
}

fn recording() -> [Session; 2] {
    ["server", "clients"].map(|name| Session::record_in_memory(name, Keep::Order).unwrap())
}

fn tapes(sessions: [Session; 2]) -> [Vec<u8>; 2] {
    sessions.map(|session| session.finish_in_memory())
}

fn replaying(tapes: &[Vec<u8>; 2]) -> [Session; 2] {
    ["server", "clients"].map(|name| {
        let tapes = tapes.iter().map(|bytes| Tape::parse(bytes).unwrap());
        Session::replay_tapes(tapes.collect(), name, Some(LIMIT)).unwrap()
    })
}

/// The identities that the server received; each once.
fn identities(tapes: &[Vec<u8>; 2]) -> BTreeSet<RequestId> {
    let tape = Tape::parse(&tapes[0]).unwrap();
    let lane = tape
        .lanes
        .iter()
        .find(|lane| lane.name.as_str() == "counter")
        .unwrap();
    let ids: BTreeSet<_> = lane.receipts.iter().map(|receipt| receipt.id).collect();
    assert_eq!(ids.len(), lane.receipts.len(), "each request has its own");
    ids
}

/// Records once, and replays ten times with other delays.
async fn replays<F, C>(refuses: bool, limit: Option<usize>, around: F) -> BTreeSet<RequestId>
where
    F: Fn(&Session, Wire) -> C,
    C: Service<Request<u64>, Response = Response<u64>> + Clone + Send + 'static,
    C::Future: Send,
    C::Error: Send,
{
    let sessions = recording();
    let recorded = once(&sessions, refuses, limit, &around).await;
    let tapes = tapes(sessions);
    for _ in 0..10 {
        let sessions = replaying(&tapes);
        let replayed = once(&sessions, refuses, limit, &around).await;
        let outcomes = sessions.map(|session| session.outcome());
        assert_eq!(outcomes[0], Outcome::Over);
        assert_eq!(replayed, recorded);
    }
    identities(&tapes)
}

/// Asks again where it was refused, five times.
#[derive(Clone)]
struct Again(usize);

impl<E> tower::retry::Policy<Request<u64>, Response<u64>, E> for Again {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<u64>,
        result: &mut Result<Response<u64>, E>,
    ) -> Option<Ready<()>> {
        let refused = result
            .as_ref()
            .is_ok_and(|response| !response.status().is_success());
        self.0 = self.0.checked_sub(1).filter(|_| refused)?;
        Some(std::future::ready(()))
    }

    fn clone_request(&mut self, request: &Request<u64>) -> Option<Request<u64>> {
        Some(self::request(*request.body()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn retries() {
    let around = |_: &Session, wire| Retry::new(Again(5), SendLayer.layer(wire));
    let identities = replays(true, None, around).await;
    assert!(
        identities.len() > 48,
        "some asked again: {}",
        identities.len()
    );
}

/// A second request where the first one takes long.
#[derive(Clone)]
struct Always;

impl tower::hedge::Policy<Request<u64>> for Always {
    fn clone_request(&self, request: &Request<u64>) -> Option<Request<u64>> {
        Some(self::request(*request.body()))
    }

    fn can_retry(&self, _: &Request<u64>) -> bool {
        true
    }
}

/// When tower's sends a second one is a matter of time that nobody records; that each has its own identity
/// holds nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn hedges_by_tower_have_their_identities() {
    let sessions = recording();
    let around = |_: &Session, wire: Wire| {
        let each = Duration::from_secs(10);
        let latencies = [1; 100];
        let client = SendLayer.layer(wire);
        let hedge = Hedge::new_with_mock_latencies(client, Always, 10, 0.5, each, &latencies);
        let hedge = Arc::new(tokio::sync::Mutex::new(hedge));
        service_fn(move |request| {
            let hedge = hedge.clone();
            async move {
                let answer = hedge.lock().await.ready().await?.call(request);
                answer.await
            }
        })
    };
    once(&sessions, false, None, around).await;
    assert!(
        identities(&tapes(sessions)).len() > 48,
        "some were sent twice"
    );
}

/// Two requests, of which the second one begins later; the one that is slower is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn hedges_and_time_limits_of_ours_replay() {
    let around = |_: &Session, wire: Wire| {
        let client = SendLayer.layer(wire);
        service_fn(move |request: Request<u64>| {
            let (first, second) = (client.clone(), client.clone());
            let value = *request.body();
            async move {
                let late = async {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    second.oneshot(self::request(value)).await
                };
                let answer = relive_rpc::select!("hedge":
                    answer = first.oneshot(request) => answer,
                    answer = late => answer,
                );
                answer?
            }
        })
    };
    assert!(replays(false, None, around).await.len() >= 48);

    let around = |_: &Session, wire: Wire| {
        let client = SendLayer.layer(wire);
        service_fn(move |request: Request<u64>| {
            let client = client.clone();
            async move {
                let sleep =
                    tokio::time::sleep(Duration::from_millis(1 + nondet("limit", || chance(8))));
                match relive_rpc::timeout("limit", sleep, client.oneshot(request)).await? {
                    Some(answer) => answer,
                    None => Ok(Response::new(u64::MAX)),
                }
            }
        })
    };
    replays(false, None, around).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_limit_behind_the_gate() {
    for limit in [1, 2] {
        replays(false, Some(limit), |_: &Session, wire| {
            SendLayer.layer(wire)
        })
        .await;
    }
}

/// Limits in front of a gate would keep out the request whose turn it is: they are for live traffic.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_limit_around_the_client() {
    let around = |session: &Session, wire: Wire| {
        let client = SendLayer.layer(wire);
        match session.is_replay() {
            true => BoxCloneSyncService::new(client),
            false => BoxCloneSyncService::new(ConcurrencyLimit::new(client, 3)),
        }
    };
    replays(false, None, around).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn buffers_on_both_sides_of_the_layer() {
    let around = |_: &Session, wire: Wire| {
        let inner: Buffer<Request<u64>, _> = Buffer::new(wire, 2);
        let client = SendLayer.layer(inner.map_err(|error: Failure| error.to_string()));
        // Its worker is no task of the session: requests belong to those who wait for them.
        Buffer::new(client, 2)
    };
    replays(false, None, around).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_balancer_over_connections() {
    let around = |_: &Session, wire: Wire| {
        let connections = [0; 3].map(|_| Constant::new(wire.clone(), 1));
        let balance = Balance::new(ServiceList::new::<Request<u64>>(connections));
        let inner: Buffer<Request<u64>, _> = Buffer::new(balance, 8);
        SendLayer.layer(inner.map_err(|error: Failure| error.to_string()))
    };
    replays(false, None, around).await;
}
