//! Layers for services and clients built on `tower` and `http`: axum, tonic, hyper.
//!
//! [`Receive`] goes around a service, [`Send`] around a client. The identity of a request is one
//! header of it, [`crate::HEADER_NAME`]. **Both wait in the response future only**, never in
//! `poll_ready`: limits, buffers and balancers around them see an ordinary service.
//!
//! [`Receive::payloads`] and [`SendPayloads`] keep bodies, where the session keeps payloads.

mod alone;
mod bodies;
mod payload;
mod receive;
mod send;
mod wire;

pub use alone::serve_recorded;
pub use bodies::{KeepRequests, KeepResponses, OfRequests, OfResponses, Plain};
pub use payload::{BoxError, Payload};
pub use receive::{Receive, Receiving};
pub use send::{Send, SendPayloads, Sending};
pub use wire::HALT_NAME;
