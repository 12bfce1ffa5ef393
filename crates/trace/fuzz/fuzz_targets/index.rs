//! Any bytes as a session image, or as its file of pages: an error, or pages in the order of their
//! addresses, without a panic.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use relive_trace::{Error, ImageHead, ImageReader, ImageSet, IndexWriter, image_name, images_of};
use tempfile::TempDir;

const HEAD: ImageHead = ImageHead {
    layout: 1,
    process: 0,
    event: 5,
    turn: 1,
    ticks: 7,
    work: 9,
    tapes: 0,
    order: 0,
};

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let base = tempfile::tempdir().expect("a temporary folder");
    let mut index = IndexWriter::create(base.path(), ImageSet::Index).expect("an index");
    let mut image = index.image(HEAD, vec![1; 100]);
    for n in 1..100u8 {
        let page = [n; 4096];
        image.add(&mut index, u64::from(n) << 13, &page, true).expect("a page");
    }
    image.finish(&mut index).expect("an image");
    index.finish().expect("an index");
    base
});

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let folder = ImageSet::Index.folder(FOLDER.path());
    let name = match which % 2 {
        0 => "pages".to_owned(),
        _ => image_name(HEAD.process, HEAD.work),
    };
    let path = folder.join(name);
    let good = std::fs::read(&path).expect("it is there");
    std::fs::write(&path, bytes).expect("it can be written");
    let _ = images_of(FOLDER.path(), ImageSet::Index);
    if let Ok(mut image) = ImageReader::open(FOLDER.path(), ImageSet::Index, HEAD.process, HEAD.work) {
        let mut least = 0;
        let _ = image.pages(|addr, pages| {
            assert!(addr >= least && !pages.is_empty());
            least = addr + pages.len() as u64;
            Ok::<(), Error>(())
        });
    }
    std::fs::write(&path, good).expect("it can be written");
});
