//! The layers: two services and their clients, recorded and replayed; and peers that lie.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::executor::{Executor, Rng, Slot, block_on, yield_now};
use http::{Request, Response, StatusCode};
use relive_rpc::tower::{HALT_NAME, Receive, Receiving, Send as SendLayer};
use relive_rpc::{
    CallError, HEADER_NAME, Header, Keep, Kind, NameId, Origin, Outcome, Path, RequestId, Session,
    Tape, TaskId,
};
use tower_layer::Layer;
use tower_service::Service;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Handler = Arc<dyn Fn(String) -> Boxed<String> + Send + Sync>;

/// A service out of a function, which may have a limit.
struct Function {
    handler: Handler,
    places: Option<Arc<Places>>,
    held: Option<Place>,
}

impl Clone for Function {
    fn clone(&self) -> Self {
        Self {
            handler: self.handler.clone(),
            places: self.places.clone(),
            held: None,
        }
    }
}

impl Function {
    fn new(handler: Handler) -> Self {
        Self {
            handler,
            places: None,
            held: None,
        }
    }
}

/// So many may be under way; the others wait.
struct Places(Mutex<(usize, Vec<Waker>)>);

/// One of them, given back when it goes.
struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.0.0.lock().unwrap();
        places.0 += 1;
        let wakers = std::mem::take(&mut places.1);
        drop(places);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Service<Request<String>> for Function {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Boxed<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if let (Some(all), None) = (&self.places, &self.held) {
            let mut places = all.0.lock().unwrap();
            if places.0 == 0 {
                places.1.push(cx.waker().clone());
                return Poll::Pending;
            }
            places.0 -= 1;
            self.held = Some(Place(all.clone()));
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let held = self.held.take();
        assert_eq!(held.is_some(), self.places.is_some(), "it was ready");
        let answer = (self.handler)(request.into_body());
        Box::pin(async move {
            let answer = answer.await;
            yield_now().await;
            drop(held);
            Ok(Response::new(answer))
        })
    }
}

/// A connection: each request is carried by a task of its own, and some take longer.
#[derive(Clone)]
struct Wire {
    to: Receiving<Function>,
    executor: Executor,
    rng: Arc<Rng>,
    /// One of so many requests is lost.
    fails: u64,
}

impl Service<Request<String>> for Wire {
    type Response = Response<String>;
    type Error = String;
    type Future = Boxed<Result<Response<String>, String>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let (to, rng, answer) = (self.to.clone(), self.rng.clone(), Arc::new(Slot::default()));
        if request.body() == "lost" && rng.below(self.fails) == 0 {
            return Box::pin(async { Err("the line is cut".to_owned()) });
        }
        let end = answer.clone();
        self.executor.spawn(async move {
            for _ in 0..rng.below(10) {
                yield_now().await;
            }
            // A clone is not ready, whatever it is a clone of.
            let mut to = to;
            let ready = poll_fn(|cx| to.poll_ready(cx)).await;
            ready.expect("it cannot fail");
            end.put(to.call(request).await.expect("it cannot fail"));
        });
        Box::pin(async move { Ok(answer.take().await) })
    }
}

/// The bank's lost update: each of two clients reads a balance and writes it back with its amount.
fn bank(
    sessions: &[Session; 2],
    fails: u64,
    seed: u64,
    limit: Option<usize>,
) -> (u64, Vec<String>) {
    let rng = Arc::new(Rng::new(seed));
    let choose = rng.clone();
    let executor = Executor::new(Box::new(move |ready| choose.below(ready as u64) as usize));
    let balance = Arc::new(Mutex::new(0));
    let account = balance.clone();
    let handler: Handler = Arc::new(move |body| {
        let mut balance = account.lock().unwrap();
        if let Some(amount) = body.strip_prefix("set ") {
            *balance = amount.parse().unwrap();
        }
        let answer = balance.to_string();
        Box::pin(async { answer })
    });
    let entry = sessions[0].exclusive("/account").unwrap();
    let layer = Receive::by_path([("/account", entry)]);
    let wire = Wire {
        to: layer.layer(Function {
            places: limit.map(|limit| Arc::new(Places(Mutex::new((limit, Vec::new()))))),
            ..Function::new(handler)
        }),
        executor: executor.clone(),
        rng,
        fails,
    };
    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    for client in 0..3u64 {
        let (wire, failures) = (SendLayer.layer(wire.clone()), failures.clone());
        let ask = move |text: String| {
            let request = Request::builder().uri("/account").body(text).unwrap();
            let mut wire = wire.clone();
            async move { wire.call(request).await.map(Response::into_body) }
        };
        let root = sessions[1]
            .root(&format!("client{client}"))
            .unwrap()
            .unwrap();
        executor.spawn(root.scope(async move {
            for _ in 0..3 {
                let Ok(before) = ask("get".to_owned()).await else {
                    return;
                };
                match ask("lost".to_owned()).await {
                    Ok(_) => {}
                    Err(CallError::Failed(text)) => {
                        failures.lock().unwrap().push(format!("{client}: {text}"));
                    }
                    Err(_) => return,
                }
                let sum = before.parse::<u64>().unwrap() + (1 << (8 * client));
                let _ = ask(format!("set {sum}")).await;
            }
        }));
    }
    assert!(executor.run(2, Duration::from_secs(60)));
    let (balance, mut failures) = (*balance.lock().unwrap(), failures.lock().unwrap().clone());
    failures.sort();
    (balance, failures)
}

#[test]
fn a_lost_update_is_replayed() {
    let mut balances = std::collections::BTreeSet::new();
    for seed in 0..20 {
        // With a limit, requests that wait for their turn must not have its places.
        let limit = [None, Some(1), Some(2)][seed as usize % 3];
        let open = |name| Session::record_in_memory(name, Keep::Order).unwrap();
        let sessions = [open("bank"), open("clients")];
        let recorded = bank(&sessions, 5, seed, limit);
        let tapes = sessions.map(|session| session.finish_in_memory());
        for round in 0..10 {
            let open = |name| {
                let tapes = tapes
                    .iter()
                    .map(|bytes| Tape::parse(bytes).unwrap())
                    .collect();
                Session::replay_tapes(tapes, name, Some(Duration::from_secs(30))).unwrap()
            };
            let sessions = [open("bank"), open("clients")];
            let replayed = bank(&sessions, u64::MAX, seed * 1000 + round + 1, limit);
            assert_eq!(replayed, recorded);
            assert_eq!(sessions[0].outcome(), Outcome::Over);
        }
        balances.insert(recorded);
    }
    assert!(balances.len() > 1, "recordings differ");
}

#[test]
fn a_failure_of_the_replay_alone_is_no_answer() {
    let open = |name| Session::record_in_memory(name, Keep::Order).unwrap();
    let sessions = [open("bank"), open("clients")];
    bank(&sessions, u64::MAX, 1, None);
    let tapes = sessions.map(|session| session.finish_in_memory());
    let open = |name| {
        let tapes = tapes
            .iter()
            .map(|bytes| Tape::parse(bytes).unwrap())
            .collect();
        Session::replay_tapes(tapes, name, Some(Duration::from_secs(1))).unwrap()
    };
    let sessions = [open("bank"), open("clients")];
    bank(&sessions, 1, 1, None);
    let Outcome::Diverged(divergence) = sessions[1].outcome() else {
        panic!("the clients diverge");
    };
    assert_eq!(divergence.kind, Kind::Transport);
    assert_eq!(divergence.actual, "the line is cut");
}

#[test]
fn what_peers_forge_is_refused_or_harmless() {
    let session = Session::record_in_memory("server", Keep::Order).unwrap();
    let handler: Handler = Arc::new(|body| Box::pin(async { body }));
    let mut service =
        Receive::new(session.exclusive("entry").unwrap()).layer(Function::new(handler));
    let mut ask = |headers: &[&str]| {
        let mut request = Request::builder().uri("/");
        for header in headers {
            request = request.header(HEADER_NAME, *header);
        }
        let request = request.body("hello".to_owned()).unwrap();
        block_on(service.call(request)).unwrap()
    };
    let header = |process, origin| {
        let task = TaskId {
            process,
            origin,
            path: Path::default().child(1),
        };
        let id = RequestId { task, number: 7 };
        let header = Header {
            id,
            content: None,
            epoch: u64::MAX,
            known: None,
        };
        header.to_text().to_string()
    };
    let good = header(NameId::from_hash(1), Origin::Root(NameId::from_hash(2)));
    let good = good.as_str();
    let long = "1".repeat(100_000);
    let wrong: [&[&str]; 8] = [
        &[""],
        &["4"],
        &["2;0000000000000001;r0000000000000002;0.1;7;;0"],
        &[good, good],
        &[&long],
        &["4====================================="],
        &[&good[..good.len() - 1]],
        &[&good[1..]],
    ];
    for headers in wrong {
        let response = ask(headers);
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert!(response.headers().contains_key(HALT_NAME));
        assert_eq!(response.body(), "", "the handler was not asked");
    }
    // The same identity again and again, and one of a far place of this very process.
    let far = header(
        session.process().id(),
        Origin::Gate(NameId::of("entry"), u64::MAX),
    );
    for header in [good, good, far.as_str()] {
        assert_eq!(ask(&[header]).body(), "hello");
    }
    assert_eq!(ask(&[]).body(), "hello", "from outside");
    // A value beside it that says nothing, also where a proxy made one of both.
    for headers in [&["-", good][..], &[&format!("-, {good}")], &["-"]] {
        assert_eq!(ask(headers).body(), "hello");
    }
    let tape = Tape::parse(&session.finish_in_memory()).unwrap();
    let ids = tape.lanes[0].receipts.iter().map(|receipt| receipt.id);
    let [first, again, .., outside, beside, joined, alone] = ids.collect::<Vec<_>>()[..] else {
        panic!("all of them were received");
    };
    assert_eq!([again, beside, joined], [first; 3]);
    assert_eq!(
        outside.task, alone.task,
        "what says nothing is from outside"
    );
    assert_eq!(tape.lanes[0].receipts.len(), 7);
}

/// A replay admits each as often as it was recorded, and answers one that comes again with a reason.
#[test]
fn what_comes_again_is_refused_by_a_replay() {
    let task = TaskId {
        process: NameId::of("client"),
        origin: Origin::Root(NameId::of("main")),
        path: Path::default(),
    };
    let header = |number| {
        let header = Header {
            id: RequestId { task, number },
            content: None,
            epoch: 0,
            known: None,
        };
        header.to_text().to_string()
    };
    let ask = |session: &Session, numbers: &[u64]| -> Vec<Response<String>> {
        let handler: Handler = Arc::new(|body| Box::pin(async { body }));
        let entry = session.exclusive("entry").unwrap();
        let mut service = Receive::new(entry).layer(Function::new(handler));
        let ask = |number: &u64| {
            let request = Request::builder().header(HEADER_NAME, header(*number));
            let request = request.body("hello".to_owned()).unwrap();
            block_on(service.call(request)).unwrap()
        };
        numbers.iter().map(ask).collect()
    };
    let session = Session::record_in_memory("server", Keep::Order).unwrap();
    ask(&session, &[0, 1, 2]);
    let tape = Tape::parse(&session.finish_in_memory()).unwrap();
    let session = Session::replay_tapes(vec![tape], "server", None).unwrap();
    let answers = ask(&session, &[0, 1, 0, 2]);
    assert_eq!(answers[1].body(), "hello");
    assert_eq!(answers[2].status(), StatusCode::SERVICE_UNAVAILABLE);
    let reason = answers[2].headers()[HALT_NAME].to_str().unwrap();
    assert!(reason.contains("once more"), "{reason}");
    assert_eq!(answers[3].status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(matches!(session.outcome(), Outcome::Diverged(_)));
}

#[test]
fn while_off_everything_passes() {
    let session = Session::off("server").unwrap();
    let handler: Handler = Arc::new(|body| Box::pin(async { body }));
    let mut service =
        Receive::new(session.entry_point("entry").unwrap()).layer(Function::new(handler));
    let request = Request::builder()
        .header(HEADER_NAME, "nonsense")
        .body("hello".to_owned());
    assert_eq!(
        block_on(service.call(request.unwrap())).unwrap().body(),
        "hello"
    );
}
