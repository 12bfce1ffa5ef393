//! Command lines as typed in a shell.

use relive_trace::Bytes;

use crate::escape;

/// The words, quoted for a shell where they need it, cut to `max` characters.
pub fn shown(words: &[Bytes], max: usize) -> String {
    let line: Vec<String> = words.iter().map(|word| quoted(&word.0)).collect();
    cut(&line.join(" "), max)
}

/// One word; control characters are escaped and bytes that are not UTF-8 are replaced, so that a
/// terminal shows it unchanged.
fn quoted(word: &[u8]) -> String {
    let text = escape::line(word);
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let head: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{head}…")
}

/// The command that starts this executable again: its name if that finds it, else its path.
pub fn own_name() -> String {
    let Ok(own) = std::env::current_exe() else {
        return "relive".to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join("relive"))
        .find(|file| file.is_file());
    if found.and_then(|file| file.canonicalize().ok()).as_deref() == Some(own.as_path()) {
        return "relive".to_owned();
    }
    let here = std::env::current_dir()
        .ok()
        .and_then(|dir| own.strip_prefix(dir).ok().map(ToOwned::to_owned));
    here.unwrap_or(own).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_cut() {
        let words: Vec<Bytes> = ["sh", "-c", "echo it's", "", "a\nb"]
            .map(Bytes::from)
            .to_vec();
        assert_eq!(shown(&words, 100), r"sh -c 'echo it'\''s' '' 'a\u000ab'");
        assert_eq!(shown(&words, 8), "sh -c '…");
    }
}
