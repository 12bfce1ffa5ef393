//! Tests of the index of fragments.

use super::*;

fn fragment(pc: u64, end: u64, at: u32) -> Fragment {
    Fragment {
        pc,
        end,
        entries: [at, 0, 0, 0, 0, 0, 0],
        zero: 0,
        first_mark: 0,
        incoming: NONE,
        region: NONE,
        marks: 0,
        live: 1,
        step: 0,
    }
}

#[test]
fn ranges_find_fragments_by_page_and_by_byte() {
    let mut all = Fragments::default();
    let a = all.add(fragment(0x1ff0, 0x2010, 0x100), &[]);
    let b = all.add(fragment(0x5000, 0x5004, 0x200), &[]);
    assert!(all.any(0x2000, 0x3000) && !all.any(0x2010, 0x3000));
    assert_eq!(all.overlapping(0, u64::MAX), [a, b]);
    all.depend(b, &[(0x5000, 0x5004), (0x1ff8, 0x1ffc), (0x9ffe, 0xa002)]);
    assert_eq!(
        all.all_farther()[&u64::from(b)],
        [(0x1ff8, 0x1ffc), (0x9ffe, 0xa002)]
    );
    assert_eq!(all.overlapping(0xa000, 0xa001), [b]);
    assert_eq!(all.overlapping(0x1ffa, 0x1ffb), [a, b]);
    assert!(all.any(0x9fff, 0xa000) && !all.any(0xa002, 0xb000));
    assert_eq!(all.overlapping(0x1ffc, 0x2000), [a]);
    all.retire(a);
    assert_eq!(all.overlapping(0x1000, 0x3000), [b]);
    assert_eq!(all.overlapping(0x2000, 0x3000), [0; 0]);
    assert_eq!(all.dead_entry(0x100), Some((a, Entry::Plain)));
    assert!(all.find(0x1ff0).is_none() && all.find(0x5000) == Some(b));
}

#[test]
fn marks_are_found_exactly_or_not_at_all() {
    let mut all = Fragments::default();
    let marks = [
        Mark {
            cache: 0,
            guest: 0,
            ahead: 0,
            undo: Undo::Exact,
        },
        Mark {
            cache: 7,
            guest: 3,
            ahead: 7,
            undo: Undo::Rcx,
        },
    ];
    all.add(fragment(0x1000, 0x1004, 0x100), &marks);
    all.add(fragment(0x2000, 0x2004, 0x200), &marks[..1]);
    assert_eq!(
        all.mark_at(0x107).map(|(f, m)| (f.pc, m.guest)),
        Some((0x1000, 3))
    );
    assert_eq!(
        all.mark_at(0x200).map(|(f, m)| (f.pc, m.guest)),
        Some((0x2000, 0))
    );
    assert!(
        all.mark_at(0x106).is_none() && all.mark_at(0x207).is_none() && all.mark_at(0xff).is_none()
    );
}
