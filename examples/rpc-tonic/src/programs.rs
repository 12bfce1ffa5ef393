//! Three parallel programs, to count what a recording of them has: a matrix product, branch and bound with
//! work stealing, and a pipeline of streams. The bank is the fourth.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use relive_rpc::tower::{Receive, Send as SendLayer, Sending};
use relive_rpc::{Session, fork};
use tokio_stream::{Stream, StreamExt};
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tower::Layer;

use crate::services::work_client::WorkClient;
use crate::services::work_server::{Work, WorkServer};
use crate::{Numbers, Result, Started, ended, serve};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Answer = std::result::Result<Vec<u64>, Status>;
type Flow = Pin<Box<dyn Stream<Item = std::result::Result<Numbers, Status>> + Send>>;
type Client = WorkClient<Sending<Channel>>;

/// What a process does when it is asked, and with a stream.
#[derive(Clone)]
struct Node {
    ask: Arc<dyn Fn(Vec<u64>) -> Boxed<Answer> + Send + Sync>,
    flow: Arc<dyn Fn(Streaming<Numbers>) -> Boxed<std::result::Result<Flow, Status>> + Send + Sync>,
}

#[tonic::async_trait]
impl Work for Node {
    async fn ask(
        &self,
        request: Request<Numbers>,
    ) -> std::result::Result<Response<Numbers>, Status> {
        let values = (self.ask)(request.into_inner().values).await?;
        Ok(Response::new(Numbers { values }))
    }

    type FlowStream = Flow;

    async fn flow(
        &self,
        request: Request<Streaming<Numbers>>,
    ) -> std::result::Result<Response<Flow>, Status> {
        Ok(Response::new((self.flow)(request.into_inner()).await?))
    }
}

impl Node {
    fn asked<F>(ask: impl Fn(Vec<u64>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let flow = |_| -> Boxed<_> { Box::pin(async { Err(Status::unimplemented("no stream")) }) };
        Self {
            ask: Arc::new(move |values| Box::pin(ask(values))),
            flow: Arc::new(flow),
        }
    }
}

fn client(address: &str) -> Result<Client> {
    let channel = Endpoint::new(format!("http://{address}"))?.connect_lazy();
    Ok(WorkClient::new(SendLayer.layer(channel)))
}

async fn ask(client: &mut Client, values: Vec<u64>) -> Answer {
    Ok(client.ask(Numbers { values }).await?.into_inner().values)
}

async fn serve_node(session: &Session, entry: relive_rpc::EntryPoint, node: Node) -> Result<()> {
    serve(
        session,
        Receive::new(entry),
        Routes::new(WorkServer::new(node)),
    )
    .await
}

/// Starts nodes, runs `main` with their addresses as a process of its own, and ends them.
pub fn all(program: &str, nodes: &[&str]) -> Result<()> {
    let mut started: Vec<Started> = Vec::new();
    for node in nodes {
        let mut words = vec!["node", node];
        words.extend(started.iter().map(|started| started.address.as_str()));
        let next = Started::new(&words)?;
        started.push(next);
    }
    let mut words = vec!["main", program];
    words.extend(started.iter().map(|started| started.address.as_str()));
    let status = std::process::Command::new(std::env::current_exe()?)
        .args(&words)
        .status()?;
    for started in started.into_iter().rev() {
        started.end()?;
    }
    match status.success() {
        true => Ok(()),
        false => Err("the program failed".into()),
    }
}

/// A node by its name; `before` are the addresses of those that were started before it.
pub async fn node(name: &str, before: Vec<String>) -> Result<()> {
    let session = Session::from_env(name)?;
    match name.trim_end_matches(|last: char| last.is_ascii_digit()) {
        "rows" => {
            let entry = session.entry_point("multiply")?;
            serve_node(
                &session,
                entry,
                Node::asked(async |values| Ok(rows(&values))),
            )
            .await
        }
        "tally" => {
            let entry = session.exclusive("tally")?;
            serve_node(&session, entry, tally()).await
        }
        "worker" => worker(&session, &before).await,
        _ => {
            let next = before.last().map(|address| client(address)).transpose()?;
            let entry = session.entry_point("stage")?;
            serve_node(&session, entry, stage(next)).await
        }
    }
}

pub async fn main(program: &str, nodes: Vec<String>) -> Result<()> {
    let session = Session::from_env("main")?;
    let work = async {
        match program {
            "matrix" => matrix(&nodes).await,
            "search" => search(&nodes).await,
            _ => pipeline(&nodes).await,
        }
    };
    let result = session.run("main", work).await??;
    println!("{program}: {result}");
    ended(&session)
}

/// Size of the matrices.
const SIZE: usize = 64;

/// Some rows of the first matrix, times the second one, which stands behind them.
fn rows(values: &[u64]) -> Vec<u64> {
    let (rows, second) = values.split_at(values.len() - SIZE * SIZE);
    let product = |row: &[u64], column: usize| -> u64 {
        (0..SIZE)
            .map(|at| row[at] * second[at * SIZE + column])
            .sum()
    };
    let rows = rows.chunks(SIZE);
    rows.flat_map(|row| (0..SIZE).map(move |column| product(row, column)))
        .collect()
}

async fn matrix(nodes: &[String]) -> Result<u64> {
    let first: Vec<u64> = (0..SIZE * SIZE).map(|at| at as u64 % 17).collect();
    let second: Vec<u64> = (0..SIZE * SIZE).map(|at| at as u64 % 13).collect();
    let clients: Vec<Client> = nodes
        .iter()
        .map(|node| client(node))
        .collect::<Result<_>>()?;
    let strip = |(at, rows): (usize, &[u64])| {
        let (mut client, mut values) = (clients[at % clients.len()].clone(), rows.to_vec());
        values.extend_from_slice(&second);
        tokio::spawn(fork(async move { ask(&mut client, values).await }))
    };
    let strips: Vec<_> = first.chunks(4 * SIZE).enumerate().map(strip).collect();
    let mut sum = 0;
    for strip in strips {
        sum += strip.await??.iter().sum::<u64>();
    }
    Ok(sum)
}

/// Weights and values of what a bag of 60 may hold.
const THINGS: [(u64, u64); 14] = [
    (12, 24),
    (7, 13),
    (11, 23),
    (8, 15),
    (9, 16),
    (6, 11),
    (14, 28),
    (5, 9),
    (13, 27),
    (10, 19),
    (4, 7),
    (15, 29),
    (3, 5),
    (16, 33),
];
const ROOM: u64 = 60;

/// How much is still to do, and the best value so far.
fn tally() -> Node {
    let state = Arc::new(std::sync::Mutex::new((1u64, 0u64)));
    Node::asked(move |values| {
        let mut state = state.lock().expect("nobody panics");
        if let [done, more, best] = values[..] {
            state.0 = state.0 + more - done;
            state.1 = state.1.max(best);
        }
        let answer = vec![state.0, state.1];
        async { Ok(answer) }
    })
}

/// A search's node: how many things were looked at, the weight, the value.
type Place = [u64; 3];

/// The children that may be better than the best one, and the best value that is one.
fn expand([at, weight, value]: Place, best: u64) -> Vec<Place> {
    let rest = &THINGS[at as usize..];
    let bound = value + rest.iter().map(|(_, value)| value).sum::<u64>();
    let Some((more, worth)) = rest.first().filter(|_| bound > best) else {
        return Vec::new();
    };
    let with = [at + 1, weight + more, value + worth];
    let without = [at + 1, weight, value];
    [without, with]
        .into_iter()
        .filter(|place| place[1] <= ROOM)
        .collect()
}

/// Its own places, from which others steal the oldest. The first worker has all to begin with.
async fn worker(session: &Session, before: &[String]) -> Result<()> {
    let first = before.len() == 1;
    let begin: VecDeque<Place> = first.then_some([0, 0, 0]).into_iter().collect();
    let places = session.lock("places", begin)?;
    let (victim, stolen) = (places.clone(), session.entry_point("steal")?);
    // Of one that is started later the main process tells the address.
    let peer = session.lock("peer", before.get(1).cloned())?;
    let told = peer.clone();
    let node = Node::asked(move |values| {
        let (victim, told) = (victim.clone(), told.clone());
        async move {
            if !values.is_empty() {
                let bytes = values.iter().map(|value| *value as u8).collect();
                *told.acquire().await.map_err(halted)? = String::from_utf8(bytes).ok();
                return Ok(Vec::new());
            }
            let mut places = victim.acquire().await.map_err(halted)?;
            Ok(places
                .pop_front()
                .map_or(Vec::new(), |place| place.to_vec()))
        }
    });
    let mut tally = client(&before[0])?;
    let root = session.root("worker")?;
    let work = async move {
        let (mut best, mut other) = (0, None);
        // Taken places, and their children, which nobody can steal before they are given back.
        let (mut mine, mut children) = (Vec::new(), Vec::new());
        loop {
            if mine.is_empty() {
                mine = take_some(&mut *places.acquire().await.map_err(halted)?, &mut children);
            }
            if mine.is_empty() {
                if other.is_none() {
                    let address = peer.acquire().await.map_err(halted)?.clone();
                    other = address.as_deref().map(client).transpose().map_err(failed)?;
                }
                let stolen: Option<Place> = match &mut other {
                    Some(other) => ask(other, Vec::new()).await?.try_into().ok(),
                    None => None,
                };
                mine.extend(stolen);
            }
            let answer = match mine.pop() {
                Some(place) => {
                    let more = expand(place, best);
                    let answer = ask(&mut tally, vec![1, more.len() as u64, place[2]]).await?;
                    children.extend(more);
                    answer
                }
                None => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    ask(&mut tally, Vec::new()).await?
                }
            };
            best = answer[1];
            if answer[0] == 0 {
                return Ok::<_, Status>(());
            }
        }
    };
    match root {
        Some(root) => drop(tokio::spawn(root.scope(work))),
        None => drop(tokio::spawn(work)),
    }
    serve_node(session, stolen, node).await
}

/// Places that a worker takes at once.
const AT_ONCE: usize = 8;

/// Gives children back, and takes the newest places: half of them at most, so that some are left to steal.
fn take_some(places: &mut VecDeque<Place>, children: &mut Vec<Place>) -> Vec<Place> {
    places.extend(children.drain(..));
    let taken = places.len().div_ceil(2).min(AT_ONCE);
    places.drain(places.len() - taken..).collect()
}

fn failed(error: Box<dyn std::error::Error + Send + Sync>) -> Status {
    Status::internal(error.to_string())
}

fn halted(halt: relive_rpc::Halt) -> Status {
    Status::unavailable(halt.to_string())
}

async fn search(nodes: &[String]) -> Result<u64> {
    let address = nodes[2].bytes().map(u64::from).collect();
    ask(&mut client(&nodes[1])?, address).await?;
    let mut tally = client(&nodes[0])?;
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if let [0, best] = ask(&mut tally, Vec::new()).await?[..] {
            return Ok(best);
        }
    }
}

/// Adds one to each number of a stream, and passes it on.
fn stage(next: Option<Client>) -> Node {
    let flow = move |numbers: Streaming<Numbers>| -> Boxed<std::result::Result<Flow, Status>> {
        let next = next.clone();
        Box::pin(async move {
            let more = numbers
                .filter_map(std::result::Result::ok)
                .map(|mut numbers| {
                    numbers.values.iter_mut().for_each(|value| *value += 1);
                    numbers
                });
            Ok(match next {
                Some(mut next) => Box::pin(next.flow(more).await?.into_inner()) as Flow,
                None => Box::pin(more.map(Ok)) as Flow,
            })
        })
    };
    Node {
        flow: Arc::new(flow),
        ..Node::asked(async |_| Err(Status::unimplemented("streams only")))
    }
}

async fn pipeline(nodes: &[String]) -> Result<u64> {
    let numbers = (0..200).map(|value| Numbers {
        values: vec![value],
    });
    let mut last = client(&nodes[nodes.len() - 1])?;
    let mut answers = last.flow(tokio_stream::iter(numbers)).await?.into_inner();
    let mut sum = 0;
    while let Some(numbers) = answers.message().await? {
        sum += numbers.values.iter().sum::<u64>();
    }
    Ok(sum)
}
