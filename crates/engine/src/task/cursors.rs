//! The places in the store of input at which a task's last references ended.

/// The ends of the last references, the latest first: the next bytes that the task reads mostly follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursors(pub(crate) [u64; 4]);

impl Cursors {
    /// A reference has ended there.
    pub(crate) fn goes_on(&mut self, end: u64) {
        self.0.rotate_right(1);
        self.0[0] = end;
    }
}
