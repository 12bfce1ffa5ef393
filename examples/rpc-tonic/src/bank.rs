//! The three processes of the bank.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relive_rpc::tower::{Receive, SendPayloads, Sending};
use relive_rpc::{Lock, Session, fork, random};
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
use crate::{Amount, DELAYS, Result, ended, serve};

type Answer<T> = std::result::Result<Response<T>, Status>;
type Amounts = Pin<Box<dyn Stream<Item = std::result::Result<Amount, Status>> + Send>>;
type Client = Sending<Channel, relive_rpc::tower::KeepResponses>;

fn client(address: &str) -> Result<Client> {
    let channel = Endpoint::new(format!("http://{address}"))?.connect_lazy();
    Ok(SendPayloads.layer(channel))
}

async fn answer(value: u64) -> Answer<Amount> {
    delay().await;
    Ok(Response::new(Amount { value }))
}

/// Takes another time in each run, where it is asked for: the replay must not mind.
async fn delay() {
    if std::env::var_os(DELAYS).is_some() {
        let random = RandomState::new().build_hasher().finish();
        tokio::time::sleep(Duration::from_micros(random % 3000)).await;
    }
}

/// The balance, and all that it was.
#[derive(Clone)]
struct Balance(Arc<Mutex<Vec<u64>>>);

impl Balance {
    fn history(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().expect("nobody panics")
    }
}

#[tonic::async_trait]
impl Accounts for Balance {
    async fn read(&self, _: Request<Amount>) -> Answer<Amount> {
        delay().await;
        let last = self.history().last().copied();
        answer(last.unwrap_or(0)).await
    }

    async fn write(&self, request: Request<Amount>) -> Answer<Amount> {
        let value = request.into_inner().value;
        delay().await;
        self.history().push(value);
        answer(value).await
    }

    type HistoryStream = Amounts;

    async fn history(&self, _: Request<Amount>) -> Answer<Amounts> {
        delay().await;
        let history = self.history().clone();
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
    let balance = Balance(Arc::default());
    let service = AccountsServer::new(balance.clone());
    serve(&session, receive.payloads(Body::new), Routes::new(service)).await?;
    eprintln!("accounts: {:?}", balance.history());
    Ok(())
}

#[derive(Clone)]
struct Paying {
    accounts: AccountsClient<Client>,
    /// Orders what is paid.
    order: Lock<()>,
    /// Amounts, and balances with them.
    paid: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Paying {
    async fn add(&self, amount: u64) -> std::result::Result<u64, Status> {
        let mut accounts = self.accounts.clone();
        delay().await;
        let balance = accounts.read(Amount { value: 0 }).await?.into_inner().value;
        tokio::time::sleep(Duration::from_micros(random() % 2000)).await;
        let value = balance + amount;
        accounts.write(Amount { value }).await?;
        delay().await;
        let order = self.order.acquire().await;
        let _order = order.map_err(|halt| Status::aborted(halt.to_string()))?;
        self.paid
            .lock()
            .expect("nobody panics")
            .push((amount, value));
        Ok(value)
    }
}

#[tonic::async_trait]
impl Teller for Paying {
    async fn pay(&self, request: Request<Amount>) -> Answer<Amount> {
        answer(self.add(request.into_inner().value).await?).await
    }

    async fn collect(&self, request: Request<Streaming<Amount>>) -> Answer<Amount> {
        let (mut amounts, mut sum) = (request.into_inner(), 0);
        while let Some(amount) = amounts.message().await? {
            sum += amount.value;
        }
        answer(self.add(sum).await?).await
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
    let paying = Paying {
        accounts: AccountsClient::new(client(&accounts)?),
        order: session.lock("paid", ())?,
        paid: Arc::default(),
    };
    let (paid, service) = (paying.paid.clone(), TellerServer::new(paying));
    serve(&session, receive.payloads(Body::new), Routes::new(service)).await?;
    eprintln!("teller: {:?}", paid.lock().expect("nobody panics"));
    Ok(())
}

/// The process that asks tellers to pay, several at once.
pub async fn branch(accounts: String, teller: String) -> Result<()> {
    let session = Session::from_env("branch")?;
    let work = async {
        let teller = TellerClient::new(client(&teller)?);
        let customer = |number: u64| {
            let mut teller = teller.clone();
            tokio::spawn(fork(async move {
                let mut balances = Vec::new();
                for _ in 0..4 {
                    delay().await;
                    let paid = teller.pay(Amount { value: number }).await?;
                    balances.push(paid.into_inner().value);
                }
                delay().await;
                let amounts = (0..4).map(move |_| Amount { value: number });
                let paid = teller.collect(tokio_stream::iter(amounts)).await?;
                balances.push(paid.into_inner().value);
                Ok::<_, Status>(balances)
            }))
        };
        let customers: Vec<_> = (1..4).map(customer).collect();
        for customer in customers {
            eprintln!("branch: {:?}", customer.await??);
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
