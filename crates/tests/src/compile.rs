//! Compiles guests, and keeps the programs by content hash.
//!
//! Must never run a stale program: the hash covers the source, everything in
//! `guests/include/`, the whole command line and the compiler's version.

use crate::header::{Header, Link};
use crate::needs::{Missing, SEARCH_PATH, find_tool, is_ci, missing_tool};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use xxhash_rust::xxh3::Xxh3;

/// The compiler of one source language.
struct Language {
    extension: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
    links: fn(Link) -> &'static [&'static str],
}

const C_FLAGS: &[&str] = &["-O2", "-pthread", "-Wall", "-Wextra"];
const LANGUAGES: [Language; 4] = [
    Language {
        extension: "c",
        compiler: "gcc",
        flags: C_FLAGS,
        links: gcc_link,
    },
    Language {
        extension: "cc",
        compiler: "g++",
        flags: C_FLAGS,
        links: gcc_link,
    },
    Language {
        extension: "s",
        compiler: "gcc",
        flags: &[],
        links: gcc_link,
    },
    Language {
        extension: "rs",
        compiler: "rustc",
        flags: &["-O", "--edition=2024"],
        links: rustc_link,
    },
];

fn gcc_link(link: Link) -> &'static [&'static str] {
    match link {
        Link::Pie => &["-fPIE", "-pie"],
        Link::NoPie => &["-fno-pie", "-no-pie"],
        Link::Static => &["-fno-pie", "-no-pie", "-static"],
        Link::StaticPie => &["-fPIE", "-static-pie"],
    }
}

fn rustc_link(link: Link) -> &'static [&'static str] {
    match link {
        Link::Pie => &["-Crelocation-model=pie"],
        Link::NoPie => &["-Crelocation-model=static"],
        Link::Static => &["-Crelocation-model=static", "-Ctarget-feature=+crt-static"],
        Link::StaticPie => &["-Crelocation-model=pie", "-Ctarget-feature=+crt-static"],
    }
}

/// The comment marker of a source file that is a guest, or `None` for any other file.
pub fn comment_marker(source: &Path) -> Option<&'static str> {
    let language = language(source)?;
    Some(if language.extension == "s" { "#" } else { "//" })
}

/// The reason why there is no program to run.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler is not here; counts as [`Missing`] says.
    #[error("the compiler is missing")]
    NoCompiler(Missing),
    /// It refused the program; the text holds the command line and its messages.
    #[error("{0}")]
    Refused(String),
    /// The build folder could not be used.
    #[error("build folder: {0}")]
    Folder(#[from] std::io::Error),
}

/// Compiles `source` as one link variant into `build_dir`, or finds it there, and returns
/// the program's path.
///
/// # Errors
/// See [`CompileError`].
pub fn compile(
    source: &Path,
    header: &Header,
    link: Link,
    build_dir: &Path,
) -> Result<PathBuf, CompileError> {
    let language = language(source).expect("discovery only yields known languages");
    let compiler = find_compiler(language.compiler)
        .ok_or_else(|| CompileError::NoCompiler(missing_tool(language.compiler, is_ci())))?;
    let mut args: Vec<OsString> = language.flags.iter().map(OsString::from).collect();
    args.extend((language.links)(link).iter().map(OsString::from));
    if language.compiler != "rustc" {
        let include = source
            .parent()
            .expect("a source has a folder")
            .join("include");
        args.push("-I".into());
        args.push(include.into());
    }
    args.push(source.into());
    args.extend(header.flags.iter().map(OsString::from));

    let stem = source
        .file_stem()
        .expect("a source has a name")
        .to_string_lossy();
    let hash = hash_of(source, &compiler, &args)?;
    fs::create_dir_all(build_dir)?;
    let program = build_dir.join(format!("{stem}.{}.{hash:016x}", link.word()));
    if program.exists() {
        return Ok(program);
    }
    // Renamed into place only when complete, so that a killed compiler leaves no half program.
    let partial = build_dir.join(format!(
        "{stem}.{}.{hash:016x}.{}",
        link.word(),
        std::process::id()
    ));
    args.extend(["-o".into(), partial.clone().into()]);
    let output = Command::new(&compiler).args(&args).output()?;
    if !output.status.success() {
        let words: Vec<_> = args
            .iter()
            .map(|word| crate::escape::shell_quote(word))
            .collect();
        return Err(CompileError::Refused(format!(
            "{} {}\n{}",
            compiler.display(),
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    fs::rename(&partial, &program)?;
    Ok(program)
}

fn language(source: &Path) -> Option<&'static Language> {
    let extension = source.extension()?.to_str()?;
    LANGUAGES
        .iter()
        .find(|language| language.extension == extension)
}

/// `rustc` is the toolchain's own, next to the running cargo; the others are on the fixed path.
fn find_compiler(name: &str) -> Option<PathBuf> {
    let toolchain = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name(name));
    let from_toolchain = toolchain.filter(|path| name == "rustc" && path.is_file());
    from_toolchain.or_else(|| find_tool(name)).or_else(|| {
        let path = std::env::var_os("PATH")?;
        let candidates = std::env::split_paths(&path).map(|folder| folder.join(name));
        candidates.into_iter().find(|path| path.is_file())
    })
}

fn hash_of(source: &Path, compiler: &Path, args: &[OsString]) -> std::io::Result<u64> {
    let mut hash = Xxh3::new();
    let mut include_files = Vec::new();
    let include = source
        .parent()
        .expect("a source has a folder")
        .join("include");
    if include.is_dir() {
        for entry in fs::read_dir(include)? {
            include_files.push(entry?.path());
        }
    }
    include_files.sort();
    for file in std::iter::once(source).chain(include_files.iter().map(PathBuf::as_path)) {
        let bytes = fs::read(file)?;
        hash.update(&bytes.len().to_le_bytes());
        hash.update(&bytes);
    }
    for word in args {
        hash.update(word.as_encoded_bytes());
        hash.update(&[0]);
    }
    hash.update(&version_of(compiler)?);
    Ok(hash.digest())
}

fn version_of(compiler: &Path) -> std::io::Result<Vec<u8>> {
    static VERSIONS: Mutex<Option<HashMap<PathBuf, Vec<u8>>>> = Mutex::new(None);
    let mut guard = VERSIONS.lock().expect("no holder panics");
    let versions = guard.get_or_insert_default();
    if let Some(version) = versions.get(compiler) {
        return Ok(version.clone());
    }
    let output = Command::new(compiler)
        .arg("--version")
        .env("PATH", SEARCH_PATH)
        .output()?;
    versions.insert(compiler.to_owned(), output.stdout.clone());
    Ok(output.stdout)
}
