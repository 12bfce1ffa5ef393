//! A flip as an argument of the hidden `attempt`: five numbers with dots between them.

use std::str::FromStr;

use relive_sched::Flip;

/// An order that is turned around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlipArg(pub Flip);

impl FlipArg {
    /// The argument for a flip.
    pub fn text(flip: &Flip) -> String {
        let Flip {
            thread,
            site,
            word,
            arrival,
            until,
        } = flip;
        format!("{thread}.{site}.{word}.{arrival}.{until}")
    }
}

impl FromStr for FlipArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no flip");
        let parts: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
        let [thread, site, word, arrival, until] = parts.map_err(|_| wrong())?[..] else {
            return Err(wrong());
        };
        let small = |n: u64| u32::try_from(n).map_err(|_| wrong());
        Ok(Self(Flip {
            thread: small(thread)?,
            site,
            word,
            arrival: small(arrival)?,
            until,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_survive_their_text() {
        let flip = Flip {
            thread: 3,
            site: u64::MAX,
            word: 7,
            arrival: 2,
            until: 0,
        };
        assert_eq!(FlipArg::text(&flip).parse(), Ok(FlipArg(flip)));
        for text in [
            "",
            "1.2.3.4",
            "1.2.3.4.5.6",
            "4294967296.2.3.4.5",
            "a.2.3.4.5",
        ] {
            assert!(text.parse::<FlipArg>().is_err(), "{text}");
        }
    }
}
