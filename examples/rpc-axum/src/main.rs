//! The lost update, over two processes: tellers read a balance, think, and write it back with their
//! amount, while others do the same.
//!
//! ```text
//! cd examples/rpc-axum
//! export RUSTFLAGS=                          # those of the workspace around it are for `relive`
//! cargo run                                  # another balance each time
//! RELIVE_RPC=record:/tmp/bank cargo run      # one of them, recorded
//! RELIVE_RPC=replay:/tmp/bank cargo run      # the same one, each time
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use relive_rpc::tower::{Receive, Send as SendLayer};
use relive_rpc::{Outcome, Session, fork, random};
use tower::{Layer, ServiceExt};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["accounts"] => runtime.block_on(accounts()),
        ["tellers", address] => runtime.block_on(tellers(address.to_owned())),
        _ => both(),
    }
}

/// Starts the two processes, and ends the accounts when the tellers have ended.
fn both() -> Result<()> {
    let itself = std::env::current_exe()?;
    let mut accounts = Command::new(&itself)
        .arg("accounts")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(accounts.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let tellers = Command::new(&itself)
        .args(["tellers", line.trim()])
        .status()?;
    drop(accounts.stdin.take());
    match accounts.wait()?.success() && tellers.success() {
        true => Ok(()),
        false => Err("a process failed".into()),
    }
}

async fn accounts() -> Result<()> {
    let session = Session::from_env("accounts")?;
    let state = Arc::new(Mutex::new(0u64));
    let balance = session.group("balance")?;
    let read = Receive::new(balance.entry_point("read")?);
    let write = Receive::new(balance.entry_point("write")?);
    let router = Router::new()
        .route("/read", get(read_balance).layer(read))
        .route("/write", post(write_balance).layer(write))
        .with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let serve = axum::serve(listener, router).into_future();
    tokio::select! {
        served = serve => served?,
        _ = end => {}
    }
    ended(&session)
}

async fn read_balance(State(balance): State<Arc<Mutex<u64>>>) -> String {
    balance.lock().expect("nobody panics").to_string()
}

async fn write_balance(State(balance): State<Arc<Mutex<u64>>>, body: String) {
    *balance.lock().expect("nobody panics") = body.parse().unwrap_or(0);
}

async fn tellers(address: String) -> Result<()> {
    let session = Session::from_env("tellers")?;
    let work = async {
        let teller = || tokio::spawn(fork(teller(address.clone())));
        let (first, second) = (teller(), teller());
        first.await??;
        second.await??;
        ask(&address, "GET", "/read", String::new()).await
    };
    println!(
        "10 payments of 1, and the balance is {}",
        session.run("main", work).await??
    );
    ended(&session)
}

async fn teller(address: String) -> Result<()> {
    for _ in 0..5 {
        let balance: u64 = ask(&address, "GET", "/read", String::new())
            .await?
            .parse()?;
        tokio::time::sleep(Duration::from_micros(random() % 2000)).await;
        ask(&address, "POST", "/write", (balance + 1).to_string()).await?;
    }
    Ok(())
}

async fn ask(address: &str, method: &str, path: &str, body: String) -> Result<String> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let uri = format!("http://{address}{path}");
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .body(Full::new(Bytes::from(body)))?;
    let response = SendLayer.layer(client).oneshot(request).await?;
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec())?)
}

fn ended(session: &Session) -> Result<()> {
    session.finish()?;
    match session.outcome() {
        Outcome::Diverged(divergence) => Err(divergence.to_string().into()),
        _ => Ok(()),
    }
}
