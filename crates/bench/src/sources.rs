//! Text and C sources generated from a number alone: the same bytes everywhere.

use std::fmt::Write;

use relive_sched::Rng;

/// Random choices, the same for ever.
struct Random(Rng);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }
}

const SYLLABLES: [&str; 32] = [
    "ra", "to", "mi", "ne", "ka", "su", "le", "vo", "dan", "per", "sti", "gon", "ul", "em", "bri",
    "cha", "qua", "fer", "lin", "os", "tha", "wer", "jo", "pix", "zen", "hy", "ab", "nor", "ce",
    "dri", "mul", "ta",
];

fn words(random: &mut Random, count: usize) -> Vec<String> {
    let word = |random: &mut Random| {
        let parts = 1 + random.below(4);
        (0..parts)
            .map(|_| SYLLABLES[random.below(SYLLABLES.len())])
            .collect()
    };
    (0..count).map(|_| word(random)).collect()
}

/// This many bytes of words and lines, frequent words more often, as in a language.
pub fn text(bytes: usize) -> String {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15 ^ bytes as u64);
    let words = words(&mut random, 8000);
    let mut all = String::with_capacity(bytes + 64);
    let mut column = 0;
    while all.len() < bytes {
        let top = 1 + random.below(words.len());
        let word = &words[random.below(top)];
        all.push_str(word);
        column += word.len() + 1;
        let digits = random.below(40) == 0;
        if digits {
            let _ = write!(all, " {}", random.below(100_000));
        }
        all.push(if column > 72 { '\n' } else { ' ' });
        column = if column > 72 { 0 } else { column };
    }
    all.truncate(bytes);
    all
}

/// A few lines of text that differ for every number.
pub fn paragraph(number: usize) -> String {
    let mut random = Random::new(number as u64 + 1);
    random.below(2);
    words(&mut random, 120).join(" ") + "\n"
}

fn function(random: &mut Random, name: &str) -> String {
    let [a, b, c] = [3, 5, 7].map(|least| least + random.below(1000));
    let mut body = format!(
        "long {name}(const long *values, int count, struct pair *out) {{\n    long sum = {a};\n"
    );
    for step in 0..2 + random.below(3) {
        let _ = write!(
            body,
            "    for (int i = {step}; i < count; i++) {{\n\
             \x20       long value = values[i] * {b} + out->first;\n\
             \x20       if (value % {c} == {step}) sum += value >> {};\n\
             \x20       else if (value < 0) out->second ^= sum - {a};\n\
             \x20       else sum -= value & {};\n    }}\n",
            1 + random.below(9),
            random.below(4096),
        );
    }
    let _ = write!(
        body,
        "    switch (sum & 7) {{\n    case 0: out->first = sum; break;\n    \
         case 3: out->second += {b}; break;\n    case 5: sum = -sum; break;\n    \
         default: out->first -= {c};\n    }}\n    return sum;\n}}\n\n"
    );
    body
}

const PAIR: &str = "struct pair { long first, second; };\n\n";

/// A C file of at least this many bytes: functions with loops, branches and switches.
pub fn large(bytes: usize) -> String {
    let mut random = Random::new(4711);
    let mut all = PAIR.to_owned();
    for number in 0.. {
        if all.len() >= bytes {
            break;
        }
        all += &function(&mut random, &format!("compute_{number}"));
    }
    all
}

/// A small C file with two functions and some headers of the C library.
pub fn unit(number: usize) -> String {
    let mut random = Random::new(number as u64 * 2654435761 + 99);
    let mut all = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n".to_owned();
    all += PAIR;
    for part in ["first", "second"] {
        all += &function(&mut random, &format!("unit{number}_{part}"));
    }
    all
}

/// A makefile for [`unit`]s 0 to `count` - 1.
pub fn makefile(count: usize) -> String {
    let objects: Vec<String> = (0..count).map(|n| format!("unit{n}.o")).collect();
    format!(
        "all: {}\n\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n",
        objects.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_the_same_every_time() {
        assert_eq!(text(5000), text(5000));
        assert_eq!(text(5000).len(), 5000);
        assert!(text(5000).is_ascii());
        assert_eq!(large(200_000), large(200_000));
        assert!((200_000..203_000).contains(&large(200_000).len()));
        assert_ne!(unit(1), unit(2));
        assert_ne!(paragraph(1), paragraph(2));
    }
}
