//! The syntax of variables: `total`, `bank.c:total`, `ns::Class::member`, `config.limits[3].max`,
//! `*ptr->field`.

use crate::unknown::Unknown;

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A member of a class, or of a pointer's target.
    Member(String),
    /// An element.
    Index(u64),
    /// The target of a pointer.
    Target,
}

/// A variable and the path to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// The source file of the variable, if given.
    pub(crate) file: Option<String>,
    /// Its name, split at points. The lookup decides where the name ends and members begin, because
    /// Go's names have points.
    pub(crate) base: Vec<String>,
    /// The steps from there.
    pub(crate) steps: Vec<Step>,
}

/// Limit on the nesting of parentheses.
const MOST_DEPTH: usize = 16;

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// The text that does not parse.
    pub(crate) fn read(text: &str) -> Result<Self, Unknown> {
        let mut rest = text.trim();
        let path = whole(&mut rest, MOST_DEPTH)?;
        match rest {
            "" => Ok(path),
            _ => Err(odd(rest)),
        }
    }
}

fn odd(rest: &str) -> Unknown {
    match rest {
        "" => "something is missing at its end".into(),
        _ => format!(
            "it cannot be read from {rest:?} on; a variable is written as bank.c:total, ns::Class::member, config.limits[3].max or *ptr->field"
        )
        .into(),
    }
}

fn whole(rest: &mut &str, depth: usize) -> Result<Path, Unknown> {
    let depth = depth.checked_sub(1).ok_or_else(|| odd(rest))?;
    *rest = rest.trim_start();
    if let Some(behind) = rest.strip_prefix('*') {
        *rest = behind;
        let mut path = whole(rest, depth)?;
        path.steps.push(Step::Target);
        return Ok(path);
    }
    let mut path = match rest.strip_prefix('(') {
        // Only one name begins with a parenthesis.
        Some(behind) if !rest.starts_with("(anonymous namespace)") => {
            *rest = behind;
            let path = whole(rest, depth)?;
            *rest = rest
                .trim_start()
                .strip_prefix(')')
                .ok_or_else(|| odd(rest))?;
            path
        }
        _ => name(rest)?,
    };
    loop {
        if let Some(behind) = rest.strip_prefix("->").or_else(|| rest.strip_prefix('.')) {
            *rest = behind;
            path.steps.push(Step::Member(word(rest)?));
        } else if let Some(behind) = rest.strip_prefix('[') {
            let (index, behind) = behind.split_once(']').ok_or_else(|| odd(rest))?;
            let index = index.trim();
            path.steps.push(Step::Index(match index.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).map_err(|_| odd(rest))?,
                None => index.parse().map_err(|_| odd(rest))?,
            }));
            *rest = behind;
        } else {
            return Ok(path);
        }
    }
}

/// A name of a member.
fn word(rest: &mut &str) -> Result<String, Unknown> {
    let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
    let (word, behind) = rest.split_at(len.unwrap_or(rest.len()));
    if word.is_empty() {
        return Err(odd(rest));
    }
    *rest = behind;
    Ok(word.to_owned())
}

/// A variable's own name, with all parts behind points.
fn name(rest: &mut &str) -> Result<Path, Unknown> {
    let mut angles = 0usize;
    let mut end = rest.len();
    let bytes = rest.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if rest[at..].starts_with("(anonymous namespace)") {
            at += "(anonymous namespace)".len();
            continue;
        }
        match bytes[at] {
            b'<' => angles += 1,
            b'>' if angles > 0 => angles -= 1,
            b'-' if angles == 0 && rest[at..].starts_with("->") => {
                end = at;
                break;
            }
            b'[' | b')' | b'(' | b' ' if angles == 0 => {
                end = at;
                break;
            }
            _ => {}
        }
        at += next(rest, at);
    }
    let (all, behind) = rest.split_at(end);
    // A file stands before the last single colon.
    let single = |&at: &usize| {
        let b = all.as_bytes();
        b[at] == b':' && (at == 0 || b[at - 1] != b':') && b.get(at + 1) != Some(&b':')
    };
    let (file, own) = match (0..all.len()).rfind(single) {
        Some(at) => (Some(all[..at].to_owned()), &all[at + 1..]),
        None => (None, all),
    };
    let mut base: Vec<String> = Vec::new();
    let mut angles = 0usize;
    let mut start = 0;
    for (at, c) in own.char_indices() {
        match c {
            '<' => angles += 1,
            '>' => angles = angles.saturating_sub(1),
            '.' if angles == 0 => {
                base.push(own[start..at].to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    base.push(own[start..].to_owned());
    if base.iter().any(String::is_empty) || file.as_deref() == Some("") {
        return Err(odd(rest));
    }
    *rest = behind;
    Ok(Path {
        file,
        base,
        steps: Vec::new(),
    })
}

/// Length of the character at an offset.
fn next(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, String, Vec<Step>) {
        let path = Path::read(text).unwrap();
        (path.file, path.base.join("|"), path.steps)
    }

    #[test]
    fn names_files_and_ways() {
        let member = |name: &str| Step::Member(name.to_owned());
        for (text, file, base, steps) in [
            ("total", None, "total", vec![]),
            ("bank.c:total", Some("bank.c"), "total", vec![]),
            (
                "src/a-b.c:x[2]",
                Some("src/a-b.c"),
                "x",
                vec![Step::Index(2)],
            ),
            ("ns::Class::member", None, "ns::Class::member", vec![]),
            ("a.cc:ns::x.y", Some("a.cc"), "ns::x|y", vec![]),
            (
                "config.limits[3].max",
                None,
                "config|limits",
                vec![Step::Index(3), member("max")],
            ),
            (
                "*ptr->field",
                None,
                "ptr",
                vec![member("field"), Step::Target],
            ),
            (
                "(*ptr).field",
                None,
                "ptr",
                vec![Step::Target, member("field")],
            ),
            ("main.total", None, "main|total", vec![]),
            ("Map<int, char>::size", None, "Map<int, char>::size", vec![]),
            (
                "(anonymous namespace)::x",
                None,
                "(anonymous namespace)::x",
                vec![],
            ),
            (
                "m[0x10][1]",
                None,
                "m",
                vec![Step::Index(16), Step::Index(1)],
            ),
        ] {
            assert_eq!(
                read(text),
                (file.map(str::to_owned), base.to_owned(), steps),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for text in [
            "",
            "*",
            "a.",
            "a[",
            "a[x]",
            "a->",
            "(a",
            "a)",
            ":x",
            "a..b",
            "a b",
            "é[",
            "((((((((((((((((((((a))))))))))))))))))))",
        ] {
            assert!(Path::read(text).is_err(), "{text}");
        }
    }
}
