//! The header of a case: its first lines, `// relive: key=value …` (`# relive:` in assembly
//! and shell files).
//!
//! An unknown key or a bad value is an error: a header that is read wrongly would weaken its
//! test in silence.

use crate::escape::unescape;
use crate::signals;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// The commands allowed on a case; each one allows a group of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageGroup {
    /// `relive run`: translated, not recorded.
    Run,
    /// `relive record`.
    Record,
    /// `relive replay`.
    Replay,
    /// `relive verify`.
    Verify,
}

/// The ways of linking a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Dynamic, position-independent.
    Pie,
    /// Dynamic, at a fixed address.
    NoPie,
    /// Static, at a fixed address.
    Static,
    /// Static, position-independent.
    StaticPie,
}

impl Link {
    /// The header's word for this variant.
    pub fn word(self) -> &'static str {
        LINKS
            .iter()
            .find(|row| row.1 == self)
            .expect("every link kind has a row")
            .0
    }
}

/// The required end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Exits with this status.
    Exit(i32),
    /// Dies of this signal (the number).
    Signal(i32),
}

/// The requirement of a native run on a recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The standard output is the same in every run.
    Exact,
    /// It depends on process numbers, time or the schedule; only replay must equal record.
    Free,
}

/// The outcome of `relive replay --parallel` of a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// It comes to the recording's end: atomic instructions and calls order all that the threads do to each other.
    Exact,
    /// The same, or it has left the recording and says so: plain loads and stores are not ordered.
    Checked,
    /// It refuses it: there are several processes.
    Refused,
}

/// The commands that refuse a case on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// `relive run` works; `relive record` refuses.
    Record,
    /// `relive run` refuses too.
    All,
    /// Only `relive record --mode sketch` refuses.
    Sketch,
}

/// A refusal that is not an error: a documented limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Text that standard error must contain (`refused="substring"`).
    pub says: Vec<u8>,
    /// The commands that refuse (`refused-in=record`, `all` or `sketch`).
    pub place: Where,
}

const MODES: [(&str, StageGroup); 4] = [
    ("run", StageGroup::Run),
    ("record", StageGroup::Record),
    ("replay", StageGroup::Replay),
    ("verify", StageGroup::Verify),
];
const LINKS: [(&str, Link); 4] = [
    ("pie", Link::Pie),
    ("nopie", Link::NoPie),
    ("static", Link::Static),
    ("static-pie", Link::StaticPie),
];
const OUTPUTS: [(&str, Output); 2] = [("exact", Output::Exact), ("free", Output::Free)];
const PLACES: [(&str, Where); 3] = [
    ("record", Where::Record),
    ("all", Where::All),
    ("sketch", Where::Sketch),
];
const PARALLEL: [(&str, Parallel); 3] = [
    ("exact", Parallel::Exact),
    ("checked", Parallel::Checked),
    ("refused", Parallel::Refused),
];
const YES_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

/// All settings of a header.
#[derive(Clone, Debug)]
pub struct Header {
    /// The groups of stages that apply (`modes=run,record`).
    pub modes: Vec<StageGroup>,
    /// The case has threads and joins the stress run (`threads=yes`).
    pub threads: bool,
    /// It is recorded with threads on all cores too, and all that its threads do to each other is ordered by
    /// atomic instructions and calls (`sketch=yes`).
    pub sketch: bool,
    /// Whether it is also recorded with all accesses to memory in order (`coherence=yes`); else if it has threads, or is
    /// recorded as a sketch.
    pub coherence: Option<bool>,
    /// The outcome of a replay of its sketch with threads on all cores (`parallel=exact`).
    pub parallel: Parallel,
    /// `exit=N` or `signal=SIGNAME`.
    pub end: End,
    /// Words after the program (`args="a b\x20c"`).
    pub args: Vec<OsString>,
    /// Bytes on standard input; without it `/dev/null`.
    pub stdin: Option<Vec<u8>>,
    /// Link variants, each a trial (`link=pie,static`).
    pub links: Vec<Link>,
    /// Words after the source file on the compiler's command line.
    pub flags: Vec<String>,
    /// CPU features by their names in `/proc/cpuinfo`.
    pub needs: Vec<String>,
    /// Tools that must be found on the search path (`needs-tool=xz,awk`).
    pub needs_tools: Vec<String>,
    /// `output=exact` or `output=free`.
    pub output: Output,
    /// Bytes that standard output must contain; without it, a case that ends with status 0
    /// must print `ok` as its last line.
    pub expect: Option<Vec<u8>>,
    /// Time limit of each stage (`timeout=SECONDS`).
    pub timeout: Duration,
    /// Whether the stages with one-instruction fragments apply (`tiny=no` leaves them out).
    pub tiny: bool,
    /// Whether one process can be replayed by itself, so that session images are made of it (`index=no`:
    /// not).
    pub index: bool,
    /// Whether a replay has the memory that was recorded at every place (`images=no`: not, as of a vfork child that is
    /// killed behind its last event).
    pub images: bool,
    /// Relive refuses this case on purpose; there is then no recording to replay.
    pub refused: Option<Refusal>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            modes: MODES.iter().map(|row| row.1).collect(),
            threads: false,
            sketch: false,
            coherence: None,
            parallel: Parallel::Checked,
            end: End::Exit(0),
            args: Vec::new(),
            stdin: None,
            links: vec![Link::Pie],
            flags: Vec::new(),
            needs: Vec::new(),
            needs_tools: Vec::new(),
            output: Output::Exact,
            expect: None,
            timeout: Duration::from_secs(20),
            tiny: true,
            index: true,
            images: true,
            refused: None,
        }
    }
}

impl Header {
    /// Whether it is recorded with all accesses to memory in order.
    #[must_use]
    pub fn is_for_coherence(&self) -> bool {
        self.coherence.unwrap_or(self.threads || self.sketch)
    }

    /// Reads the header of a file's text; `marker` is `//` or `#`.
    ///
    /// # Errors
    /// No header, a header line after other lines, an unknown key or a bad value.
    pub fn parse(text: &str, marker: &str) -> Result<Self, String> {
        let prefix = format!("{marker} relive:");
        let mut header = Self::default();
        let mut lines = text.lines().skip_while(|line| line.starts_with("#!"));
        let mut seen = Vec::new();
        for line in lines.by_ref() {
            let Some(rest) = line.strip_prefix(&prefix) else {
                break;
            };
            for (key, value) in pairs(rest)? {
                if seen.contains(&key) {
                    return Err(format!("{key} is given twice"));
                }
                header
                    .set(&key, &value)
                    .map_err(|e| format!("{key}={value:?}: {e}"))?;
                seen.push(key);
            }
        }
        if !text.lines().any(|line| line.starts_with(&prefix)) {
            return Err(format!("no `{prefix}` line at the top"));
        }
        if lines.any(|line| line.starts_with(&prefix)) {
            return Err(format!("a `{prefix}` line stands after other lines"));
        }
        if seen.contains(&"exit".into()) && seen.contains(&"signal".into()) {
            return Err("exit and signal exclude each other".into());
        }
        match &header.refused {
            Some(refusal) if refusal.says.is_empty() => {
                return Err("refused needs a text (refused-in alone says nothing)".into());
            }
            Some(_) if header.threads => {
                return Err("a refused case cannot join the stress run (threads=yes)".into());
            }
            _ => {}
        }
        Ok(header)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "modes" => self.modes = words(&MODES, value)?,
            "threads" => self.threads = word(&YES_NO, value)?,
            "coherence" => self.coherence = Some(word(&YES_NO, value)?),
            "sketch" => self.sketch = word(&YES_NO, value)?,
            "parallel" => self.parallel = word(&PARALLEL, value)?,
            "exit" => self.end = End::Exit(value.parse::<u8>().map_err(|e| e.to_string())?.into()),
            "signal" => {
                self.end = End::Signal(signals::number(value).ok_or("no such signal")?);
            }
            "args" => {
                let split = value.split_ascii_whitespace().map(unescape);
                let bytes = split.collect::<Result<Vec<_>, _>>()?;
                self.args = bytes.into_iter().map(OsString::from_vec).collect();
            }
            "stdin" => self.stdin = Some(unescape(value)?),
            "link" => self.links = words(&LINKS, value)?,
            "flags" => self.flags = value.split_ascii_whitespace().map(str::to_owned).collect(),
            "needs" => self.needs = value.split(',').map(str::to_owned).collect(),
            "needs-tool" => self.needs_tools = value.split(',').map(str::to_owned).collect(),
            "output" => self.output = word(&OUTPUTS, value)?,
            "expect" => self.expect = Some(unescape(value)?),
            "timeout" => match value.parse::<u64>() {
                Ok(seconds @ 1..=300) => self.timeout = Duration::from_secs(seconds),
                _ => return Err("must be 1 to 300 seconds".into()),
            },
            "tiny" => self.tiny = word(&YES_NO, value)?,
            "index" => self.index = word(&YES_NO, value)?,
            "images" => self.images = word(&YES_NO, value)?,
            "refused" => self.refusal().says = unescape(value)?,
            "refused-in" => self.refusal().place = word(&PLACES, value)?,
            _ => return Err("no such key".into()),
        }
        Ok(())
    }

    /// The refusal that is being read; its two keys come in any order.
    fn refusal(&mut self) -> &mut Refusal {
        self.refused.get_or_insert(Refusal {
            says: Vec::new(),
            place: Where::Record,
        })
    }
}

/// Splits `key=value key="quoted value"`; escapes stay for the key's own reader.
fn pairs(line: &str) -> Result<Vec<(String, String)>, String> {
    let mut rest = line.trim();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (key, after) = rest
            .split_once('=')
            .ok_or_else(|| format!("no `=` in {rest:?}"))?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => {
                let end = closing_quote(quoted).ok_or("a quote is not closed")?;
                (&quoted[..end], &quoted[end + 1..])
            }
            None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(format!("no space after the value of {key}"));
        }
        out.push((key.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    Ok(out)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|b| {
        let closes = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        closes
    })
}

fn word<T: Copy>(table: &[(&str, T)], value: &str) -> Result<T, String> {
    let known = || table.iter().map(|row| row.0).collect::<Vec<_>>().join(", ");
    let row = table.iter().find(|row| row.0 == value);
    row.map(|row| row.1)
        .ok_or_else(|| format!("{value:?} is none of {}", known()))
}

fn words<T: Copy + PartialEq>(table: &[(&str, T)], value: &str) -> Result<Vec<T>, String> {
    let mut out = Vec::new();
    for text in value.split(',') {
        let item = word(table, text)?;
        if out.contains(&item) {
            return Err(format!("{text} is listed twice"));
        }
        out.push(item);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_header_is_read() {
        let text = "// relive: modes=run,record threads=yes signal=SIGTERM args=\"a \\s\\xff\"\n\
                    // relive: stdin=\"x\\n\\\"\" link=pie,static flags=\"-O0 -mavx2\" tiny=no\n\
                    // relive: needs=avx2 output=free expect=\"total \" timeout=7\nint x;\n";
        let header = Header::parse(text, "//").unwrap();
        assert_eq!(header.modes, [StageGroup::Run, StageGroup::Record]);
        assert!(header.threads && !header.tiny);
        assert_eq!(header.end, End::Signal(15));
        assert_eq!(
            header.args,
            [OsString::from("a"), OsString::from_vec(vec![b' ', 0xff])]
        );
        assert_eq!(header.stdin.unwrap(), b"x\n\"");
        assert_eq!(header.links, [Link::Pie, Link::Static]);
        assert_eq!(header.flags, ["-O0", "-mavx2"]);
        assert_eq!(header.needs, ["avx2"]);
        assert_eq!(header.output, Output::Free);
        assert_eq!(header.expect.unwrap(), b"total ");
        assert_eq!(header.timeout, Duration::from_secs(7));
    }

    #[test]
    fn an_empty_header_means_the_defaults() {
        let header = Header::parse("#!/bin/bash\n# relive:\necho\n", "#").unwrap();
        assert_eq!(header.modes.len(), 4);
        assert_eq!(header.end, End::Exit(0));
        assert!(header.tiny && !header.threads);
    }

    #[test]
    fn a_refusal_is_read() {
        let refused = |text: &str| {
            Header::parse(&format!("# relive: {text}\n"), "#")
                .unwrap()
                .refused
                .unwrap()
        };
        let wanted = |place| Refusal {
            says: b"no \"x\"".to_vec(),
            place,
        };
        assert_eq!(refused(r#"refused="no \"x\"""#), wanted(Where::Record));
        let both = r#"refused-in=all refused="no \"x\"""#;
        assert_eq!(refused(both), wanted(Where::All));
    }

    #[test]
    fn unknown_keys_and_bad_values_are_refused() {
        for bad in [
            "int x;\n",
            "// relive: colour=red\n",
            "// relive: threads=maybe\n",
            "// relive: exit=256\n",
            "// relive: exit=1 signal=SIGTERM\n",
            "// relive: signal=TERM\n",
            "// relive: link=pie,pie\n",
            "// relive: timeout=0\n",
            "// relive: tiny=no tiny=no\n",
            "// relive: refused=\n",
            "// relive: refused-in=all\n",
            "// relive: refused=x refused-in=run\n",
            "// relive: refused=x threads=yes\n",
            "// relive: args=\"a\n",
            "// relive: args=\"a\"b=c\n",
            "// relive: word\n",
            "// relive: tiny=no\nint x;\n// relive: threads=yes\n",
        ] {
            assert!(Header::parse(bad, "//").is_err(), "{bad:?} must be refused");
        }
    }
}
