//! Parts of the protocol that gdbstub lacks: conditions of breakpoints, new programs, children, and
//! siginfo. Packets are inspected on their way; none is passed on half.

/// Longest packet that is held back until it is whole: longer ones pass as they come.
const LONGEST: usize = 128 << 10;
/// Text added to the list of features.
const ADDED: &[u8] = b";ConditionalBreakpoints+;exec-events+;qXfer:siginfo:read+";
/// The beginning of the list of features.
const FEATURES: &[u8] = b"$PacketSize=";
/// A stop that gdbstub can express, in place of one that it cannot.
const STAND_IN: &[u8] = b"library:;";

/// A packet with its checksum.
pub fn packet(body: &str) -> Vec<u8> {
    format!("${body}#{:02x}", sum(body.as_bytes())).into_bytes()
}

fn sum(body: &[u8]) -> u8 {
    body.iter().fold(0u8, |s, b| s.wrapping_add(*b))
}

/// A packet on its way in.
#[derive(Default)]
pub struct Incoming {
    bytes: Vec<u8>,
    /// Digits of the checksum that are still to come.
    left: Option<u8>,
}

impl Incoming {
    /// Takes a byte; returns a complete unit: a packet, or bytes that are none.
    pub fn take(&mut self, byte: u8) -> Option<Vec<u8>> {
        match (byte, self.left) {
            // A new packet begins; the bytes of the old one are passed on.
            (b'$', _) => {
                let old = std::mem::replace(&mut self.bytes, vec![byte]);
                self.left = None;
                return (!old.is_empty()).then_some(old);
            }
            _ if self.bytes.is_empty() => return Some(vec![byte]),
            (b'#', None) => self.left = Some(2),
            (_, Some(n)) => self.left = Some(n - 1),
            (_, None) => {}
        }
        self.bytes.push(byte);
        if self.left == Some(0) || self.bytes.len() >= LONGEST {
            self.left = None;
            return Some(std::mem::take(&mut self.bytes));
        }
        None
    }
}

/// The body of a whole and correct packet.
pub fn body(packet: &[u8]) -> Option<&[u8]> {
    let (body, digits) = packet.strip_prefix(b"$")?.split_last_chunk::<2>()?;
    let body = body.strip_suffix(b"#")?;
    let digits = std::str::from_utf8(digits).ok()?;
    (u8::from_str_radix(digits, 16) == Ok(sum(body))).then_some(body)
}

/// Whether a unit is a whole packet with a wrong checksum.
pub fn is_garbled(unit: &[u8]) -> bool {
    let whole = unit.len() >= 4 && unit[0] == b'$' && unit[unit.len() - 3] == b'#';
    whole && body(unit).is_none()
}

/// A packet in the form that gdbstub understands: a query for our features may name none of the
/// client's.
pub fn mended(unit: Vec<u8>) -> Vec<u8> {
    let Some(features) = body(&unit).and_then(|b| b.strip_prefix(b"qSupported")) else {
        return unit;
    };
    let features = String::from_utf8_lossy(features.strip_prefix(b":").unwrap_or(features));
    let mut named: Vec<&str> = features.split(';').filter(|f| !f.is_empty()).collect();
    if named.is_empty() {
        named.push("multiprocess-");
    }
    packet(&format!("qSupported:{}", named.join(";")))
}

/// Offset and length, if a packet asks for siginfo (`qXfer:siginfo:read::offset,length`).
pub fn asks_siginfo(body: &[u8]) -> Option<(usize, usize)> {
    let rest = body.strip_prefix(b"qXfer:siginfo:read::")?;
    let (offset, len) = std::str::from_utf8(rest).ok()?.split_once(',')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(offset)?, number(len)?))
}

/// A part of an object, as the answer to `qXfer`.
pub fn portion(object: &[u8], offset: usize, len: usize) -> Vec<u8> {
    let start = offset.min(object.len());
    let end = offset.saturating_add(len).min(object.len());
    let mut body = vec![if end == object.len() { b'l' } else { b'm' }];
    for byte in &object[start..end] {
        match byte {
            b'#' | b'$' | b'}' | b'*' => body.extend([b'}', byte ^ 0x20]),
            _ => body.push(*byte),
        }
    }
    let sum = sum(&body);
    let digits = format!("#{sum:02x}");
    [b"$", &body[..], digits.as_bytes()].concat()
}

/// Adds features to an outgoing list of features.
pub fn announce(output: &mut Vec<u8>) {
    let Some(start) = output.windows(FEATURES.len()).position(|w| w == FEATURES) else {
        return;
    };
    let Some(len) = output[start..].iter().position(|b| *b == b'#') else {
        return;
    };
    output.truncate(start + len);
    output.extend_from_slice(ADDED);
    let sum = sum(&output[start + 1..]);
    output.extend_from_slice(format!("#{sum:02x}").as_bytes());
}

/// Replaces the stand-in of an outgoing stop by its reason.
pub fn tell(output: &mut Vec<u8>, reason: &mut Option<String>) {
    let Some(at) = output.windows(STAND_IN.len()).position(|w| w == STAND_IN) else {
        return;
    };
    let start = output[..at].iter().rposition(|b| *b == b'$');
    let (Some(start), Some(reason)) = (start, reason.take()) else {
        return;
    };
    let head = String::from_utf8_lossy(&output[start + 1..at]).into_owned();
    output.truncate(start);
    output.extend(packet(&format!("{head}{reason}")));
}

/// Address and conditions of a packet that sets a breakpoint:
/// `Z0,addr,kind[;Xlen,code]…[;cmds:…]`.
pub fn conditions(packet: &[u8]) -> Option<(u64, Vec<Vec<u8>>)> {
    let text = std::str::from_utf8(packet).ok()?;
    let rest = text.strip_prefix("Z0,").or(text.strip_prefix("Z1,"))?;
    let mut parts = rest.split(';');
    let at = u64::from_str_radix(parts.next()?.split(',').next()?, 16).ok()?;
    let mut found = Vec::new();
    for code in parts
        .take_while(|p| p.starts_with('X'))
        .flat_map(|p| p[1..].split('X'))
    {
        let hex = code.split(',').nth(1)?;
        let bytes = hex.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        found.push(bytes.collect::<Option<Vec<u8>>>()?);
    }
    Some((at, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let read = |text: &str| conditions(text.as_bytes());
        assert_eq!(read("Z0,401000,1"), Some((0x401000, vec![])));
        let one = vec![0x22, 1, 0x27];
        assert_eq!(read("Z0,10,1;X3,220127"), Some((0x10, vec![one.clone()])));
        let both = Some((0x10, vec![one.clone(), one]));
        assert_eq!(read("Z1,10,1;X3,220127X3,220127;cmds:0,X1,27"), both);
        for wrong in [
            "Z2,10,1",
            "Z0,zz,1",
            "Z0,10,1;X3",
            "Z0,10,1;X1,2z",
            "z0,10,1",
            "",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn features_are_announced_with_a_right_sum() {
        let mut output = b"+$PacketSize=10000;vContSupported+#00".to_vec();
        announce(&mut output);
        let said = body(&output[1..]).expect("the sum is right");
        assert!(said.ends_with(b";ConditionalBreakpoints+;exec-events+;qXfer:siginfo:read+"));
        let mut other = b"$OK#9a".to_vec();
        announce(&mut other);
        assert_eq!(other, b"$OK#9a");
    }

    #[test]
    fn a_reason_that_the_library_does_not_know_is_told() {
        let mut output = [b"+".to_vec(), packet("T05thread:p1.1;library:;")].concat();
        let mut reason = Some("exec:2f62;".to_owned());
        tell(&mut output, &mut reason);
        let said = body(&output[1..]).expect("the sum is right");
        assert_eq!(said, b"T05thread:p1.1;exec:2f62;");
        assert_eq!(reason, None);
    }

    #[test]
    fn features_may_be_asked_for_without_naming_any() {
        let mended = |text: &str| {
            let packet = mended(packet(text));
            String::from_utf8_lossy(body(&packet).expect("the sum is right")).into_owned()
        };
        assert_eq!(mended("qSupported"), "qSupported:multiprocess-");
        assert_eq!(mended("qSupported:"), "qSupported:multiprocess-");
        assert_eq!(mended("qSupported:;a+;;b=1;"), "qSupported:a+;b=1");
        assert_eq!(mended("qC"), "qC");
        for (unit, garbled) in [
            ("$qC#b4", false),
            ("$qC#b5", true),
            ("$qC#zz", true),
            ("+", false),
            ("$qC", false),
        ] {
            assert_eq!(is_garbled(unit.as_bytes()), garbled, "{unit}");
        }
    }

    #[test]
    fn packets_come_whole_and_nothing_is_lost() {
        for text in ["+$qC#b4+", "$a$b#62", "\u{3}$abc", "#12$x#zz#", "$#00"] {
            let mut incoming = Incoming::default();
            let mut all: Vec<u8> = text
                .bytes()
                .filter_map(|b| incoming.take(b))
                .flatten()
                .collect();
            all.extend(incoming.bytes);
            assert_eq!(all, text.as_bytes());
        }
        let mut incoming = Incoming::default();
        let long = [b"$".to_vec(), vec![b'a'; 2 * LONGEST]].concat();
        assert!(long.iter().any(|b| incoming.take(*b).is_some()));
    }

    #[test]
    fn objects_are_given_in_portions() {
        let asked = |text: &str| asks_siginfo(text.as_bytes());
        assert_eq!(asked("qXfer:siginfo:read::0,80"), Some((0, 0x80)));
        for wrong in [
            "qXfer:siginfo:read::0",
            "qXfer:siginfo:read::z,1",
            "qXfer:auxv:read::0,1",
        ] {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
        let given = |offset, len| {
            let packet = portion(b"ab#*", offset, len);
            body(&packet).expect("the sum is right").to_vec()
        };
        assert_eq!(given(0, 2), b"mab");
        assert_eq!(given(2, 9), [b'l', b'}', b'#' ^ 0x20, b'}', b'*' ^ 0x20]);
        assert_eq!(given(9, usize::MAX), b"l");
    }
}
