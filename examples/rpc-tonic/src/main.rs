//! The lost update, over three processes on tonic: a branch asks tellers to pay, a teller reads the balance,
//! thinks, and writes it back with the amount, while others do the same. With calls of all kinds: unary,
//! a stream of requests, a stream of answers, and both.
//!
//! ```text
//! cd examples/rpc-tonic
//! export RUSTFLAGS=                                    # those of the workspace around it are for `relive`
//! cargo run                                            # another balance each time
//! RELIVE_RPC=record+payloads:/tmp/bank cargo run       # one of them, recorded
//! RELIVE_RPC=replay:/tmp/bank cargo run                # the same one, each time
//! RELIVE_RPC=alone:/tmp/bank cargo run -- teller       # one service of it, without the others
//! cargo run -- replays /tmp/bank 100                   # all processes' ends, with delays: the same each time
//! cargo run --release -- echo                          # what recording costs at full load
//! cargo run -- matrix                                  # or search, pipeline: to count what is recorded
//! ```

mod bank;
mod echo;
mod programs;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use relive_rpc::tower::serve_recorded;
use relive_rpc::{Outcome, Session};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::Server;

/// What all calls ask and answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Amount {
    /// How much.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// What the parallel programs ask and answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Numbers {
    /// Whatever they mean there.
    #[prost(uint64, repeated, tag = "1")]
    pub values: Vec<u64>,
}

/// Generated from `build.rs`.
mod services {
    include!(concat!(env!("OUT_DIR"), "/bank.Accounts.rs"));
    include!(concat!(env!("OUT_DIR"), "/bank.Teller.rs"));
    include!(concat!(env!("OUT_DIR"), "/bank.Echo.rs"));
    include!(concat!(env!("OUT_DIR"), "/bank.Work.rs"));
}

type Failure = Box<dyn Error + Send + Sync>;
type Result<T> = std::result::Result<T, Failure>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["accounts"] => runtime.block_on(bank::accounts()),
        // Alone there is nobody to be connected to.
        ["teller"] => runtime.block_on(bank::teller("127.0.0.1:9".to_owned())),
        ["teller", accounts] => runtime.block_on(bank::teller(accounts.to_owned())),
        ["branch", accounts, teller] => {
            runtime.block_on(bank::branch(accounts.to_owned(), teller.to_owned()))
        }
        ["echo"] => runtime.block_on(echo::compare()),
        ["echo-server", folder] => runtime.block_on(echo::server(folder.to_owned())),
        ["replays", folder, times] => replays(folder, times.parse()?),
        ["matrix"] => programs::all("matrix", &["rows1", "rows2"]),
        ["search"] => programs::all("search", &["tally", "worker1", "worker2"]),
        ["pipeline"] => programs::all("pipeline", &["stage1", "stage2", "stage3"]),
        ["node", name, ref before @ ..] => {
            let before = before.iter().map(|address| (*address).to_owned());
            runtime.block_on(programs::node(name, before.collect()))
        }
        ["main", program, ref nodes @ ..] => {
            let nodes = nodes.iter().map(|address| (*address).to_owned());
            runtime.block_on(programs::main(program, nodes.collect()))
        }
        _ => all(),
    }
}

/// A service as a process, which ends when this is dropped.
struct Started {
    child: Child,
    address: String,
}

impl Started {
    /// Starts this program with these words; the first line that it says is its address.
    fn new(words: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words);
        Self::from(command)
    }

    fn from(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().to_owned();
        Ok(Self { child, address })
    }

    /// Asks it to end.
    fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err("a service failed".into()),
        }
    }
}

/// Starts the three processes, and ends the services when the branch has ended.
fn all() -> Result<()> {
    let accounts = Started::new(&["accounts"])?;
    let teller = Started::new(&["teller", &accounts.address])?;
    let branch = Command::new(std::env::current_exe()?)
        .args(["branch", &accounts.address, &teller.address])
        .status()?;
    teller.end()?;
    accounts.end()?;
    match branch.success() {
        true => Ok(()),
        false => Err("the branch failed".into()),
    }
}

/// Whether the services wait for a moment here and there, to be replayed at another speed each time.
const DELAYS: &str = "BANK_DELAYS";

/// Replays a recording many times, with delays; all processes have to end as they did the first time.
fn replays(folder: &str, times: usize) -> Result<()> {
    let mut ends: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for _ in 0..times {
        let output = Command::new(std::env::current_exe()?)
            .env("RELIVE_RPC", format!("replay:{folder}"))
            .env(DELAYS, "1")
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let text = String::from_utf8([output.stdout, output.stderr].concat())?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        *ends.entry(lines).or_default() += 1;
    }
    for (lines, times) in &ends {
        println!("{times} times:\n  {}", lines.join("\n  "));
    }
    match ends.len() {
        1 => Ok(()),
        _ => Err("the replays end in different ways".into()),
    }
}

/// Serves until standard input ends, or, in a replay of this process alone, until the recording ends.
async fn serve<P>(
    session: &Session,
    receive: relive_rpc::tower::Receive<P>,
    routes: Routes,
) -> Result<()>
where
    P: relive_rpc::tower::OfRequests<Body>,
{
    if let Some(requests) = session.requests() {
        let service = tower::Layer::layer(&receive, routes.prepare());
        let spawn = |work| drop(tokio::spawn(work));
        serve_recorded(requests, service, Body::new, spawn).await;
        return ended(session);
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder().layer(receive).add_routes(routes);
    tokio::select! {
        served = server.serve_with_incoming(incoming) => served?,
        () = until_input_ends() => {}
    }
    ended(session)
}

async fn until_input_ends() {
    let read = || std::io::stdin().read_to_end(&mut Vec::new());
    let _ = tokio::task::spawn_blocking(read).await;
}

fn ended(session: &Session) -> Result<()> {
    session.finish()?;
    match session.outcome() {
        Outcome::Diverged(divergence) => Err(divergence.to_string().into()),
        _ => Ok(()),
    }
}
