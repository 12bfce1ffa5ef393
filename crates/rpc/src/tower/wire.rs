//! On what both layers agree.

use http::{HeaderName, HeaderValue};

use crate::header::{Content, HEADER_NAME, HeaderText};

/// Carries the reason where a request is refused or the replay has ended.
pub const HALT_NAME: &str = "relive-rpc-halt";

pub(super) const HALT: HeaderName = HeaderName::from_static(HALT_NAME);

/// Carries a request's identity.
pub(super) const IDENTITY: HeaderName = HeaderName::from_static(HEADER_NAME);

/// Carries how far the answering process's recording is.
pub(super) const MARK: HeaderName = HeaderName::from_static("relive-mark");

/// Longest request that is hashed without an allocation.
const SHORT: usize = 256;

/// What layers compare of a request: method and target. Bodies are streams, and not looked at.
pub(super) fn content<B>(request: &http::Request<B>) -> Content {
    let target = request.uri().path_and_query();
    let target = target.map_or("/", |target| target.as_str());
    let parts = [request.method().as_str(), " ", target];
    let mut short = [0; SHORT];
    let mut len = 0;
    for part in parts {
        match short.get_mut(len..len + part.len()) {
            Some(place) => place.copy_from_slice(part.as_bytes()),
            None => return Content::of(parts.concat().as_bytes()),
        }
        len += part.len();
    }
    Content::of(&short[..len])
}

/// A line as a header's value.
pub(super) fn value(text: &HeaderText) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).expect("it is printable ASCII")
}
