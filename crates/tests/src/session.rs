//! Scripted sessions with gdb on a recording: commands, and the required answers.
//!
//! A session is one dropped file in `sessions/`. Its first lines are `# key: value`: `guest`
//! (a source in `sessions/guests/`, compiled with debug information), `debug` (options of
//! `relive debug`), `gone: yes` (the program's file is removed after recording). Then come
//! commands, `> command`, each followed by patterns that lines of its answer must match, in
//! this order; `*` stands for anything, and a line that begins with `!` must match nothing.

/// One session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The guest's source file.
    pub guest: String,
    /// Options of `relive debug`.
    pub options: Vec<String>,
    /// The program is removed before the session.
    pub gone: bool,
    /// The commands and the expected answers.
    pub steps: Vec<Step>,
}

/// One command with its answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The command.
    pub command: String,
    /// Patterns of lines, in order.
    pub expected: Vec<String>,
    /// Patterns that no line matches.
    pub forbidden: Vec<String>,
}

impl Session {
    /// Reads a session file.
    ///
    /// # Errors
    /// The mistake, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut session = Self::default();
        for line in text.lines().map(str::trim_end).filter(|l| !l.is_empty()) {
            if let Some(command) = line.strip_prefix("> ") {
                session.steps.push(Step {
                    command: command.to_owned(),
                    expected: Vec::new(),
                    forbidden: Vec::new(),
                });
                continue;
            }
            match session.steps.last_mut() {
                Some(step) => match line.strip_prefix('!') {
                    Some(pattern) => step.forbidden.push(pattern.to_owned()),
                    None => step.expected.push(line.to_owned()),
                },
                None => session.header(line)?,
            }
        }
        if session.guest.is_empty() || session.steps.is_empty() {
            return Err("a session has a guest and steps".to_owned());
        }
        Ok(session)
    }

    fn header(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line
            .strip_prefix("# ")
            .and_then(|l| l.split_once(": "))
            .ok_or_else(|| format!("'{line}' is no header"))?;
        match key {
            "guest" => self.guest = value.to_owned(),
            "debug" => self.options = value.split_whitespace().map(str::to_owned).collect(),
            "gone" => self.gone = value == "yes",
            _ => return Err(format!("there is no header '{key}'")),
        }
        Ok(())
    }

    /// The text that gdb prints before the answer to a step.
    #[must_use]
    pub fn marker(step: usize) -> String {
        format!("@@@ {step}")
    }

    /// Compares gdb's output with the expected answers.
    ///
    /// # Errors
    /// The first step with another answer.
    pub fn compare(&self, output: &str) -> Result<(), String> {
        for (i, step) in self.steps.iter().enumerate() {
            let answer = section(output, &Self::marker(i), &Self::marker(i + 1));
            let wrong = |what: String| {
                format!(
                    "{what}\n  after '{}', whose answer was:\n{answer}",
                    step.command
                )
            };
            let mut lines = answer.lines();
            for pattern in &step.expected {
                if !lines.any(|line| matches(pattern, line)) {
                    return Err(wrong(format!("no line (any more) matches '{pattern}'")));
                }
            }
            for pattern in &step.forbidden {
                if let Some(line) = answer.lines().find(|line| matches(pattern, line)) {
                    return Err(wrong(format!("'{line}' matches '{pattern}'")));
                }
            }
        }
        Ok(())
    }
}

/// The text between two lines.
fn section<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let start = text
        .find(&format!("{from}\n"))
        .map(|at| at + from.len() + 1);
    let rest = start.map_or("", |at| &text[at..]);
    let end = rest.find(&format!("{to}\n")).unwrap_or(rest.len());
    &rest[..end]
}

/// Whether a whole line matches a pattern in which `*` stands for anything.
pub fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, line, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*b*", "abc", true),
            ("*b*b*", "abc", false),
            ("a*", "a", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, line), expected, "{pattern} {line}");
        }
    }

    #[test]
    fn a_session_is_read_and_compared() {
        let text = "# guest: a.c\n# debug: --at end\n\n> p x\n$1 = *\n!error*\n> q\n";
        let session = Session::parse(text).unwrap();
        assert_eq!((session.guest.as_str(), session.options.len()), ("a.c", 2));
        let good = "hello\n@@@ 0\n$1 = 7\n@@@ 1\n";
        assert_eq!(session.compare(good), Ok(()));
        assert!(session.compare(&good.replace("$1", "$2")).is_err());
        assert!(
            session
                .compare(&good.replace("= 7", "= 7\nerror: x"))
                .is_err()
        );
        assert!(session.compare("").is_err());
        assert!(Session::parse("# guest: a.c\n").is_err());
        assert!(Session::parse("# nothing: a.c\n> p\n").is_err());
        assert!(Session::parse("p\n").is_err());
    }
}
