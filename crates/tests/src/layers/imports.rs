//! The paths that a source file names: in `use` declarations and anywhere else.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens};

/// The path of a module from its crate's root.
pub(super) type Module = Vec<String>;

/// The imports of a file.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Paths from the crate's root, of all names in the file that begin with one of its modules.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// Modules that only tests have.
    pub(super) of_tests: BTreeSet<Module>,
}

/// Reads the file of a module. `known` are all modules of the crate.
pub(super) fn imports(source: &str, module: &Module, known: &BTreeSet<Module>) -> Imports {
    let all = tokens(source);
    let mut reader = Reader {
        all: &all,
        at: 0,
        module: module.clone(),
        inline: Vec::new(),
        depth: 0,
        known,
        aliases: BTreeMap::new(),
        found: Imports::default(),
    };
    // Declarations may follow their uses.
    for uses in [true, false] {
        (reader.at, reader.depth) = (0, 0);
        reader.module.clone_from(module);
        reader.inline.clear();
        reader.read(uses);
    }
    reader.found
}

struct Reader<'a> {
    all: &'a [Token],
    at: usize,
    /// The current module, which may be one within the file.
    module: Module,
    /// Depths at which modules within the file end.
    inline: Vec<usize>,
    depth: usize,
    known: &'a BTreeSet<Module>,
    /// Modules of the crate by the names that they have in this file.
    aliases: BTreeMap<String, Module>,
    found: Imports,
}

impl Reader<'_> {
    /// Goes through the file, and takes `use` declarations, or all other paths.
    fn read(&mut self, uses: bool) {
        while let Some(token) = self.all.get(self.at) {
            match token {
                Token::Sign('#') if self.is_for_tests() => self.skip_for_tests(),
                Token::Sign('{') => self.step(1),
                Token::Sign('}') => {
                    self.step(-1);
                    if self.inline.last() == Some(&self.depth) {
                        self.inline.pop();
                        self.module.pop();
                    }
                }
                word if word.is("mod") => self.declaration(),
                // The visibility says nothing about the names taken. (`use<'a>` is not an import.)
                word if word.is("pub") && self.sign(1, '(') => self.skip_to(')'),
                word if word.is("use") && !self.sign(1, '<') => {
                    self.at += 1;
                    let rooted = self.all.get(self.at) == Some(&Token::Colons);
                    if uses && !rooted {
                        self.tree(&[]);
                    }
                    self.skip_to(';');
                }
                Token::Word(_) => {
                    let path = self.path();
                    let begins = path.first().and_then(|first| self.aliases.get(first));
                    if !uses && path.len() > 1 {
                        let path = match begins {
                            Some(module) => [module.as_slice(), &path[1..]].concat(),
                            None => self.absolute(&path).unwrap_or_default(),
                        };
                        self.take(path);
                    }
                }
                // The path behind it begins outside of the crate, or in a type.
                Token::Colons => {
                    self.at += 1;
                    self.path();
                }
                Token::Sign(_) => self.at += 1,
            }
        }
    }

    fn step(&mut self, by: isize) {
        self.depth = self.depth.saturating_add_signed(by);
        self.at += 1;
    }

    fn sign(&self, ahead: usize, sign: char) -> bool {
        self.all.get(self.at + ahead) == Some(&Token::Sign(sign))
    }

    fn skip_to(&mut self, sign: char) {
        while self.at < self.all.len() && !self.sign(0, sign) {
            self.at += 1;
        }
        self.at += 1;
    }

    /// `mod name {`; a `mod name;` is read with its own file.
    fn declaration(&mut self) {
        if let Some(name) = self.all.get(self.at + 1).and_then(Token::word)
            && self.sign(2, '{')
        {
            self.module.push(name.to_owned());
            self.inline.push(self.depth);
            self.at += 2;
            self.step(1);
        } else {
            self.at += 1;
        }
    }

    /// Words with colons between them.
    fn path(&mut self) -> Vec<String> {
        let mut path = Vec::new();
        while let Some(word) = self.all.get(self.at).and_then(Token::word) {
            path.push(word.to_owned());
            self.at += 1;
            let more = self.all.get(self.at + 1).and_then(Token::word);
            if self.all.get(self.at) != Some(&Token::Colons) || more.is_none() {
                break;
            }
            self.at += 1;
        }
        path
    }

    /// A tree of a `use` declaration, up to the sign that ends it.
    fn tree(&mut self, before: &[String]) {
        let path = [before, &self.path()].concat();
        if self.all.get(self.at) == Some(&Token::Colons) {
            self.at += 1;
        }
        if self.sign(0, '{') {
            while !self.sign(0, '}') && self.at < self.all.len() {
                self.at += 1;
                if !self.sign(0, '}') {
                    self.tree(&path);
                }
            }
            self.at += 1;
            return;
        }
        let mut path = path;
        if self.sign(0, '*') {
            self.at += 1;
            path.push("*".to_owned());
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.all.get(self.at).is_some_and(|word| word.is("as")) {
            let new = self.all.get(self.at + 1).and_then(Token::word);
            name = new.unwrap_or("_").to_owned();
            self.at += 2;
        }
        if let Some(path) = self.absolute(&path) {
            if self.known.contains(&path) {
                self.aliases.insert(name, path.clone());
            }
            self.take(path);
        }
    }

    /// A path from the crate's root, if it leads into the crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut from = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                from.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    from.pop();
                    rest = &rest[1..];
                }
            }
            child => {
                let child = [from.as_slice(), &[child.to_owned()]].concat();
                if !self.known.contains(&child) {
                    return None;
                }
            }
        }
        Some([from.as_slice(), rest].concat())
    }

    fn take(&mut self, path: Vec<String>) {
        if !path.is_empty() {
            self.found.paths.insert(path);
        }
    }

    /// Whether an attribute marks the next item as for tests only.
    fn is_for_tests(&self) -> bool {
        let rest = &self.all[self.at + 1..];
        let of = |ahead: usize, word: &str| rest.get(ahead).is_some_and(|token| token.is(word));
        let test = of(3, "test") || of(3, "all") && of(5, "test");
        rest.first() == Some(&Token::Sign('[')) && of(1, "cfg") && test
    }

    /// Skips attributes and the item that they belong to: up to the end of its block, or to a
    /// semicolon; of a field or a variant up to the comma.
    fn skip_for_tests(&mut self) {
        while self.sign(0, '#') {
            self.skip_to(']');
        }
        if self.all.get(self.at).is_some_and(|word| word.is("pub")) {
            self.at += 1;
            if self.sign(0, '(') {
                self.skip_to(')');
            }
        }
        let first = self.all.get(self.at).and_then(Token::word).unwrap_or("");
        let second = self.all.get(self.at + 1).and_then(Token::word);
        if let ("mod", Some(name)) = (first, second) {
            let module = [self.module.as_slice(), &[name.to_owned()]].concat();
            self.found.of_tests.insert(module);
        }
        let is_use = first == "use";
        let is_item = is_use || ITEMS.contains(&first);
        let mut depth = 0_usize;
        while let Some(token) = self.all.get(self.at) {
            match token {
                Token::Sign('{' | '(' | '[') => depth += 1,
                // The end of the enclosing block.
                Token::Sign('}' | ')' | ']') if depth == 0 => return,
                Token::Sign(end @ ('}' | ')' | ']')) => {
                    depth -= 1;
                    if depth == 0 && *end == '}' && !is_use {
                        self.at += 1;
                        return;
                    }
                }
                Token::Sign(';') if depth == 0 => {
                    self.at += 1;
                    return;
                }
                Token::Sign(',') if depth == 0 && !is_item => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

/// First words of items.
const ITEMS: [&str; 14] = [
    "mod",
    "fn",
    "impl",
    "struct",
    "enum",
    "union",
    "const",
    "static",
    "type",
    "trait",
    "unsafe",
    "extern",
    "async",
    "macro_rules",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// The names taken by `a::b`, where `a`, `a::b`, `a::b::c` and `d` are modules.
    fn taken(source: &str) -> String {
        let known = ["", "a", "a::b", "a::b::c", "d"].map(module).into();
        let found = imports(source, &module("a::b"), &known);
        let paths: Vec<String> = found.paths.iter().map(|path| path.join("::")).collect();
        paths.join(" ")
    }

    #[test]
    fn declarations() {
        for (source, expected) in [
            ("use crate::d::X;", "d::X"),
            ("pub(crate) use super::{X, b::Y as Z};", "a::X a::b::Y"),
            ("use crate::{d::{self, X}, a::*};", "a::* d d::X"),
            ("use c::X; use self::c::Y;", "a::b::c::X a::b::c::Y"),
            ("use super::super::d::X;", "d::X"),
            ("use std::d::X; use ::d::Y; use d::Z;", ""),
            ("fn f() { use crate::d::X; }", "d::X"),
        ] {
            assert_eq!(taken(source), expected, "{source}");
        }
    }

    #[test]
    fn paths_elsewhere() {
        for (source, expected) in [
            ("fn f() { crate::d::g(super::X) }", "a::X d::g"),
            ("fn f() { c::g::<u8>() }", "a::b::c::g"),
            ("use crate::d; fn f() { d::g() }", "d d::g"),
            ("fn f() { e::g() } use crate::d as e;", "d d::g"),
            ("crate::d::made!(); $crate::d::x", "d::made d::x"),
            ("pub(in crate::a) fn f() {} pub(super) x: T", ""),
            ("fn f(x: impl T + use<'_>) { T::d::g() }", ""),
            ("<T as crate::d::X>::d::g", "d::X"),
            ("fn f() { d::g() }", ""),
        ] {
            assert_eq!(taken(source), expected, "{source}");
        }
    }

    #[test]
    fn modules_within_a_file_have_parents_there() {
        let source = "mod off { use super::X; use super::super::Y; fn f() { {} } } use super::Z;";
        assert_eq!(taken(source), "a::Y a::Z a::b::X");
    }

    #[test]
    fn items_for_tests_are_left_out() {
        for (source, expected) in [
            (
                "#[cfg(test)] mod tests { use crate::d::X; } use super::Y;",
                "a::Y",
            ),
            (
                "#[cfg(test)] #[allow(x)] pub(crate) use crate::{d::X, a::Y}; crate::d::Z",
                "d::Z",
            ),
            (
                "#[cfg(all(test, unix))] fn f<A, B>(x: [u8; 4]) -> crate::d::X { {} } crate::d::Z",
                "d::Z",
            ),
            (
                "struct S { #[cfg(test)] x: crate::d::X, y: crate::d::Y }",
                "d::Y",
            ),
            ("enum E { #[cfg(test)] X(crate::d::X) } crate::d::Y", "d::Y"),
            ("#[cfg(not(test))] use crate::d::X;", "d::X"),
            ("#[cfg(unix)] use crate::d::X;", "d::X"),
        ] {
            assert_eq!(taken(source), expected, "{source}");
        }
        let found = imports("#[cfg(test)]\nmod tests;", &module("a"), &BTreeSet::new());
        assert_eq!(found.of_tests, [module("a::tests")].into());
    }
}
