//! The three processes of the bank.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relive_rpc::tower::{Receive, SendPayloads, Sending};
use relive_rpc::{Session, fork, random};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tower::Layer;

use crate::services::accounts_client::AccountsClient;
use crate::services::accounts_server::{Accounts, AccountsServer};
use crate::services::teller_client::TellerClient;
use crate::services::teller_server::{Teller, TellerServer};
use crate::{Amount, Result, ended, serve};

type Answer<T> = std::result::Result<Response<T>, Status>;
type Amounts = Pin<Box<dyn Stream<Item = std::result::Result<Amount, Status>> + Send>>;
type Client = Sending<Channel, relive_rpc::tower::KeepResponses>;

fn client(address: &str) -> Result<Client> {
    let channel = Endpoint::new(format!("http://{address}"))?.connect_lazy();
    Ok(SendPayloads.layer(channel))
}

fn answer(value: u64) -> Answer<Amount> {
    Ok(Response::new(Amount { value }))
}

/// The balance, and all that it was.
#[derive(Clone)]
struct Balance(Arc<Mutex<Vec<u64>>>);

#[tonic::async_trait]
impl Accounts for Balance {
    async fn read(&self, _: Request<Amount>) -> Answer<Amount> {
        let history = self.0.lock().expect("nobody panics");
        answer(history.last().copied().unwrap_or(0))
    }

    async fn write(&self, request: Request<Amount>) -> Answer<Amount> {
        let value = request.into_inner().value;
        self.0.lock().expect("nobody panics").push(value);
        answer(value)
    }

    type HistoryStream = Amounts;

    async fn history(&self, _: Request<Amount>) -> Answer<Amounts> {
        let history = self.0.lock().expect("nobody panics").clone();
        let amounts = history.into_iter().map(|value| Ok(Amount { value }));
        Ok(Response::new(Box::pin(tokio_stream::iter(amounts))))
    }
}

/// The process with the balance.
pub async fn accounts() -> Result<()> {
    let session = Session::from_env("accounts")?;
    let balance = session.group("balance")?;
    let receive = Receive::by_path([
        ("/bank.Accounts/Read", balance.entry_point("read")?),
        ("/bank.Accounts/Write", balance.entry_point("write")?),
        ("/bank.Accounts/History", balance.entry_point("history")?),
    ]);
    let service = AccountsServer::new(Balance(Arc::default()));
    serve(&session, receive.payloads(Body::new), Routes::new(service)).await
}

#[derive(Clone)]
struct Paying(AccountsClient<Client>);

impl Paying {
    async fn add(&self, amount: u64) -> std::result::Result<u64, Status> {
        let mut accounts = self.0.clone();
        let balance = accounts.read(Amount { value: 0 }).await?.into_inner().value;
        tokio::time::sleep(Duration::from_micros(random() % 2000)).await;
        let value = balance + amount;
        accounts.write(Amount { value }).await?;
        Ok(value)
    }
}

#[tonic::async_trait]
impl Teller for Paying {
    async fn pay(&self, request: Request<Amount>) -> Answer<Amount> {
        answer(self.add(request.into_inner().value).await?)
    }

    async fn collect(&self, request: Request<Streaming<Amount>>) -> Answer<Amount> {
        let (mut amounts, mut sum) = (request.into_inner(), 0);
        while let Some(amount) = amounts.message().await? {
            sum += amount.value;
        }
        answer(self.add(sum).await?)
    }

    type ConvertStream = Amounts;

    async fn convert(&self, request: Request<Streaming<Amount>>) -> Answer<Amounts> {
        let doubled = request.into_inner().map(|amount| {
            let value = amount?.value * 2;
            Ok(Amount { value })
        });
        Ok(Response::new(Box::pin(doubled)))
    }
}

/// The process that pays.
pub async fn teller(accounts: String) -> Result<()> {
    let session = Session::from_env("teller")?;
    let receive = Receive::by_path([
        ("/bank.Teller/Pay", session.entry_point("pay")?),
        ("/bank.Teller/Collect", session.entry_point("collect")?),
        ("/bank.Teller/Convert", session.entry_point("convert")?),
    ]);
    let service = TellerServer::new(Paying(AccountsClient::new(client(&accounts)?)));
    serve(&session, receive.payloads(Body::new), Routes::new(service)).await
}

/// The process that asks tellers to pay, several at once.
pub async fn branch(accounts: String, teller: String) -> Result<()> {
    let session = Session::from_env("branch")?;
    let work = async {
        let teller = TellerClient::new(client(&teller)?);
        let customer = |number: u64| {
            let mut teller = teller.clone();
            tokio::spawn(fork(async move {
                for _ in 0..4 {
                    teller.pay(Amount { value: number }).await?;
                }
                let amounts = (0..4).map(move |_| Amount { value: number });
                teller.collect(tokio_stream::iter(amounts)).await
            }))
        };
        let customers: Vec<_> = (1..4).map(customer).collect();
        for customer in customers {
            customer.await??;
        }
        let mut accounts = AccountsClient::new(client(&accounts)?);
        let mut history = accounts.history(Amount { value: 0 }).await?.into_inner();
        let mut shown = Vec::new();
        while let Some(amount) = history.message().await? {
            shown.push(amount);
        }
        let last = shown.last().cloned().unwrap_or_default();
        let mut teller = teller.clone();
        let doubled = teller
            .convert(tokio_stream::iter(shown))
            .await?
            .into_inner();
        let doubled: Vec<_> = doubled.collect::<std::result::Result<_, _>>().await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((last.value, doubled.len()))
    };
    let (balance, steps) = session.run("main", work).await??;
    println!("payments of 48, and the balance is {balance} after {steps} steps");
    ended(&session)
}
