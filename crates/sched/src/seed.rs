//! The short string from which a schedule can be repeated.

use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;

/// Digits of the text form: base 32 without the letters that are easily confused with others.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The start of a random policy. Prints as at most 13 letters and digits, and [`Seed::short`] ones
/// as at most 8; parses its printed form, in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

/// A text that is not a seed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeedError {
    /// It contains another character.
    #[error(
        "a seed is made of letters and digits, and {0:?} is neither or not used: pass the seed as it was printed"
    )]
    Digit(char),
    /// It is empty, or too large.
    #[error(
        "a seed has 1 to 13 letters and digits and is below 2^64: pass the seed as it was printed"
    )]
    Length,
}

impl Seed {
    /// Makes a seed that prints short from random bits of the caller's.
    pub const fn short(random: u64) -> Self {
        Self(random >> 24)
    }

    /// The seed of the `n`-th of many runs that belong together; prints short.
    #[must_use]
    pub fn nth(self, n: u32) -> Self {
        Self::short(Rng::new(self.0 ^ (u64::from(n) << 40)).word())
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'0'; 13];
        let mut rest = self.0;
        let mut start = text.len();
        loop {
            start -= 1;
            text[start] = DIGITS[(rest & 31) as usize];
            rest >>= 5;
            if rest == 0 {
                break;
            }
        }
        let text: String = text[start..].iter().copied().map(char::from).collect();
        f.pad(&text)
    }
}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        if text.is_empty() {
            return Err(SeedError::Length);
        }
        let mut value = 0u64;
        for c in text.chars() {
            let lower = match c.to_ascii_lowercase() {
                'i' | 'l' => '1',
                'o' => '0',
                other => other,
            };
            let digit = DIGITS
                .iter()
                .position(|digit| char::from(*digit) == lower)
                .ok_or(SeedError::Digit(c))?;
            value = value.checked_mul(32).ok_or(SeedError::Length)? + digit as u64;
        }
        Ok(Self(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form() {
        for (seed, text) in [(0, "0"), (31, "z"), (32, "10"), (u64::MAX, "fzzzzzzzzzzzz")] {
            assert_eq!(Seed(seed).to_string(), text);
            assert_eq!(text.parse(), Ok(Seed(seed)));
            assert_eq!(text.to_uppercase().parse(), Ok(Seed(seed)));
        }
        assert_eq!("0010".parse(), Ok(Seed(32)));
        assert_eq!("IlO".parse(), "110".parse::<Seed>());
        assert_eq!(Seed::short(u64::MAX).to_string(), "zzzzzzzz");
    }

    #[test]
    fn runs_have_seeds_of_their_own() {
        let all: std::collections::BTreeSet<u64> = (0..1000).map(|n| Seed(7).nth(n).0).collect();
        assert_eq!(all.len(), 1000);
        assert_eq!(Seed(7).nth(3), Seed(7).nth(3));
        assert_ne!(Seed(7).nth(3), Seed(8).nth(3));
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!("".parse::<Seed>(), Err(SeedError::Length));
        assert_eq!("g000000000000".parse::<Seed>(), Err(SeedError::Length));
        assert_eq!("1u".parse::<Seed>(), Err(SeedError::Digit('u')));
        assert_eq!("1 ".parse::<Seed>(), Err(SeedError::Digit(' ')));
        assert_eq!("é".parse::<Seed>(), Err(SeedError::Digit('é')));
    }
}
