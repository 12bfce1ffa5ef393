//! The file of suppressions: races that are known and not to be reported.

use std::path::Path;

use relive_engine::Failure;

use super::report::Report;

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Function,
    File,
    Variable,
    Module,
}

const SUBJECTS: [(&str, Subject); 4] = [
    ("function", Subject::Function),
    ("file", Subject::File),
    ("variable", Subject::Variable),
    ("module", Subject::Module),
];

/// The lines of a file.
#[derive(Debug, Default)]
pub struct Suppressions(Vec<(Subject, String)>);

impl Suppressions {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line is none.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::setup(format!("{} cannot be read: {e}", path.display())))?;
        Self::of(&text).map_err(|(line, text)| {
            Failure::setup(format!(
                "{}:{line}: '{text}' is no suppression: function:PATTERN, file:PATTERN, variable:PATTERN or module:PATTERN",
                path.display()
            ))
        })
    }

    fn of(text: &str) -> Result<Self, (usize, String)> {
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parts = line.split_once(':').and_then(|(subject, pattern)| {
                let mut subjects = SUBJECTS.iter();
                let (_, subject) = subjects.find(|(name, _)| *name == subject.trim())?;
                Some((*subject, pattern.trim().to_owned()))
            });
            match parts.filter(|(_, pattern)| !pattern.is_empty()) {
                Some(parts) => all.push(parts),
                None => return Err((number + 1, line.to_owned())),
            }
        }
        Ok(Self(all))
    }

    /// Whether a line covers this race.
    pub fn cover(&self, report: &Report) -> bool {
        self.0.iter().any(|(subject, pattern)| {
            let fits = |text: &str| matches(pattern, text);
            match subject {
                Subject::Function => report.functions().any(fits),
                Subject::File => report
                    .files()
                    .any(|path| fits(path) || fits(file_name(path))),
                Subject::Module => report
                    .modules()
                    .any(|path| fits(path) || fits(file_name(path))),
                Subject::Variable => report.variable_name().is_some_and(fits),
            }
        })
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a text is as a pattern says, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else {
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
    fn stars_stand_for_any_characters() {
        for (pattern, text, fits) in [
            ("worker", "worker", true),
            ("worker", "workers", false),
            ("work*", "workers", true),
            ("*::push", "queue::push", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_line_that_is_none_is_refused() {
        assert!(Suppressions::of("# known\n\nfunction: spin*\nfile:a.c\n").is_ok());
        for bad in ["race:x", "function", "function:"] {
            assert_eq!(Suppressions::of(&format!("\n{bad}")).unwrap_err().0, 2);
        }
    }
}
