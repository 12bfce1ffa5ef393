//! The README's session with gdb: the commands that it tells the reader to type, and their results.
//!
//! The page is the source: commands are taken from it and run, and its lines are patterns for
//! the answers. Only addresses and the numbers of threads may differ.

use crate::session::{Session, Step};

/// The prompt before each command.
const PROMPT: &str = "(gdb) ";

/// A section of the page that shows a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    /// Shell commands, up to `relive debug`.
    pub commands: Vec<String>,
    /// Options of `relive debug`, then commands and answers. The first step is gdb's output before
    /// any command.
    pub session: Session,
}

impl Example {
    /// The section of a page below a heading.
    ///
    /// # Errors
    /// The section is not there, or lacks shell commands or a session.
    pub fn of(page: &str, heading: &str) -> Result<Self, String> {
        let section = page
            .split("\n## ")
            .find(|s| s.starts_with(heading))
            .ok_or_else(|| format!("the page has no section '{heading}'"))?;
        let mut commands: Vec<String> = block(section, "sh")?
            .lines()
            .map(|l| l.split(" #").next().unwrap_or(l).trim().to_owned())
            .collect();
        let debug = commands.pop().unwrap_or_default();
        let options = debug
            .strip_prefix("relive debug")
            .ok_or("the last command is relive debug")?;
        let mut steps = vec![Step::default()];
        for line in block(section, "text")?.lines() {
            match (line.strip_prefix(PROMPT), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    command: command.to_owned(),
                    ..Step::default()
                }),
                (None, Some(step)) if !line.is_empty() => step.expected.push(pattern(line)),
                (None, _) => {}
            }
        }
        Ok(Self {
            commands,
            session: Session {
                options: options.split_whitespace().map(str::to_owned).collect(),
                steps,
                ..Session::default()
            },
        })
    }
}

/// The first block of a language.
fn block<'t>(text: &'t str, language: &str) -> Result<&'t str, String> {
    let missing = || format!("the section has no block of {language}");
    let from = text
        .split_once(&format!("```{language}\n"))
        .ok_or_else(missing)?;
    Ok(from.1.split_once("```").ok_or_else(missing)?.0)
}

/// Text that may differ from run to run becomes `*`: addresses but null, and thread numbers.
fn pattern(line: &str) -> String {
    let mut words = Vec::new();
    let mut thread = false;
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    for word in line.split(' ') {
        words.push(match thread {
            true => format!("*{}", word.trim_start_matches(is_number)),
            false => addresses(word),
        });
        thread = word == "Thread";
    }
    words.join(" ")
}

fn addresses(word: &str) -> String {
    // gdb's description of an address.
    if word.starts_with('<') && word.ends_with('>') {
        return "<*>".to_owned();
    }
    let mut parts = word.split("0x");
    let mut text = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        let digits = &part[..part.len() - rest.len()];
        text += if digits == "0" { "0x0" } else { "0x*" };
        text += rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read() {
        let page = "# A\n\n## B\n\nWords.\n\n```sh\nmake it   # so\nrelive debug --at end\n```\n\n\
                    ```text\n0x12ab <f+3> in f (x=0x0)\n(gdb) p y\n[to Thread 1.22]\nThread 3 \"a\" hit\n```\n";
        let example = Example::of(page, "B").unwrap();
        assert_eq!(example.commands, ["make it"]);
        assert_eq!(example.session.options, ["--at", "end"]);
        let steps = &example.session.steps;
        assert_eq!(steps[0].expected, ["0x* <*> in f (x=0x0)"]);
        assert_eq!(steps[1].command, "p y");
        assert_eq!(steps[1].expected, ["[to Thread *]", "Thread * \"a\" hit"]);
        assert!(Example::of(page, "C").is_err());
        assert!(Example::of("# A\n\n## B\n", "B").is_err());
    }
}
