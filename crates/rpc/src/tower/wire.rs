//! The conventions of both layers.

use std::cell::Cell;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::header::{Content, HEADER_NAME, HeaderText};

/// Carries the reason where a request is refused or the replay has ended.
pub const HALT_NAME: &str = "relive-rpc-halt";

pub(super) const HALT: HeaderName = HeaderName::from_static(HALT_NAME);

/// Statuses of answers with a reason.
pub(super) const REFUSALS: [StatusCode; 2] =
    [StatusCode::BAD_REQUEST, StatusCode::SERVICE_UNAVAILABLE];

/// Carries a request's identity.
pub(super) const IDENTITY: HeaderName = HeaderName::from_static(HEADER_NAME);

/// Carries how far the answering process's recording is.
pub(super) const MARK: HeaderName = HeaderName::from_static("relive-mark");

/// Longest request that is hashed without an allocation.
const SHORT: usize = 256;

/// The content of a request that layers compare: method and target. Bodies are streams, and not looked at.
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

/// A value that says nothing, and is the same each time: HTTP/2 keeps it in its table, and the name of the
/// lines that are never the same is a reference to it, which nobody copies and checks.
const NOTHING: &str = "-";

/// It goes with one of so many: a connection has to see it once.
const NAMED_EACH: u8 = 64;

thread_local! {
    static SENT: Cell<u8> = const { Cell::new(0) };
}

/// Gives `headers` a line, in place of one that is there.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, text: &HeaderText) {
    let value = HeaderValue::from_bytes(text.as_bytes());
    let mut value = value.expect("it is printable ASCII");
    // HTTP/2 would put each into its table, throw out others for it, and look through all of them.
    value.set_sensitive(true);
    let sent = SENT.with(|sent| sent.replace((sent.get() + 1) % NAMED_EACH));
    match sent {
        // The first value of a name is the one that gets into the table.
        0 => {
            headers.insert(&name, HeaderValue::from_static(NOTHING));
            headers.append(name, value);
        }
        _ => {
            headers.insert(name, value);
        }
    }
}

/// The lines of that name.
pub(super) fn lines(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let nothing = NOTHING.as_bytes();
    let values = headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    let values = values.filter(move |value| *value != nothing);
    // A proxy may make one value of several, with commas between.
    values.map(move |value| match value.strip_prefix(nothing) {
        Some([b',', line @ ..]) => line.trim_ascii_start(),
        _ => value,
    })
}
