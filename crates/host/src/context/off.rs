//! Offsets of the context's fields, for emitted code.

use std::mem::offset_of;

use super::Context;
use crate::reading::entry::Window;

/// [`Context::lanes`], first element
pub const LANES: i32 = offset_of!(Context, lanes) as i32;
/// [`Context::spill_rcx`]
pub const SPILL_RCX: i32 = offset_of!(Context, spill_rcx) as i32;
/// [`Context::spill`], first element
pub const SPILL: i32 = offset_of!(Context, spill) as i32;
/// [`Context::exit`]
pub const EXIT: i32 = offset_of!(Context, exit) as i32;
/// [`Context::pending`]
pub const PENDING: i32 = offset_of!(Context, pending) as i32;
// Read as one word with the next field, also where the guest wants all of its accesses to be aligned (EFLAGS.AC).
const _: () = assert!(PENDING % 8 == 0);
/// [`Context::exit_fn`]
pub const EXIT_FN: i32 = offset_of!(Context, exit_fn) as i32;
/// [`Context::this`]
pub const THIS: i32 = offset_of!(Context, this) as i32;
/// [`Context::target`]
pub const TARGET: i32 = offset_of!(Context, target) as i32;
/// [`Context::site`]
pub const SITE: i32 = offset_of!(Context, site) as i32;
/// [`Context::return_pc`]
pub const RETURN_PC: i32 = offset_of!(Context, return_pc) as i32;
/// [`Context::string_start`], first element
pub const STRING_START: i32 = offset_of!(Context, string_start) as i32;
/// [`Context::gpr`], first element
pub const GPR: i32 = offset_of!(Context, gpr) as i32;
/// [`Context::rflags`]
pub const RFLAGS: i32 = offset_of!(Context, rflags) as i32;
/// [`Context::rip`]
pub const RIP: i32 = offset_of!(Context, rip) as i32;
/// [`Context::entry`]
pub const ENTRY: i32 = offset_of!(Context, entry) as i32;
/// [`Context::guest_fs`]
pub const GUEST_FS: i32 = offset_of!(Context, guest_fs) as i32;
/// [`Context::guest_gs`]
pub const GUEST_GS: i32 = offset_of!(Context, guest_gs) as i32;
/// [`Context::host_fs`]
pub const HOST_FS: i32 = offset_of!(Context, host_fs) as i32;
/// [`Context::host_rsp`]
pub const HOST_RSP: i32 = offset_of!(Context, host_rsp) as i32;
/// [`Context::dealt`], first element
pub const DEALT: i32 = offset_of!(Context, dealt) as i32;
/// [`Context::ticks_base`]
pub const TICKS_BASE: i32 = offset_of!(Context, ticks_base) as i32;
/// [`Context::readings`], [`Window::start`]
pub const READ_START: i32 = READINGS + offset_of!(Window, start) as i32;
/// [`Context::readings`], [`Window::next`]
pub const READ_NEXT: i32 = READINGS + offset_of!(Window, next) as i32;
/// [`Context::readings`], [`Window::end`]
pub const READ_END: i32 = READINGS + offset_of!(Window, end) as i32;
/// [`Context::readings`], [`Window::first`]
pub const READ_FIRST: i32 = READINGS + offset_of!(Window, first) as i32;
const READINGS: i32 = offset_of!(Context, readings) as i32;
/// [`Context::routines`], first element
pub const ROUTINES: i32 = offset_of!(Context, routines) as i32;
/// [`Context::vdso`]: clock_gettime
pub const CLOCK: i32 = offset_of!(Context, vdso) as i32;
/// [`Context::vdso`]: getcpu
pub const GETCPU: i32 = CLOCK + 8;
/// [`Context::ops`]
pub const OPS: i32 = offset_of!(Context, ops) as i32;
/// [`Context::order_id`]
pub const ORDER_ID: i32 = offset_of!(Context, order_id) as i32;
/// `Context::ordering`
pub const ORDERING: i32 = offset_of!(Context, ordering) as i32;
/// [`Context::order_spill`], first element
pub const ORDER_SPILL: i32 = offset_of!(Context, order_spill) as i32;
/// [`Context::order_flags`]
pub const ORDER_FLAGS: i32 = offset_of!(Context, order_flags) as i32;
/// `Context::order_fn`
pub const ORDER_FN: i32 = offset_of!(Context, order_fn) as i32;
/// [`Context::to_edge`]
pub const TO_EDGE: i32 = offset_of!(Context, to_edge) as i32;
/// [`Context::done`]
pub const DONE: i32 = offset_of!(Context, done) as i32;
/// [`Context::permissions`]
pub const PERMISSIONS: i32 = offset_of!(Context, permissions) as i32;
/// [`Context::permit_spill`], first element
pub const PERMIT_SPILL: i32 = offset_of!(Context, permit_spill) as i32;
/// [`Context::permit_at`]
pub const PERMIT_AT: i32 = offset_of!(Context, permit_at) as i32;
/// [`Context::permit_what`]
pub const PERMIT_WHAT: i32 = offset_of!(Context, permit_what) as i32;
/// `Context::range_fn`
pub const RANGE_FN: i32 = offset_of!(Context, range_fn) as i32;
/// `Context::track_key`
pub const TRACK_KEY: i32 = offset_of!(Context, track_key) as i32;
/// [`Context::track_spill`], first element
pub const TRACK_SPILL: i32 = offset_of!(Context, track_spill) as i32;
/// `Context::track_fns`, first element
pub const TRACK_FNS: i32 = offset_of!(Context, track_fns) as i32;
/// `Context::edge_count`
pub(crate) const EDGE_COUNT: i32 = offset_of!(Context, edge_count) as i32;
/// `Context::edges`
pub(crate) const EDGES: i32 = offset_of!(Context, edges) as i32;
/// `Context::xsave`
pub(crate) const XSAVE: i32 = offset_of!(Context, xsave) as i32;
/// `Context::vectors`
pub(crate) const VECTORS: i32 = offset_of!(Context, vectors) as i32;
/// `Context::masks`
pub(crate) const MASKS: i32 = offset_of!(Context, masks) as i32;
/// `Context::mxcsr`
pub(crate) const MXCSR: i32 = offset_of!(Context, mxcsr) as i32;
/// `Context::form`
pub(crate) const FORM: i32 = offset_of!(Context, form) as i32;
/// `Context::held`
pub(crate) const HELD: i32 = offset_of!(Context, held) as i32;
/// `Context::upper`
pub(crate) const UPPER: i32 = offset_of!(Context, upper) as i32;
