//! Growing lists of plain records, parts of which are filled anew. The beginning of a list may lie in a private map of a file:
//! records of an earlier process are used in place, and only changed pages are copied. A record
//! must mean the same in every process: numbers, never pointers.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use bytemuck::Pod;

use crate::view::View;

/// Records of a file, in memory of this process's own.
pub(crate) struct Mapped<T> {
    view: Arc<View>,
    at: usize,
    len: usize,
    _of: std::marker::PhantomData<T>,
}

impl<T: Pod> Mapped<T> {
    /// `len` records from byte `at` on; `None` if they do not lie in the view, or not aligned.
    pub(crate) fn new(view: &Arc<View>, at: usize, len: usize) -> Option<Self> {
        let end = len.checked_mul(size_of::<T>())?.checked_add(at)?;
        let aligned = (view.start() + at).is_multiple_of(align_of::<T>());
        (end <= view.len() && aligned).then(|| Self {
            view: Arc::clone(view),
            at,
            len,
            _of: std::marker::PhantomData,
        })
    }

    pub(crate) fn all(&self) -> &[T] {
        let length = self.len * size_of::<T>();
        bytemuck::cast_slice(&self.view.bytes()[self.at..][..length])
    }

    fn get_mut(&mut self, i: usize) -> &mut T {
        assert!(i < self.len, "no such record");
        // SAFETY: in bounds and aligned (`new`); the lists of a view do not overlap, and the map is private.
        unsafe { &mut *((self.view.start() + self.at) as *mut T).add(i) }
    }
}

/// A list that grows at its end, or is overwritten from some place on.
pub(crate) struct Records<T> {
    kept: Option<Mapped<T>>,
    /// Number of records in `kept`.
    first: usize,
    own: Vec<T>,
    /// Where the next record goes.
    next: usize,
}

impl<T> Default for Records<T> {
    fn default() -> Self {
        Self {
            kept: None,
            first: 0,
            own: Vec::new(),
            next: 0,
        }
    }
}

impl<T: Pod> Records<T> {
    /// Begins with the records of a file; the list must be empty.
    pub(crate) fn take_over(&mut self, kept: Mapped<T>) {
        assert!(self.len() == 0, "there are records already");
        (self.first, self.next) = (kept.len, kept.len);
        self.kept = Some(kept);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn len(&self) -> usize {
        self.first + self.own.len()
    }

    /// The number that the next record gets.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// The next record goes in place of record `i`, or to the end.
    pub(crate) fn seek(&mut self, i: usize) {
        assert!(self.first <= i && i <= self.len(), "no place of ours");
        self.next = i;
    }

    /// The next record goes to the end.
    pub(crate) fn seek_end(&mut self) {
        self.next = self.len();
    }

    pub(crate) fn push(&mut self, record: T) {
        match self.own.get_mut(self.next - self.first) {
            Some(old) => *old = record,
            None => self.own.push(record),
        }
        self.next += 1;
    }

    pub(crate) fn extend(&mut self, records: impl Iterator<Item = T>) {
        records.for_each(|record| self.push(record));
    }

    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        match i.checked_sub(self.first) {
            Some(i) => self.own.get(i),
            None => self.kept.as_ref()?.all().get(i),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let kept = self.kept.as_ref().map_or(&[][..], Mapped::all);
        kept.iter().chain(&self.own)
    }

    /// The number of records before the first one that is not `early`; early ones come first.
    pub(crate) fn partition_point(&self, early: impl Fn(&T) -> bool) -> usize {
        match self.kept.as_ref().map(Mapped::all) {
            Some(kept) if !kept.last().is_some_and(&early) => kept.partition_point(early),
            _ => self.first + self.own.partition_point(early),
        }
    }
}

impl<T: Pod> Index<usize> for Records<T> {
    type Output = T;

    fn index(&self, i: usize) -> &T {
        self.get(i).expect("no such record")
    }
}

impl<T: Pod> IndexMut<usize> for Records<T> {
    fn index_mut(&mut self, i: usize) -> &mut T {
        match (i.checked_sub(self.first), &mut self.kept) {
            (None, Some(kept)) => kept.get_mut(i),
            (own, _) => &mut self.own[own.unwrap_or(i)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn mapped(words: &[u32]) -> Mapped<u32> {
        let mut file = tempfile::tempfile().expect("a file");
        for word in words {
            file.write_all(&word.to_le_bytes()).expect("written");
        }
        let view = View::of(&file, 1 << 20).expect("a view");
        Mapped::new(&Arc::new(view), 0, words.len()).expect("in bounds")
    }

    #[test]
    fn kept_and_own_records_are_one_list() {
        let mut list = Records::default();
        list.take_over(mapped(&[10, 20, 30]));
        list.push(40);
        list[1] = 25;
        list[3] = 45;
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [10, 25, 30, 45]);
        assert_eq!((list.len(), list.get(4)), (4, None));
        for (bound, expected) in [(5, 0), (11, 1), (31, 3), (46, 4)] {
            assert_eq!(list.partition_point(|n| *n < bound), expected, "{bound}");
        }
        list.clear();
        assert_eq!(list.len(), 0);
    }

    #[test]
    fn nothing_lies_outside_of_the_view() {
        let list = mapped(&[1, 2, 3]);
        for (at, len) in [(0, 4), (4, 3), (1, 1), (usize::MAX, 1), (0, usize::MAX)] {
            assert!(
                Mapped::<u32>::new(&list.view, at, len).is_none(),
                "{at} {len}"
            );
        }
        assert_eq!(
            Mapped::<u32>::new(&list.view, 4, 2).expect("two").all(),
            [2, 3]
        );
    }
}
