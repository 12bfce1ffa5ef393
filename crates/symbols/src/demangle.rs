//! Demangled names for people.

/// A name for people. Others than mangled ones stay: `w`, taken for one, would be `wchar_t`.
pub(crate) fn demangled(name: &str) -> String {
    match is_mangled(name) {
        true => addr2line::demangle_auto(name.into(), None).into_owned(),
        false => name.to_owned(),
    }
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

/// A demangled name without its parameters, its result type and the compiler's additions.
pub(crate) fn plain(shown: &str) -> &str {
    let mut depth = 0usize;
    let mut end = shown.len();
    // The last closing parenthesis ends the parameters; behind it there is at most `const` and the
    // like.
    let close = shown.rfind(')').filter(|at| !shown[*at..].contains("::"));
    for (at, byte) in shown.bytes().enumerate().rev() {
        match byte {
            b')' if depth > 0 || close == Some(at) => depth += 1,
            b'(' if depth == 1 => {
                end = at;
                break;
            }
            b'(' if depth > 0 => depth -= 1,
            _ => {}
        }
    }
    let named = &shown[..end];
    // Templates have the type of their result before their name.
    let (mut angles, mut start) = (0usize, 0);
    for (at, byte) in named.bytes().enumerate().filter(|_| end < shown.len()) {
        match byte {
            b'<' | b'(' | b'[' => angles += 1,
            b'>' | b')' | b']' => angles = angles.saturating_sub(1),
            b' ' if angles == 0 && !named[..at].ends_with("operator") => start = at + 1,
            _ => {}
        }
    }
    let plain = &named[start..];
    // Rust's older names end with a hash.
    match plain.rsplit_once("::h") {
        Some((before, hash)) if hash.len() == 16 => before,
        _ => plain,
    }
}

/// Whether a mangled name demangles to this name.
pub(crate) fn is_called(mangled: &str, name: &str) -> bool {
    let shown = demangled(mangled);
    is_mangled(mangled) && (shown == name || plain(&shown) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_mangled_stay() {
        for name in ["w", "main", "i", "_start", "St"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_ZN4deep3Box4fallEi"), "deep::Box::fall(int)");
    }

    #[test]
    fn parameters_and_hashes_are_no_part_of_a_name() {
        for (shown, expected) in [
            ("main", "main"),
            ("deep::Box::fall(int)", "deep::Box::fall"),
            ("deep::Box::get() const", "deep::Box::get"),
            (
                "a::(anonymous namespace)::f(int (*)(char))",
                "a::(anonymous namespace)::f",
            ),
            (
                "(anonymous namespace)::count",
                "(anonymous namespace)::count",
            ),
            ("F::operator()(int)", "F::operator()"),
            (
                "void twice<std::pair<int, long> >(int)",
                "twice<std::pair<int, long> >",
            ),
            ("shop::sell::h0123456789abcdef", "shop::sell"),
            ("<a::B as c::D>::e", "<a::B as c::D>::e"),
            (")(", ")("),
            ("", ""),
        ] {
            assert_eq!(plain(shown), expected, "{shown}");
        }
    }
}
