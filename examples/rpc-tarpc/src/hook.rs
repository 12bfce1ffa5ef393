//! The hook: a stub around a client's channel, and a service around a server's. What crosses the wire is a
//! request's bytes with the header beside them, since tarpc's own messages have no place for one.

use std::marker::PhantomData;
use std::sync::OnceLock;

use relive_rpc::{CallError, EntryPoint, Header, exchange, halted};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tarpc::client::RpcError;
use tarpc::client::stub::Stub;
use tarpc::server::Serve;
use tarpc::{RequestName, ServerError, context};

/// A request with the identity that its sender gave it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Carried {
    header: Option<String>,
    name: String,
    bytes: Vec<u8>,
}

impl RequestName for Carried {
    fn name(&self) -> &str {
        &self.name
    }
}

/// An answer, or why the replay has none.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answered {
    /// The answer's bytes.
    Bytes(Vec<u8>),
    /// The replay has ended, or left its recording.
    Halted(String),
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> RpcError {
    RpcError::Send(Box::new(error))
}

/// A client's stub whose requests carry identities: `Client::from(Sending::new(channel))`.
pub struct Sending<S, Req, Resp> {
    inner: S,
    types: PhantomData<fn(Req) -> Resp>,
}

impl<S: Clone, Req, Resp> Clone for Sending<S, Req, Resp> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<S, Req, Resp> Sending<S, Req, Resp> {
    /// Around a stub that carries ours.
    pub fn new(inner: S) -> Self {
        let types = PhantomData;
        Self { inner, types }
    }
}

impl<S, Req, Resp> Stub for Sending<S, Req, Resp>
where
    S: Stub<Req = Carried, Resp = Answered>,
    Req: RequestName + Serialize,
    Resp: DeserializeOwned,
{
    type Req = Req;
    type Resp = Resp;

    async fn call(&self, ctx: context::Context, request: Req) -> Result<Resp, RpcError> {
        let bytes = postcard::to_stdvec(&request).map_err(other)?;
        let reason = OnceLock::new();
        let sent = exchange(&bytes, async |header: Option<Header>| {
            let carried = Carried {
                header: header.map(|header| header.to_text().to_string()),
                name: request.name().to_owned(),
                bytes: bytes.clone(),
            };
            match self.inner.call(ctx, carried).await? {
                Answered::Bytes(bytes) => Ok::<_, RpcError>(bytes),
                Answered::Halted(text) => {
                    reason.get_or_init(|| text);
                    Ok(Vec::new())
                }
            }
        });
        let bytes = match sent.await {
            Ok(bytes) => bytes,
            Err(CallError::Failed(text)) => return Err(RpcError::Send(text.into())),
            Err(CallError::Halt(halt)) => return Err(other(halt)),
        };
        if let Some(reason) = reason.into_inner() {
            return Err(other(halted(reason).await));
        }
        let answer: Result<Resp, String> = postcard::from_bytes(&bytes).map_err(other)?;
        answer.map_err(|text| RpcError::Send(text.into()))
    }
}

/// A server's service whose requests go through an entry point.
#[derive(Clone)]
pub struct Receiving<S> {
    inner: S,
    entry: EntryPoint,
}

impl<S> Receiving<S> {
    /// All requests of the service come to one entry point.
    pub fn new(inner: S, entry: EntryPoint) -> Self {
        Self { inner, entry }
    }
}

impl<S> Receiving<S>
where
    S: Serve,
    S::Req: DeserializeOwned,
    S::Resp: Serialize,
{
    /// One request: of a peer, or of `Session::requests`.
    pub async fn receive(
        self,
        ctx: context::Context,
        header: Option<Header>,
        bytes: Vec<u8>,
    ) -> Answered {
        let Self { inner, entry } = self;
        let handler = async |bytes: Vec<u8>| {
            let answer = match postcard::from_bytes(&bytes) {
                Ok(request) => inner
                    .serve(ctx, request)
                    .await
                    .map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            postcard::to_stdvec(&answer).unwrap_or_default()
        };
        match entry.serve_bytes(header.as_ref(), bytes, handler).await {
            Ok(bytes) => Answered::Bytes(bytes),
            Err(halt) => Answered::Halted(halt.to_string()),
        }
    }
}

impl<S> Serve for Receiving<S>
where
    S: Serve,
    S::Req: DeserializeOwned,
    S::Resp: Serialize,
{
    type Req = Carried;
    type Resp = Answered;

    async fn serve(self, ctx: context::Context, carried: Carried) -> Result<Answered, ServerError> {
        let header = carried.header.map(|text| Header::parse(text.as_bytes()));
        let header = header.transpose().map_err(|malformed| {
            ServerError::new(std::io::ErrorKind::InvalidData, malformed.to_string())
        })?;
        Ok(self.receive(ctx, header, carried.bytes).await)
    }
}
