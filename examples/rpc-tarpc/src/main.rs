//! A counter on tarpc that several clients read and write, in two processes, with the lost update.
//!
//! ```text
//! cd examples/rpc-tarpc
//! export RUSTFLAGS=                                    # those of the workspace around it are for `relive`
//! cargo run                                            # another sum each time
//! RELIVE_RPC=record+payloads:/tmp/sum cargo run        # one of them, recorded
//! RELIVE_RPC=replay:/tmp/sum cargo run                 # the same one, each time
//! RELIVE_RPC=alone:/tmp/sum cargo run -- counter       # the server of it, without the clients
//! ```

mod hook;

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use hook::{Answered, Carried, Receiving, Sending};
use relive_rpc::{Outcome, Session, fork, random};
use tarpc::client::{self, Channel};
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::tokio_serde::formats::Json;
use tarpc::{context, serde_transport};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The service.
#[tarpc::service]
trait Counter {
    /// What it stands at.
    async fn read() -> u64;
    /// Sets it.
    async fn write(value: u64);
}

#[derive(Clone, Default)]
struct Value(Arc<Mutex<u64>>);

impl Counter for Value {
    async fn read(self, _: context::Context) -> u64 {
        *self.0.lock().expect("nobody panics")
    }

    async fn write(self, _: context::Context, value: u64) {
        *self.0.lock().expect("nobody panics") = value;
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["counter"] => runtime.block_on(counter()),
        ["clients", address] => runtime.block_on(clients(address.to_owned())),
        _ => both(),
    }
}

/// Starts the two processes, and ends the server when the clients have ended.
fn both() -> Result<()> {
    let itself = std::env::current_exe()?;
    let mut counter = Command::new(&itself)
        .arg("counter")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(counter.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let clients = Command::new(&itself)
        .args(["clients", line.trim()])
        .status()?;
    drop(counter.stdin.take());
    match counter.wait()?.success() && clients.success() {
        true => Ok(()),
        false => Err("a process failed".into()),
    }
}

async fn counter() -> Result<()> {
    let session = Session::from_env("counter")?;
    let value = Value::default();
    let service = Receiving::new(value.clone().serve(), session.exclusive("counter")?);
    if let Some(mut requests) = session.requests() {
        let mut works = Vec::new();
        while let Some(incoming) = requests.next().await {
            let (service, answered) = (service.clone(), incoming.is_answered);
            let header = incoming.header;
            let bytes = incoming.bytes().ok_or("the request is not whole")?;
            let work =
                async move { drop(service.receive(context::current(), header, bytes).await) };
            let work = tokio::spawn(work);
            works.extend(answered.then_some(work));
        }
        for work in works {
            work.await?;
        }
        println!("it stands at {}", value.0.lock().expect("nobody panics"));
        return ended(&session);
    }
    let mut listener = serde_transport::tcp::listen("127.0.0.1:0", Json::default).await?;
    println!("{}", listener.local_addr());
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let serve = async {
        while let Some(Ok(transport)) = listener.next().await {
            let works = BaseChannel::with_defaults(transport).execute(service.clone());
            tokio::spawn(works.for_each(|work| async { drop(tokio::spawn(work)) }));
        }
    };
    tokio::select! {
        () = serve => {}
        _ = end => {}
    }
    ended(&session)
}

async fn clients(address: String) -> Result<()> {
    let session = Session::from_env("clients")?;
    let work = async {
        let transport = serde_transport::tcp::connect(address, Json::default).await?;
        let channel: Channel<Carried, Answered> =
            client::new(client::Config::default(), transport).spawn();
        let client = CounterClient::from(Sending::new(channel));
        let clients: Vec<_> = (1..4)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(fork(async move {
                    for _ in 0..5 {
                        let before = client.read(context::current()).await?;
                        tokio::time::sleep(Duration::from_micros(random() % 2000)).await;
                        client.write(context::current(), before + number).await?;
                    }
                    Ok::<_, client::RpcError>(())
                }))
            })
            .collect();
        for client in clients {
            client.await??;
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(client.read(context::current()).await?)
    };
    let sum = session.run("main", work).await??;
    println!("payments of 30, and the sum is {sum}");
    ended(&session)
}

fn ended(session: &Session) -> Result<()> {
    session.finish()?;
    match session.outcome() {
        Outcome::Diverged(divergence) => Err(divergence.to_string().into()),
        _ => Ok(()),
    }
}
