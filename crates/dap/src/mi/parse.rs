//! Parses one line of gdb's output.

use super::record::Record;
use super::value::Value;

/// Deepest value that is read: gdb's own are five or six deep, and a line may come from any process
/// that writes into the same pipe.
const DEPTH: usize = 64;

/// Parses a line, without its end.
pub fn parse(line: &[u8]) -> Record {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    record(line).unwrap_or_else(|| Record::Other(String::from_utf8_lossy(line).into_owned()))
}

fn record(line: &[u8]) -> Option<Record> {
    if line.trim_ascii_end() == b"(gdb)" {
        return Some(Record::Prompt);
    }
    let mut input = Input { rest: line };
    let token = input.token();
    let kind = input.next()?;
    let record = match kind {
        b'~' => Record::Console(input.string()?),
        b'@' => Record::Target(input.string()?),
        b'&' => Record::Log(input.string()?),
        b'+' => return Some(Record::Status),
        b'^' | b'*' | b'=' => {
            let class = input.name();
            let results = Value::Tuple(input.results()?);
            match kind {
                b'^' => Record::Result {
                    token,
                    class,
                    results,
                },
                b'*' => Record::Exec { class, results },
                _ => Record::Notify { class, results },
            }
        }
        _ => return None,
    };
    input.rest.is_empty().then_some(record)
}

struct Input<'l> {
    rest: &'l [u8],
}

impl Input<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.peek() == Some(wanted);
        if there {
            self.rest = &self.rest[1..];
        }
        there
    }

    fn token(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (token, rest) = self.rest.split_at(digits);
        self.rest = rest;
        std::str::from_utf8(token).ok()?.parse().ok()
    }

    fn name(&mut self) -> String {
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || matches!(**b, b'-' | b'_');
        let len = self.rest.iter().take_while(is_part).count();
        let (name, rest) = self.rest.split_at(len);
        self.rest = rest;
        String::from_utf8_lossy(name).into_owned()
    }

    /// The results behind a class: each begins with a comma.
    fn results(&mut self) -> Option<Vec<(String, Value)>> {
        let mut all = Vec::new();
        while self.take(b',') {
            all.push(self.field(0)?);
        }
        Some(all)
    }

    /// A value with its name. Some tuples of gdb's have values without one.
    fn field(&mut self, depth: usize) -> Option<(String, Value)> {
        let name = self.name();
        if !name.is_empty() && !self.take(b'=') {
            return None;
        }
        Some((name, self.value(depth)?))
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth == DEPTH {
            return None;
        }
        match self.peek()? {
            b'"' => self.string().map(Value::Text),
            b'{' => self.fields(b'}', depth).map(Value::Tuple),
            b'[' => {
                let fields = self.fields(b']', depth)?;
                Some(Value::List(fields.into_iter().map(|f| f.1).collect()))
            }
            _ => None,
        }
    }

    /// The values between two brackets.
    fn fields(&mut self, end: u8, depth: usize) -> Option<Vec<(String, Value)>> {
        self.next()?;
        let mut all = Vec::new();
        if self.take(end) {
            return Some(all);
        }
        loop {
            all.push(self.field(depth + 1)?);
            if self.take(end) {
                return Some(all);
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// A C string in quotes.
    fn string(&mut self) -> Option<String> {
        if !self.take(b'"') {
            return None;
        }
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(String::from_utf8_lossy(&bytes).into_owned()),
                b'\\' => bytes.push(self.escaped()?),
                byte => bytes.push(byte),
            }
        }
    }

    fn escaped(&mut self) -> Option<u8> {
        Some(match self.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'e' => 27,
            digit @ b'0'..=b'7' => {
                let mut byte = digit - b'0';
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.peek() else {
                        break;
                    };
                    self.rest = &self.rest[1..];
                    byte = byte.wrapping_mul(8).wrapping_add(digit - b'0');
                }
                byte
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(t: &str) -> Value {
        Value::Text(t.to_owned())
    }

    #[test]
    fn records_are_read() {
        let Record::Result {
            token,
            class,
            results,
        } = parse(br#"12^done,stack=[frame={level="0",line="7"},frame={level="1"}],x=[],y={}"#)
        else {
            panic!("no result")
        };
        assert_eq!((token, class.as_str()), (Some(12), "done"));
        assert_eq!(results.list("stack").len(), 2);
        assert_eq!(results.list("stack")[0].number::<u32>("line"), Some(7));
        assert_eq!(results.list("x"), []);
        assert_eq!(results.get("y"), Some(&Value::Tuple(Vec::new())));
        for (line, expected) in [
            (&b"(gdb) "[..], Record::Prompt),
            (b"(gdb)\r", Record::Prompt),
            (br#"~"a\tb\"\n""#, Record::Console("a\tb\"\n".into())),
            (br#"@"\303\251""#, Record::Target("\u{e9}".into())),
            (br#"&"\377""#, Record::Log("\u{fffd}".into())),
            (b"+download", Record::Status),
            (b"", Record::Other(String::new())),
            (b"hello", Record::Other("hello".into())),
            (b"~\"open", Record::Other("~\"open".into())),
            (b"^done,x=", Record::Other("^done,x=".into())),
            (b"~\"a\"b", Record::Other("~\"a\"b".into())),
        ] {
            assert_eq!(parse(line), expected);
        }
    }

    #[test]
    fn tuples_without_names_are_read() {
        let Record::Notify { results, .. } =
            parse(br#"=breakpoint-modified,bkpt={number="1",script={"silent","c"}}"#)
        else {
            panic!("no notification")
        };
        let script = results.get("bkpt").and_then(|b| b.get("script"));
        let both = vec![(String::new(), text("silent")), (String::new(), text("c"))];
        assert_eq!(script, Some(&Value::Tuple(both)));
    }

    #[test]
    fn depth_has_an_end() {
        let deep = [&b"^done,x="[..], &b"[".repeat(100_000)].concat();
        assert!(matches!(parse(&deep), Record::Other(_)));
    }

    fn written(value: &Value) -> String {
        match value {
            Value::Text(t) => crate::mi::quote(t),
            Value::Tuple(fields) => {
                let all: Vec<String> = fields
                    .iter()
                    .map(|(n, v)| format!("{n}={}", written(v)))
                    .collect();
                format!("{{{}}}", all.join(","))
            }
            Value::List(all) => {
                let all: Vec<String> = all.iter().map(written).collect();
                format!("[{}]", all.join(","))
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = "[ -~\\n\\t\u{e9}]{0,12}".prop_map(Value::Text);
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(("[a-z][a-z0-9_-]{0,6}", inner.clone()), 0..4)
                    .prop_map(Value::Tuple),
                prop::collection::vec(inner, 0..4).prop_map(Value::List),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record(line in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&line);
        }

        #[test]
        fn any_text_near_the_grammar_is_a_record(line in "[0-9]{0,3}[*^=~@&+][a-z]{0,5}[,={}\\[\\]\"\\\\a-z0-9]{0,60}") {
            parse(line.as_bytes());
        }

        #[test]
        fn what_is_written_is_read(value in values(), token in any::<u64>()) {
            let line = format!("{token}^done,v={}", written(&value));
            let results = Value::Tuple(vec![("v".to_owned(), value)]);
            let expected = Record::Result { token: Some(token), class: "done".to_owned(), results };
            prop_assert_eq!(parse(line.as_bytes()), expected);
        }
    }
}
