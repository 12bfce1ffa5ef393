//! The maps that show the same shared memory, and the files that are mapped shared. Must never take a
//! private map for a view of its file.

use super::region::{MappedObject, Region};
use super::{AddressSpace, EXEC};
use crate::sharing::changes::FileRange;

impl AddressSpace {
    /// All ranges that show the memory of a mapped range: the range itself, and other maps of its shared
    /// parts. Starts and ends.
    #[must_use]
    pub fn views(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for r in self.overlapping(start, end) {
            let (from, to) = (start.max(r.start), end.min(r.end));
            match r.object() {
                None => all.push((from, to)),
                Some(object) => {
                    let at = r.offset + (from - r.start);
                    all.extend(self.showing(object, at, to - from));
                }
            }
        }
        all
    }

    /// The same, of maps that may have been executed: a program may have the same memory at thousands of places.
    #[must_use]
    pub fn code_views(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let is_code = |r: &&Region| r.prot & EXEC != 0;
        if self.shared_code {
            let mut all = self.views(start, end);
            all.retain(|view| self.at(view.0).as_ref().is_some_and(is_code));
            return all;
        }
        let own = self.overlapping(start, end).filter(is_code);
        own.map(|r| (start.max(r.start), end.min(r.end))).collect()
    }

    /// The ranges in which shared maps show the part of `len` bytes from `offset` of a file.
    pub fn shared_views(
        &self,
        inode: u64,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (u64, u64)> {
        self.showing(MappedObject::File(inode), offset, len)
    }

    fn showing(
        &self,
        object: MappedObject,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (u64, u64)> {
        let views = self.iter().filter(move |r| r.object() == Some(object));
        views.filter_map(move |r| {
            let from = offset.max(r.offset);
            let to = (offset.saturating_add(len)).min(r.offset + (r.end - r.start));
            let place = |at: u64| r.start + (at - r.offset);
            (from < to).then(|| (place(from), place(to)))
        })
    }

    /// The ranges in which shared maps show these parts of files, in order and each address once.
    #[must_use]
    pub fn views_of(&self, parts: &[FileRange]) -> Vec<(u64, u64)> {
        let views = parts
            .iter()
            .flat_map(|p| self.shared_views(p.file, p.start, p.end - p.start));
        let mut views: Vec<(u64, u64)> = views.collect();
        views.sort_unstable();
        views.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        views
    }

    /// The parts of files that are mapped shared.
    #[must_use]
    pub fn shared_files(&self) -> Vec<FileRange> {
        let files = self.iter().filter(|r| r.shared && r.inode != 0);
        let part = |r: &Region| FileRange {
            file: r.inode,
            start: r.offset,
            end: r.offset + (r.end - r.start),
        };
        files.map(part).collect()
    }

    /// Whether a part of a file is mapped shared that the process could then see change at another address; `writes`: it
    /// may write to the file there.
    #[must_use]
    pub fn would_show_twice(&self, part: FileRange, writes: bool) -> bool {
        let changes = |at| writes || self.at(at).is_some_and(|r| r.common);
        let mut views = self.shared_views(part.file, part.start, part.end - part.start);
        views.any(|(start, _)| changes(start))
    }

    /// Whether shared memory of a region shows at a second address where mremap(2) makes it longer by `more` bytes behind
    /// `end`, or maps it `beside` the old place.
    #[must_use]
    pub fn would_show_again(&self, region: &Region, end: u64, more: u64, beside: bool) -> bool {
        let at = region.offset + (end - region.start);
        let shown = |object| self.showing(object, at, more).next().is_some();
        region
            .object()
            .is_some_and(|object| beside || shown(object))
    }

    /// Whether a file is mapped shared.
    #[must_use]
    pub fn shares_file(&self, inode: u64) -> bool {
        self.shared_views(inode, 0, u64::MAX).next().is_some()
    }

    /// The files of which a shared map has been removed since the last call. They may still have others.
    pub fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }

    /// Adds a file to them, which may have no shared map any more.
    pub fn may_drop(&mut self, inode: u64) {
        if !self.dropped.contains(&inode) {
            self.dropped.push(inode);
        }
    }

    /// Whether shared memory without a file has a part that shows at two addresses (mremap(2) from a length of 0).
    #[must_use]
    pub fn shows_unnamed_twice(&self) -> bool {
        let unnamed = |r: &&Region| matches!(r.object(), Some(MappedObject::Unnamed(_)));
        self.iter().filter(unnamed).any(|r| {
            let all = self.views(r.start, r.end);
            all.len() > 1
        })
    }

    /// Whether any file is mapped shared.
    #[must_use]
    pub fn has_shared_files(&self) -> bool {
        self.iter().any(|r| r.shared && r.inode != 0)
    }
}
