//! What the tests share.

#![allow(dead_code, missing_docs, reason = "each test uses a part of it")]

pub mod executor;
pub mod model;
