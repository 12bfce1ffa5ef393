//! The place where the parts of a hunt meet: a folder that all machines see, or an object store. It is
//! written by strangers to this process, so everything read from it is checked.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart,
};
use relive_engine::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

/// Most bytes of a message.
const MOST: u64 = 1 << 20;
/// Bytes of a file that are sent at a time.
const PIECE: usize = 8 << 20;

/// A folder or an object store, with names below it.
pub struct Results {
    shown: String,
    store: Arc<dyn ObjectStore>,
    below: Name,
    /// Requests need a thread that waits for them.
    runtime: Runtime,
}

impl Results {
    /// Opens a folder, which is made if need be, or a URL. Access to an object store is configured by the variables
    /// of its provider (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
    ///
    /// # Errors
    /// It cannot be made, or is of an unknown kind.
    pub fn open(place: &str) -> Result<Self, Failure> {
        let no = |e: &dyn std::fmt::Display| {
            Failure::setup(format!("{place} cannot be used for results: {e}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| no(&e))?;
        let (store, below): (Arc<dyn ObjectStore>, Name) = if place.contains("://") {
            let url = url::Url::parse(place).map_err(|e| no(&e))?;
            if !cfg!(feature = "cloud") && !["file", "memory"].contains(&url.scheme()) {
                return Err(Failure::setup(format!(
                    "this relive was built without object stores on the network: build it with --features cloud, or name a folder instead of {place}"
                )));
            }
            if let Ok(folder) = url.to_file_path() {
                std::fs::create_dir_all(folder).map_err(|e| no(&e))?;
            }
            let variables = std::env::vars().map(|(name, value)| (name.to_lowercase(), value));
            let (store, below) =
                object_store::parse_url_opts(&url, variables).map_err(|e| no(&e))?;
            (store.into(), below)
        } else {
            std::fs::create_dir_all(place).map_err(|e| no(&e))?;
            let store = LocalFileSystem::new_with_prefix(place).map_err(|e| no(&e))?;
            (Arc::new(store), Name::default())
        };
        Ok(Self {
            shown: place.trim_end_matches('/').to_owned(),
            store,
            below,
            runtime,
        })
    }

    /// How people name a thing in it.
    pub fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.shown)
    }

    fn name(&self, name: &str) -> Name {
        name.split('/')
            .fold(self.below.clone(), |all, part| all.join(part))
    }

    fn no(&self, name: &str, e: &dyn std::fmt::Display) -> Failure {
        Failure::setup(format!("{}: {e}", self.shown(name)))
    }

    /// Writes a message, in place of an older one.
    ///
    /// # Errors
    /// The store's.
    pub fn write(&self, name: &str, message: &impl Serialize) -> Result<(), Failure> {
        self.put(name, message, PutMode::Overwrite).map(|_| ())
    }

    /// Writes a message unless one of that name is there; whether it did. Of several processes one does.
    ///
    /// # Errors
    /// The store's.
    pub fn write_first(&self, name: &str, message: &impl Serialize) -> Result<bool, Failure> {
        self.put(name, message, PutMode::Create)
    }

    fn put(&self, name: &str, message: &impl Serialize, mode: PutMode) -> Result<bool, Failure> {
        let bytes = serde_json::to_vec(message).map_err(Failure::internal)?;
        let options = PutOptions::from(mode);
        let name_there = self.name(name);
        let put = self
            .store
            .put_opts(&name_there, PutPayload::from(bytes), options);
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(e) => Err(self.no(name, &e)),
        }
    }

    /// Reads a message, if there is one.
    ///
    /// # Errors
    /// The store's; it is none of these messages.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let name_there = self.name(name);
        let bytes = self.runtime.block_on(async {
            let found = self.store.get(&name_there).await?;
            if found.meta.size > MOST {
                return Ok(None);
            }
            found.bytes().await.map(Some)
        });
        let foreign = "this is not from a hunt of Relive: use a place of its own for each hunt";
        match bytes {
            Ok(Some(bytes)) => {
                let message = serde_json::from_slice(&bytes);
                message.map(Some).map_err(|_| self.no(name, &foreign))
            }
            Ok(None) => Err(self.no(name, &foreign)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.no(name, &e)),
        }
    }

    /// Sends a file, in pieces.
    ///
    /// # Errors
    /// The store's; it cannot be read.
    pub fn send(&self, file: &Path, name: &str) -> Result<(), Failure> {
        let mut file = File::open(file).map_err(Failure::setup)?;
        let name_there = self.name(name);
        let mut piece = vec![0; PIECE];
        self.runtime
            .block_on(async {
                let upload = self.store.put_multipart(&name_there).await?;
                let mut upload = WriteMultipart::new(upload);
                loop {
                    match file.read(&mut piece) {
                        Ok(0) => break,
                        Ok(read) => upload.write(&piece[..read]),
                        Err(e) => {
                            upload.abort().await?;
                            return Err(Error::Generic {
                                store: "the file that is sent",
                                source: e.into(),
                            });
                        }
                    }
                    upload.wait_for_capacity(1).await?;
                }
                upload.finish().await.map(|_| ())
            })
            .map_err(|e| self.no(name, &e))
    }

    /// Removes a thing.
    ///
    /// # Errors
    /// The store's.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        let removed = self.runtime.block_on(self.store.delete(&self.name(name)));
        removed.map_err(|e| self.no(name, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same for a folder and for its URL.
    fn both(check: impl Fn(&Results)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a folder");
        check(&Results::open(path.to_str().expect("a plain name")).expect("a folder"));
        let url = url::Url::from_file_path(folder.path().join("by url")).expect("a path");
        check(&Results::open(url.as_str()).expect("its URL"));
    }

    #[test]
    fn of_several_first_messages_one_is_kept() {
        both(|results| {
            assert_eq!(results.read::<u32>("a.json").expect("none"), None);
            assert!(results.write_first("a.json", &1).expect("it is the first"));
            assert!(!results.write_first("a.json", &2).expect("it is the second"));
            assert_eq!(results.read("a.json").expect("the first"), Some(1));
            results.write("a.json", &3).expect("it replaces");
            assert_eq!(results.read("a.json").expect("the last"), Some(3));
        });
    }

    #[test]
    fn a_file_arrives_as_it_was() {
        let source = tempfile::NamedTempFile::new().expect("a file");
        let bytes: Vec<u8> = (0..PIECE + 12345).map(|n| n as u8).collect();
        std::fs::write(source.path(), &bytes).expect("it is written");
        both(|results| {
            results.send(source.path(), "sub/file").expect("it is sent");
            let there = results.shown("sub/file").replace("file://", "");
            let there = std::fs::read(there.replace("%20", " ")).expect("it is there");
            assert!(there == bytes, "the bytes differ");
            results.remove("sub/file").expect("it is removed");
        });
    }

    #[test]
    fn foreign_messages_are_refused() {
        both(|results| {
            results.write("a.json", &"words").expect("written");
            assert!(results.read::<u32>("a.json").is_err());
            results
                .write("b.json", &"x".repeat(MOST as usize))
                .expect("written");
            assert!(results.read::<String>("b.json").is_err());
        });
    }

    #[test]
    fn an_unknown_store_is_refused_with_a_word() {
        let refused = Results::open("ftp://example.org/x").err();
        assert!(refused.is_some_and(|e| e.to_string().contains("ftp://example.org/x")));
    }
}
