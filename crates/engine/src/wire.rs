//! A tiny length-prefixed encoding for what one host process hands to the next over exec.
//! Never on disk: both ends are the same executable.

/// Appends values.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// A number.
    pub fn num(&mut self, v: u64) -> &mut Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    /// A byte string.
    pub fn bytes(&mut self, b: &[u8]) -> &mut Self {
        self.num(b.len() as u64);
        self.0.extend_from_slice(b);
        self
    }

    /// Many byte strings.
    pub fn list(&mut self, items: &[Vec<u8>]) -> &mut Self {
        self.num(items.len() as u64);
        for i in items {
            self.bytes(i);
        }
        self
    }
}

/// Takes them out again, in the same order.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    /// A number. Panics on a short input: the writer is the same executable.
    pub fn num(&mut self) -> u64 {
        let (v, rest) = self.0.split_first_chunk::<8>().expect("boot data is whole");
        self.0 = rest;
        u64::from_le_bytes(*v)
    }

    /// A byte string.
    pub fn bytes(&mut self) -> Vec<u8> {
        let n = self.num() as usize;
        let (b, rest) = self.0.split_at(n);
        self.0 = rest;
        b.to_vec()
    }

    /// Many byte strings.
    pub fn list(&mut self) -> Vec<Vec<u8>> {
        (0..self.num()).map(|_| self.bytes()).collect()
    }
}
