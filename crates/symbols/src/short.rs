//! Short forms of function names: `push` or `Queue::push` for
//! `shop::Queue<Item>::push(Item)`, `price(int)` for `shop::price(int)`, `Circle::area` for
//! `<shapes::Circle as shapes::Shape>::area`, `Sq.Area` for `main.(*Sq).Area`.

use crate::demangle::plain;

/// Whether a shorter name matches a demangled name of C++ or Rust.
pub(crate) fn is_meant(shown: &str, wanted: &str) -> bool {
    let own = plain(shown);
    let (name, parameters) = match plain(wanted) {
        // `operator()` has no parameters here.
        name if name.ends_with("operator") => (wanted, ""),
        name => (name, behind(wanted, name)),
    };
    let same = || ends(&spread(own), &spread(name));
    let close = |text: &str| text.trim_end_matches("const").replace(' ', "");
    (parameters.is_empty() || close(behind(shown, own)) == close(parameters)) && same()
}

/// The same for Go, whose names are not mangled: points separate parts, and methods of pointers
/// have the type in parentheses.
pub(crate) fn is_meant_go(own: &str, wanted: &str) -> bool {
    let parts = |name: &str| -> Vec<String> {
        // The text before the last slash is the package's path.
        let generic = name.find('[').unwrap_or(name.len());
        let package = name[..generic].rfind('/').map_or(0, |at| at + 1);
        split(&name[package..], ".")
            .into_iter()
            .map(|part| {
                part.trim_start_matches("(*")
                    .trim_end_matches(')')
                    .to_owned()
            })
            .collect()
    };
    let (own, asked) = (parts(own), parts(wanted));
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    ends(&own, &asked)
}

/// A word that the mangled name must contain, or empty: demangling is slow.
pub(crate) fn word(wanted: &str) -> &str {
    let name = plain(wanted);
    let parts = split(name, "::");
    let last = parts.last().copied().unwrap_or(name);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let last = last.trim_start_matches('~');
    let end = last.find(|c| !is_word(c)).unwrap_or(last.len());
    match &last[..end] {
        "operator" => "",
        word => word,
    }
}

/// The text behind a part of it.
fn behind<'t>(text: &'t str, part: &str) -> &'t str {
    let at = text.rfind(part).map_or(text.len(), |at| at + part.len());
    &text[at..]
}

/// The parts of a name; angles at the beginning hold a type with parts of its own, and perhaps the
/// trait that it implements.
fn spread(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in split(name, "::") {
        let inner = part.strip_prefix('<').and_then(|p| p.strip_suffix('>'));
        match inner {
            Some(inner) => {
                let of = split(inner, " as ")[0];
                parts.extend(split(of, "::"));
            }
            None => parts.push(part),
        }
    }
    parts
}

/// Splits a name outside of brackets.
fn split<'n>(name: &'n str, at: &str) -> Vec<&'n str> {
    let (mut parts, mut open, mut start) = (Vec::new(), 0usize, 0);
    let bytes = name.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let rest = &bytes[i..];
        if open == 0 && i == start && rest.starts_with(b"operator") {
            // An operator's angles and parentheses are no brackets; nothing follows it.
            break;
        }
        if open == 0 && rest.starts_with(at.as_bytes()) {
            parts.push(&name[start..i]);
            i += at.len();
            start = i;
            continue;
        }
        match bytes[i] {
            b'<' | b'(' | b'[' | b'{' => open += 1,
            b'>' | b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        i += 1;
    }
    parts.push(&name[start..]);
    parts
}

/// Whether `own` ends with `asked`, whose parts may leave out template arguments.
fn ends(own: &[&str], asked: &[&str]) -> bool {
    let Some(from) = own.len().checked_sub(asked.len()) else {
        return false;
    };
    own[from..].iter().zip(asked).all(|(own, asked)| {
        let brief = match own.find(['<', '[']) {
            Some(at) if at > 0 && !own.starts_with("operator") => &own[..at],
            _ => own,
        };
        // Older names of Rust's closures have no number.
        let closure = |part: &str| part == "{{closure}}" || part.starts_with("{closure#");
        *own == *asked || brief == *asked || (closure(own) && *asked == "{{closure}}") || {
            *own == "{{closure}}" && closure(asked)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_is_enough() {
        const PUSH: &str = "shop::Queue<shop::Item>::push(shop::Item)";
        const LAMBDA: &str = "shop::Queue<shop::Item>::pop()::{lambda()#1}::operator()() const";
        for (shown, wanted, meant) in [
            (PUSH, "push", true),
            (PUSH, "Queue::push", true),
            (PUSH, "Queue<shop::Item>::push", true),
            (PUSH, "shop::Queue::push(shop::Item)", true),
            (PUSH, "push(int)", false),
            (PUSH, "ush", false),
            (PUSH, "Item::push", false),
            ("shop::price(int)", "price(int)", true),
            ("shop::price(int)", "price(double)", false),
            ("shop::Square::area(int) const", "area(int)", true),
            ("int shop::twice<int>(int)", "twice", true),
            ("int shop::twice<int>(int)", "twice<int>", true),
            ("int shop::twice<int>(int)", "twice<long>", false),
            ("Guard::~Guard()", "~Guard", true),
            ("Guard::~Guard()", "Guard", false),
            (LAMBDA, "operator()", true),
            ("a::operator<(b, c)", "operator<", true),
            ("a::operator<<(b, c)", "operator<", false),
            ("<rs::Sq as rs::Shape>::area", "Sq::area", true),
            ("<rs::Sq as rs::Shape>::area", "rs::Sq::area", true),
            ("<rs::Sq as rs::Shape>::area", "Shape::area", false),
            ("<rs::Vec<T>>::grow", "Vec::grow", true),
            ("rs::main::{{closure}}", "main::{closure#0}", true),
            ("rs::main::{{closure}}", "{{closure}}", true),
            ("", "", true),
            ("a", "a::b", false),
        ] {
            assert_eq!(is_meant(shown, wanted), meant, "{shown} {wanted}");
        }
    }

    #[test]
    fn names_of_go_have_points() {
        for (own, wanted, meant) in [
            ("main.check", "check", true),
            ("main.(*Sq).Area", "Sq.Area", true),
            ("main.(*Sq).Area", "(*Sq).Area", true),
            ("main.(*Sq).Area", "Area", true),
            ("main.(*Sq).Area", "rea", false),
            ("main.Largest[go.shape.int_0]", "Largest", true),
            ("main.Largest[go.shape.int_0]", "int_0", false),
            ("example.com/a/b.Run", "b.Run", true),
            ("example.com/a/b.Run", "Run", true),
        ] {
            assert_eq!(is_meant_go(own, wanted), meant, "{own} {wanted}");
        }
    }

    #[test]
    fn a_word_is_in_the_mangled_name_too() {
        for (wanted, expected) in [
            ("shop::twice<int>", "twice"),
            ("price(int)", "price"),
            ("Guard::~Guard", "Guard"),
            ("operator()", ""),
            ("{{closure}}", ""),
        ] {
            assert_eq!(word(wanted), expected, "{wanted}");
        }
    }
}
