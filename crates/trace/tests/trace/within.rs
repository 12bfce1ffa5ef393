//! The store of copies by a descriptor of its folder, when its path leads nowhere any more.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use relive_trace::FileStore;

#[test]
fn copies_are_made_and_found_where_the_folder_lies_now() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, moved) = (dir.path().join("trace"), dir.path().join("moved"));
    fs::create_dir_all(trace.join("files")).unwrap();
    let store = FileStore::new(&trace);
    let first = dir.path().join("first");
    fs::write(&first, "before").unwrap();
    let before = store.add(&File::open(&first).unwrap()).unwrap();

    let folder: &'static File = Box::leak(Box::new(File::open(store.folder()).unwrap()));
    store.show_all().unwrap();
    fs::rename(&trace, &moved).unwrap();
    let within = store.clone().within(folder.as_fd());
    fs::write(&first, "after").unwrap();
    let after = within.add(&File::open(&first).unwrap()).unwrap();
    assert_eq!(within.add(&File::open(&first).unwrap()).unwrap(), after);
    within.show(after);
    for (id, text) in [(before, "before"), (after, "after")] {
        let copy = within.copy(id).unwrap();
        let mut bytes = vec![0; text.len()];
        copy.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, text.as_bytes());
        let mode = copy.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "{text}");
    }
    assert!(store.copy(after).is_err(), "its path leads nowhere");
    let names = fs::read_dir(moved.join("files")).unwrap().count();
    assert_eq!(names, 2, "nothing half-made is left");
}

#[test]
fn a_copy_of_a_file_with_holes_has_holes() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("files")).unwrap();
    let store = FileStore::new(dir.path());
    let path = dir.path().join("sparse");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    let length = 64 << 20;
    file.write_all_at(b"middle", length / 2).unwrap();
    file.set_len(length).unwrap();
    let copy = store.copy(store.add(&file).unwrap()).unwrap();
    let metadata = copy.metadata().unwrap();
    assert_eq!(metadata.len(), length);
    if file.metadata().unwrap().blocks() * 512 < length {
        assert!(metadata.blocks() * 512 < length / 2, "{metadata:?}");
    }
    let mut middle = [0; 7];
    copy.read_exact_at(&mut middle, length / 2).unwrap();
    assert_eq!(&middle, b"middle\0");
}
