//! Names, lines and call stacks of a recorded program.
//!
//! A [`Target`] has the maps, memory and registers. Which file a map shows is decided by content
//! alone, never by a path: the bytes of its first page, as the program sees them, must be those of
//! the file ([`Finder`]). Separate debug information must have the same build id, or the checksum
//! that the file names. So every name that is shown belongs to the very program that ran.
//!
//! All of this is foreign data. Nothing here may panic, loop without end or use unbounded memory
//! because of it: invalid data gives no name.

#![forbid(unsafe_code)]

mod demangle;
mod dwarf;
mod evaluate;
mod find;
mod function;
mod globals;
mod holder;
mod inflate;
mod module;
mod names;
mod part;
mod passing;
mod passing_rust;
mod path;
mod placed;
mod scalar;
mod short;
mod sources;
mod space;
mod target;
mod tls;
mod types;
mod units;
mod unknown;
mod unwind;
mod value;
mod variable;

pub use dwarf::{Companion, Line};
pub use evaluate::{View, Where};
pub use find::{Finder, build_id};
pub use function::{Argument, Function};
pub use holder::Holder;
pub use module::{Module, Symbol, SymbolType};
pub use sources::sources;
pub use space::{Found, Named, Space};
pub use target::{Map, Registers, Target};
pub use types::Type;
pub use unknown::Unknown;
pub use unwind::{Frame, How, MOST_FRAMES, unwind, view};
pub use value::Passing;
pub use variable::{Missing, Variable};
