//! Makes the files that workloads read, the same on every machine, in a folder under cargo's target
//! folder. Existing ones are kept: the name of an input holds all that it depends on. Programs are
//! compiled anew in each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use relive_tests::needs::SEARCH_PATH;

use crate::sources;

/// One file or folder; the first field is its name.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A program of `programs/`, compiled with this optimisation.
    Program(&'static str, &'static str),
    /// A file of `programs/` as it is.
    Script(&'static str),
    /// This many bytes of text.
    Text(&'static str, usize),
    /// A C file of about this many bytes.
    LargeSource(&'static str, usize),
    /// A folder with this many C files and a makefile.
    ManySources(&'static str, usize),
    /// A git repository with this many files.
    Repository(&'static str, usize),
}

/// The folder of inputs.
#[derive(Clone, Debug)]
pub struct Inputs {
    folder: PathBuf,
}

impl Inputs {
    /// Inputs in this folder, which is made if need be.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn in_folder(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// The path of the input of this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes one input.
    ///
    /// # Errors
    /// It cannot be written, or a tool for it failed.
    pub fn make(&self, input: Input) -> Result<()> {
        match input {
            Input::Program(name, optimise) => self.compile(name, optimise),
            Input::Script(name) => {
                fs::copy(programs().join(name), self.path(name)).context(name)?;
                Ok(())
            }
            Input::Text(name, bytes) => self.file(name, || sources::text(bytes)),
            Input::LargeSource(name, bytes) => self.file(name, || sources::large(bytes)),
            Input::ManySources(name, count) => self.folder(name, |folder| {
                for number in 0..count {
                    fs::write(
                        folder.join(format!("unit{number}.c")),
                        sources::unit(number),
                    )?;
                }
                fs::write(folder.join("Makefile"), sources::makefile(count))?;
                Ok(())
            }),
            Input::Repository(name, count) => self.folder(name, |folder| repository(folder, count)),
        }
        .with_context(|| format!("input {input:?}"))
    }

    fn compile(&self, name: &str, optimise: &str) -> Result<()> {
        let source = programs().join(format!("{name}.c"));
        run(Command::new("gcc")
            .args([optimise, "-pthread", "-Wall", "-Wextra", "-o"])
            .arg(self.path(name))
            .arg(source)
            .arg("-lm"))
    }

    /// Writes a file whole or not at all.
    fn file(&self, name: &str, content: impl FnOnce() -> String) -> Result<()> {
        let path = self.path(name);
        if !path.exists() {
            let begun = self.path(&format!("{name}.begun"));
            fs::write(&begun, content())?;
            fs::rename(begun, path)?;
        }
        Ok(())
    }

    /// Fills a folder whole or not at all.
    fn folder(&self, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let path = self.path(name);
        if !path.exists() {
            let begun = self.path(&format!("{name}.begun"));
            if begun.exists() {
                fs::remove_dir_all(&begun)?;
            }
            fs::create_dir(&begun)?;
            fill(&begun)?;
            fs::rename(begun, path)?;
        }
        Ok(())
    }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

fn repository(folder: &Path, count: usize) -> Result<()> {
    for number in 0..count {
        let below = folder.join(format!("part{}", number % 50));
        fs::create_dir_all(&below)?;
        fs::write(
            below.join(format!("file{number}.txt")),
            sources::paragraph(number),
        )?;
    }
    for words in [
        &["init", "-q"][..],
        &["config", "gc.auto", "0"],
        &["add", "."],
        &["commit", "-q", "-m", "All files"],
    ] {
        run(Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"])
            .args(words))?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    command.env_clear().envs([
        ("PATH", SEARCH_PATH),
        ("LC_ALL", "C"),
        ("HOME", "/nonexistent"),
    ]);
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{command:?} failed:\n{text}");
            Ok(())
        }
        Err(error) => bail!("{command:?}: {error}"),
    }
}
