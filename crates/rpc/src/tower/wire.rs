//! On what both layers agree.

use crate::header::Content;

/// Carries the reason where a request is refused or the replay has ended.
pub const HALT_NAME: &str = "relive-rpc-halt";

/// Carries how far the answering process's recording is.
pub(super) const MARK_NAME: &str = "relive-rpc-mark";

/// What layers compare of a request: method and target. Bodies are streams, and not looked at.
pub(super) fn content<B>(request: &http::Request<B>) -> Content {
    let target = request.uri().path_and_query();
    let target = target.map_or("/", |target| target.as_str());
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(request.method().as_str().as_bytes());
    bytes.push(b' ');
    bytes.extend_from_slice(target.as_bytes());
    Content::of(&bytes)
}
