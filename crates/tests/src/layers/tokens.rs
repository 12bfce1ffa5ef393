//! The tokens of a source file, as far as imports need them: words, paths, brackets.

use std::iter::Peekable;
use std::str::Chars;

/// A token. Comments, texts, characters and lifetimes are not tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An identifier, a keyword or a number.
    Word(String),
    /// `::`
    Colons,
    /// Any other character.
    Sign(char),
}

impl Token {
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// All tokens of a source.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut all = Vec::new();
    let mut rest = source.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'/') => skip_line(&mut rest),
            '/' if rest.peek() == Some(&'*') => skip_block(&mut rest),
            '"' => skip_text(&mut rest),
            '\'' => skip_quote(&mut rest),
            ':' if rest.peek() == Some(&':') => {
                rest.next();
                all.push(Token::Colons);
            }
            c if is_word(c) => {
                let word = word(c, &mut rest);
                let quoted = matches!(rest.peek(), Some('"' | '#' | '\''));
                match word.as_str() {
                    "r" | "br" | "cr" if quoted => match skip_raw(&mut rest) {
                        Raw::Text => {}
                        Raw::Word(word) => all.push(Token::Word(word)),
                    },
                    "b" | "c" if quoted => {}
                    _ => all.push(Token::Word(word)),
                }
            }
            c if c.is_whitespace() => {}
            c => all.push(Token::Sign(c)),
        }
    }
    all
}

type Rest<'s> = Peekable<Chars<'s>>;

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(first: char, rest: &mut Rest<'_>) -> String {
    let mut word = String::from(first);
    while let Some(c) = rest.next_if(|c| is_word(*c)) {
        word.push(c);
    }
    word
}

fn skip_line(rest: &mut Rest<'_>) {
    rest.find(|c| *c == '\n');
}

/// Behind the slash of a comment, which may have others in it.
fn skip_block(rest: &mut Rest<'_>) {
    rest.next();
    let mut depth = 1;
    while depth > 0
        && let Some(c) = rest.next()
    {
        match (c, rest.peek()) {
            ('*', Some('/')) => depth -= 1,
            ('/', Some('*')) => depth += 1,
            _ => continue,
        }
        rest.next();
    }
}

/// Behind the first quote of a text.
fn skip_text(rest: &mut Rest<'_>) {
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '"' => return,
            _ => {}
        }
    }
}

/// Behind the quote of a character or a lifetime.
fn skip_quote(rest: &mut Rest<'_>) {
    match rest.next() {
        Some('\\') => {
            rest.next();
            rest.find(|c| *c == '\'');
        }
        Some(_) if rest.peek() == Some(&'\'') => drop(rest.next()),
        Some(first) if is_word(first) => drop(word(first, rest)),
        _ => {}
    }
}

enum Raw {
    Text,
    /// `r#type`
    Word(String),
}

/// Behind the `r` of a raw text, or of a raw identifier.
fn skip_raw(rest: &mut Rest<'_>) -> Raw {
    let mut marks = 0;
    while rest.next_if_eq(&'#').is_some() {
        marks += 1;
    }
    if rest.next_if_eq(&'"').is_none() {
        let first = rest.next().unwrap_or('_');
        return Raw::Word(word(first, rest));
    }
    while rest.find(|c| *c == '"').is_some() {
        let mut seen = 0;
        while seen < marks && rest.next_if_eq(&'#').is_some() {
            seen += 1;
        }
        if seen == marks {
            break;
        }
    }
    Raw::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> String {
        let all = tokens(source).into_iter().map(|token| match token {
            Token::Word(word) => word,
            Token::Colons => "::".to_owned(),
            Token::Sign(c) => c.to_string(),
        });
        all.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_texts_are_no_tokens() {
        for (source, expected) in [
            ("a // crate::b\n c", "a c"),
            ("a /* crate::b /* c */ d */ e /**/ f", "a e f"),
            (r#"f("crate::a \" b", x)"#, "f ( , x )"),
            (r##"f(r#"a "crate::b" "#, br"\", b"c")"##, "f ( , , )"),
            ("r#type::a", "type :: a"),
            (r"['a', '\'', '\u{1f}', '\\', b'\n']", "[ , , , , ]"),
            ("fn f<'a>(x: &'a T) -> 'static", "fn f < > ( x : & T ) - >"),
            ("'{' a '}'", "a"),
        ] {
            assert_eq!(shown(source), expected, "{source}");
        }
    }

    #[test]
    fn paths_are_words_and_colons() {
        assert_eq!(
            shown("crate::a::B::<C>::new()"),
            "crate :: a :: B :: < C > :: new ( )"
        );
        assert_eq!(shown("x: 1_u8"), "x : 1_u8");
    }
}
