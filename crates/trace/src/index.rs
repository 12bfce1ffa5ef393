//! The folders of a trace with session images: `index` lies beside the recording and only repeats it, with `begin` an excerpt begins,
//! and `epochs` lies beside a sketch until its first replay. The first two are made as a whole; images between epochs are there one by one,
//! as they are made. Making them must never change the recording.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::{Error, Result};
use crate::pages::{PAGE, PageReader, PageWriter};
use crate::session::{ImageHead, MemorySum, SessionImage, read_head};

/// The index while it is made: a crash may leave it behind.
pub const UNFINISHED_INDEX: &str = ".index";
/// Name of the file of pages.
const PAGES: &str = "pages";
const SUFFIX: &str = ".image";

/// A folder of session images in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageSet {
    /// Images that repeat the recording.
    Index,
    /// Images with which an excerpt begins.
    Begin,
    /// Images between the epochs of a recording of threads at the same time, whose turns have not been found.
    Epochs,
}

impl ImageSet {
    /// The folder in this trace.
    #[must_use]
    pub fn folder(self, trace: &Path) -> PathBuf {
        trace.join(match self {
            Self::Index => "index",
            Self::Begin => "begin",
            Self::Epochs => "epochs",
        })
    }

    /// The same while images are made.
    fn unfinished(self, trace: &Path) -> PathBuf {
        trace.join(match self {
            Self::Index => UNFINISHED_INDEX,
            Self::Begin => ".begin",
            Self::Epochs => "epochs",
        })
    }

    /// Whether readers see its images while more of them are made.
    fn grows(self) -> bool {
        self == Self::Epochs
    }

    /// Removes the folder. Whether there was one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(self, trace: &Path) -> Result<bool> {
        let folder = self.folder(trace);
        match std::fs::remove_dir_all(&folder) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::write(&folder, error)),
        }
    }
}

/// The name of an image of an index.
#[must_use]
pub fn image_name(process: u32, work: u64) -> String {
    format!("{process}-{work}{SUFFIX}")
}

/// The images in a folder of a trace, in order of process and work; none without it.
///
/// # Errors
/// The folder cannot be read, or holds something else under an image's name.
pub fn images_of(trace: &Path, set: ImageSet) -> Result<Vec<ImageHead>> {
    let folder = set.folder(trace);
    let failed = |error| Error::read(&folder, error);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| name.ends_with(SUFFIX)) else {
            continue;
        };
        let head = read_head(&path)?;
        if name != image_name(head.process, head.work) {
            return Err(Error::Damaged {
                path,
                what: "its name is that of another session image",
            });
        }
        all.push(head);
    }
    all.sort_by_key(|head| (head.process, head.work));
    Ok(all)
}

/// An empty folder for images of a set, which is not finished; its lock keeps others away.
fn begin(trace: &Path, set: ImageSet) -> Result<(PathBuf, File)> {
    let folder = set.unfinished(trace);
    let failed = |error| Error::write(&folder, error);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(failed)?,
    }
    // A trace may come from a stranger: a link would lead to a folder that is not to be emptied.
    let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(&folder);
    let lock = opened.map_err(failed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Busy {
        path: trace.to_owned(),
    })?;
    // Of one that was killed.
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        std::fs::remove_file(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    Ok((folder, lock))
}

/// Puts the images of one set, as far as they are named here, into the place of another one: each under its old head, with the new head and
/// state. Their pages are not copied. The first set is gone then.
///
/// # Errors
/// An image is damaged, or the folder cannot be written: then both are as they were.
pub fn become_images(
    trace: &Path,
    (from, to): (ImageSet, ImageSet),
    images: &[(ImageHead, ImageHead, Vec<u8>)],
) -> Result<()> {
    link_images(trace, (from, to), images)?;
    from.remove(trace).map(drop)
}

/// The same, but that the first set stays.
///
/// # Errors
/// As [`become_images`].
pub fn link_images(
    trace: &Path,
    (from, to): (ImageSet, ImageSet),
    images: &[(ImageHead, ImageHead, Vec<u8>)],
) -> Result<()> {
    let (folder, _lock) = begin(trace, to)?;
    let source = from.folder(trace);
    let pages = folder.join(PAGES);
    std::fs::hard_link(source.join(PAGES), &pages).map_err(|error| Error::write(&pages, error))?;
    for (old, head, state) in images {
        let path = source.join(image_name(old.process, old.work));
        let image = SessionImage {
            head: *head,
            state: state.clone(),
            ..SessionImage::read(&path)?
        };
        image.write(&folder.join(image_name(head.process, head.work)))?;
    }
    to.remove(trace)?;
    let failed = |error| Error::write(&folder, error);
    std::fs::rename(&folder, to.folder(trace)).map_err(failed)
}

/// Makes a folder of session images. It takes the place of an older one when it is finished.
pub struct IndexWriter {
    trace: PathBuf,
    set: ImageSet,
    /// The new folder; its lock keeps others away.
    folder: PathBuf,
    _lock: File,
    id: u64,
    pages: PageWriter,
    /// Bytes of images so far.
    images: u64,
}

impl IndexWriter {
    /// Begins.
    ///
    /// # Errors
    /// The trace cannot be written, or another process is making its index.
    pub fn create(trace: &Path, set: ImageSet) -> Result<Self> {
        let (folder, lock) = begin(trace, set)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let id = now.map_or(0, |now| now.as_nanos() as u64) ^ u64::from(std::process::id()) << 48;
        let pages = PageWriter::create(&folder.join(PAGES), id)?;
        Ok(Self {
            trace: trace.to_owned(),
            set,
            folder,
            _lock: lock,
            id,
            pages,
            images: 0,
        })
    }

    /// Begins an image.
    #[must_use]
    pub fn image(&self, head: ImageHead, state: Vec<u8>) -> ImageWriter {
        ImageWriter {
            image: SessionImage::new(head, self.id, state),
            sum: MemorySum::new(),
        }
    }

    /// The number that its images have in common.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.id
    }

    /// Bytes of the index so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.pages.length() + self.images
    }

    /// Leaves no index, nor anything of it.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn abandon(self) -> Result<()> {
        let failed = |error| Error::write(&self.folder, error);
        std::fs::remove_dir_all(&self.folder).map_err(failed)
    }

    /// Leaves an image out, which was finished. Its pages stay.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn leave_out(&self, process: u32, work: u64) -> Result<()> {
        let path = self.folder.join(image_name(process, work));
        std::fs::remove_file(&path).map_err(|error| Error::write(&path, error))
    }

    /// Puts the index in the place of an older one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<u64> {
        self.pages.flush()?;
        let length = self.length();
        if self.set.grows() {
            return Ok(length);
        }
        self.set.remove(&self.trace)?;
        let failed = |error| Error::write(&self.folder, error);
        std::fs::rename(&self.folder, self.set.folder(&self.trace)).map_err(failed)?;
        Ok(length)
    }
}

/// One image that is being made; its pages are in its index at once.
pub struct ImageWriter {
    image: SessionImage,
    sum: MemorySum,
}

impl ImageWriter {
    /// Adds pages from an address on, above all that there are. Where memory would be zeros without them
    /// (`blank`), pages of zeros are left out.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn add(
        &mut self,
        index: &mut IndexWriter,
        mut addr: u64,
        bytes: &[u8],
        blank: bool,
    ) -> Result<()> {
        for page in bytes.as_chunks::<PAGE>().0 {
            if !blank || page.iter().any(|byte| *byte != 0) {
                let number = index.pages.add(page)?;
                self.image.add(addr, number);
                self.sum.add(addr, page);
            }
            addr += PAGE as u64;
        }
        Ok(())
    }

    /// Another head and state, where more is known of them than when it was begun.
    pub fn describe(&mut self, head: ImageHead, state: Vec<u8>) {
        (self.image.head, self.image.state) = (head, state);
    }

    /// Finishes it, in the index that it was begun in.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, index: &mut IndexWriter) -> Result<()> {
        index.pages.flush()?;
        self.image.memory = self.sum.value();
        let name = image_name(self.image.head.process, self.image.head.work);
        let path = index.folder.join(&name);
        if !index.set.grows() {
            index.images += self.image.write(&path)?;
            return Ok(());
        }
        // As a whole, for those who look.
        let new = index.folder.join(format!("{name}.new"));
        index.images += self.image.write(&new)?;
        std::fs::rename(&new, &path).map_err(|error| Error::write(&path, error))
    }
}

/// Reads one image of an index.
pub struct ImageReader {
    image: SessionImage,
    pages: PageReader,
    path: PathBuf,
}

impl ImageReader {
    /// Opens an image of the index of a trace.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn open(trace: &Path, set: ImageSet, process: u32, work: u64) -> Result<Self> {
        let folder = set.folder(trace);
        let path = folder.join(image_name(process, work));
        let image = SessionImage::read(&path)?;
        let pages = PageReader::open(&folder.join(PAGES), set.grows())?;
        let fits = (image.head.process, image.head.work) == (process, work);
        if !fits || image.id != pages.id {
            return Err(Error::Damaged {
                path,
                what: "its pages are those of another index",
            });
        }
        Ok(Self { image, pages, path })
    }

    /// The number that it has in common with the others of its folder.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.image.id
    }

    /// Its position and form.
    #[must_use]
    pub fn head(&self) -> &ImageHead {
        &self.image.head
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> &[u8] {
        &self.image.state
    }

    /// Bytes of memory that it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let pages = self.image.runs.iter().map(|run| run.count);
        let pages = pages.fold(0u64, |all, count| all.saturating_add(count));
        pages.saturating_mul(PAGE as u64)
    }

    /// The address of the first page for which `same` does not hold, given the address and the content; all are read.
    ///
    /// # Errors
    /// As [`ImageReader::pages`].
    pub fn first_other(&mut self, mut same: impl FnMut(u64, &[u8]) -> bool) -> Result<Option<u64>> {
        let mut found = None;
        self.pages(|addr, bytes| -> Result<()> {
            for (at, page) in (addr..).step_by(PAGE).zip(bytes.chunks(PAGE)) {
                if found.is_none() && !same(at, page) {
                    found = Some(at);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Hands out all pages, in order of their addresses: neighbouring ones together.
    ///
    /// # Errors
    /// One is damaged: then none of them may be used. Or `each` fails.
    pub fn pages<E: From<Error>>(
        &mut self,
        mut each: impl FnMut(u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut sum = MemorySum::new();
        for run in &self.image.runs {
            let mut done = 0;
            while done < run.count {
                let pages = self.pages.pages(run.page + done, run.count - done)?;
                let mut addr = run.addr + done * PAGE as u64;
                each(addr, pages)?;
                for page in pages.as_chunks::<PAGE>().0 {
                    sum.add(addr, page);
                    addr += PAGE as u64;
                    done += 1;
                }
            }
        }
        match sum.value() == self.image.memory {
            true => Ok(()),
            false => Err(E::from(Error::Damaged {
                path: self.path.clone(),
                what: "its pages are not those that it was written with",
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(event: u64) -> ImageHead {
        ImageHead {
            layout: 1,
            process: 0,
            event,
            turn: 0,
            ticks: 0,
            work: event * 100,
            tapes: 0,
            order: 0,
        }
    }

    fn page(fill: u8) -> Vec<u8> {
        vec![fill; PAGE]
    }

    fn read(trace: &Path, event: u64) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut all = Vec::new();
        ImageReader::open(trace, ImageSet::Index, 0, event * 100)?.pages(|addr, bytes| {
            all.push((addr, bytes.to_vec()));
            Ok::<(), Error>(())
        })?;
        Ok(all)
    }

    /// An index of two images, of which the second has many pages.
    fn sample() -> tempfile::TempDir {
        let base = tempfile::tempdir().unwrap();
        let mut index = IndexWriter::create(base.path(), ImageSet::Index).unwrap();
        let mut image = index.image(head(3), b"state".to_vec());
        let three = [page(1), page(0), page(2)].concat();
        image.add(&mut index, 0x10000, &three, true).unwrap();
        image.add(&mut index, 0x13000, &page(0), false).unwrap();
        image.finish(&mut index).unwrap();
        let mut image = index.image(head(9), Vec::new());
        for i in 0..100u64 {
            let addr = 0x20000 + i * PAGE as u64;
            image.add(&mut index, addr, &page(i as u8), true).unwrap();
        }
        image.finish(&mut index).unwrap();
        assert!(index.finish().unwrap() > 0);
        base
    }

    #[test]
    fn pages_come_back_and_zeros_only_where_they_count() {
        let base = sample();
        let events: Vec<u64> = images_of(base.path(), ImageSet::Index)
            .unwrap()
            .iter()
            .map(|h| h.event)
            .collect();
        assert_eq!(events, [3, 9]);
        let first = read(base.path(), 3).unwrap();
        let both = [page(2), page(0)].concat();
        assert_eq!(first, [(0x10000, page(1)), (0x12000, both)]);
        let all = read(base.path(), 9).unwrap();
        let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(bytes, 99 * PAGE);
        let pages =
            PageReader::open(&ImageSet::Index.folder(base.path()).join(PAGES), false).unwrap();
        let blocks = std::fs::metadata(ImageSet::Index.folder(base.path()).join(PAGES)).unwrap();
        assert!(blocks.len() < 100 * PAGE as u64 && pages.id != 0);
        assert!(
            ImageSet::Index.remove(base.path()).unwrap()
                && !ImageSet::Index.remove(base.path()).unwrap()
        );
        assert!(images_of(base.path(), ImageSet::Index).unwrap().is_empty());
    }

    #[test]
    fn any_changed_byte_is_an_error() {
        let base = sample();
        let whole = read(base.path(), 9).unwrap();
        for name in [PAGES.to_owned(), image_name(0, 900)] {
            let path = ImageSet::Index.folder(base.path()).join(name);
            let good = std::fs::read(&path).unwrap();
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 1 << (at % 8);
                std::fs::write(&path, &bad).unwrap();
                // A block that this image does not use may be damaged.
                let outcome = read(base.path(), 9);
                assert!(outcome.is_err() || outcome.unwrap() == whole, "{at}");
            }
            std::fs::write(&path, &good[..good.len() - 1]).unwrap();
            assert!(read(base.path(), 9).is_err());
            std::fs::write(&path, &good).unwrap();
        }
        assert_eq!(read(base.path(), 9).unwrap(), whole);
    }

    #[test]
    fn a_link_in_the_place_of_an_index_leads_nowhere() {
        let (base, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kept = other.path().join("kept");
        std::fs::write(&kept, "x").unwrap();
        let link = |name: &str| std::os::unix::fs::symlink(other.path(), base.path().join(name));
        link(UNFINISHED_INDEX).unwrap();
        assert!(IndexWriter::create(base.path(), ImageSet::Index).is_err());
        std::fs::remove_file(base.path().join(UNFINISHED_INDEX)).unwrap();
        link("index").unwrap();
        IndexWriter::create(base.path(), ImageSet::Index)
            .unwrap()
            .finish()
            .unwrap();
        assert!(kept.exists() && !ImageSet::Index.folder(base.path()).is_symlink());
    }

    #[test]
    fn two_do_not_make_one_index() {
        let base = tempfile::tempdir().unwrap();
        let first = IndexWriter::create(base.path(), ImageSet::Index).unwrap();
        assert!(IndexWriter::create(base.path(), ImageSet::Index).is_err());
        drop(first);
        IndexWriter::create(base.path(), ImageSet::Index).unwrap();
    }

    #[test]
    fn images_of_a_set_become_those_of_another_one() {
        let base = sample();
        let old = images_of(base.path(), ImageSet::Index).unwrap();
        let before = read(base.path(), 9).unwrap();
        let other = ImageHead {
            tapes: 77,
            ..head(10)
        };
        let images = [(old[1], other, b"another".to_vec())];
        let sets = (ImageSet::Index, ImageSet::Begin);
        become_images(base.path(), sets, &images).unwrap();
        assert_eq!(images_of(base.path(), ImageSet::Begin).unwrap(), [other]);
        assert!(images_of(base.path(), ImageSet::Index).unwrap().is_empty());
        let mut image = ImageReader::open(base.path(), ImageSet::Begin, 0, 1000).unwrap();
        assert_eq!((*image.head(), image.state()), (other, &b"another"[..]));
        let mut pages = Vec::new();
        let all = image.pages(|addr, bytes| {
            pages.push((addr, bytes.to_vec()));
            Ok::<(), Error>(())
        });
        all.unwrap();
        assert_eq!(pages, before);
        assert_eq!(
            image.first_other(|addr, _| addr != 0x25000).unwrap(),
            Some(0x25000)
        );
        assert_eq!(image.first_other(|_, _| true).unwrap(), None);
    }
}
