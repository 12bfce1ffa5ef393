use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

use super::*;

/// A thread's context. Each test has lines of its own: objects are shared by all.
fn context(id: u32) -> Box<Context> {
    install().expect("objects");
    let mut ctx = Context::new();
    ctx.order_id = id;
    ctx
}

fn edge(at: u64, from: u32, from_op: u64) -> Edge {
    Edge {
        at,
        ticks: 0,
        from_op,
        from,
        pad: 0,
    }
}

#[test]
fn a_line_has_one_object_and_neighbours_have_others() {
    install().expect("objects");
    let at = |addr| &raw const *object_of(addr) as u64;
    assert_eq!(at(0x1000_0000_0040), at(0x1000_0000_007f));
    // Lines beside each other, pages, and the heaps of allocators, which lie far apart.
    for step in [64, 4096, 1 << 20, 8 << 20, 64 << 20] {
        let objects: HashSet<u64> = (0..64).map(|i| at(0x1000_0000_0000 + i * step)).collect();
        assert!(
            objects.len() > 60,
            "{} objects, {step:#x} apart",
            objects.len()
        );
    }
    assert!((OBJECTS..OBJECTS + OBJECTS_BYTES).contains(&at(u64::MAX)));
}

#[test]
fn an_operation_behind_another_threads_is_an_edge() {
    let (mut a, mut b) = (context(1), context(2));
    let [x, y] = [0x7000_0000, 0x7000_0040].map(object_of);
    let mut hold = |object: &Object, first: bool| {
        let ctx = if first { &mut *a } else { &mut *b };
        object.acquire(ctx);
        object.release();
    };
    for (object, first) in [
        (x, true),
        (x, true),
        (y, false),
        (x, false),
        (x, false),
        (x, true),
    ] {
        hold(object, first);
    }
    assert_eq!((a.ops, b.ops), (3, 3));
    assert_eq!(b.edges(), [edge(2, 1, 2)]);
    assert_eq!(a.edges(), [edge(3, 2, 3)]);
    a.clear_edges();
    assert_eq!(a.edges(), []);
}

#[test]
fn a_thread_with_many_edges_has_to_stop() {
    let (mut a, mut b) = (context(1), context(2));
    let object = object_of(0x7000_0080);
    a.grant(1000);
    while !a.has_many_edges() {
        assert!(!a.count_tick());
        for ctx in [&mut a, &mut b] {
            object.acquire(ctx);
            object.release();
        }
    }
    assert_eq!(a.edges().len(), EDGES / 2 + 1);
    assert!(a.count_tick());
    assert!(a.granted() > 0);
    a.clear_edges();
    assert!(!a.count_tick());
}

#[test]
fn a_fault_frees_the_object_and_the_operation_is_the_one_before() {
    let (mut a, mut b) = (context(1), context(2));
    let object = object_of(0x7000_00c0);
    object.acquire(&mut a);
    object.release();
    // As translated code does.
    object.acquire(&mut a);
    a.ordering = &raw const *object as u64;
    let_go(&mut a);
    a.take_back_operation();
    assert_eq!((a.ops, a.ordering), (1, 0));
    object.acquire(&mut b);
    object.release();
    assert_eq!(b.edges(), [edge(1, 1, 1)]);
    // Of no effect without one.
    object.acquire(&mut b);
    let_go(&mut a);
    assert!(object.is_held());
    object.release();
}

#[test]
fn threads_hold_an_object_one_at_a_time() {
    const ROUNDS: u64 = 20_000;
    let object = object_of(0x7000_0100);
    let shared = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for id in [1, 2, 3] {
            let shared = &shared;
            scope.spawn(move || {
                let mut ctx = context(id);
                for _ in 0..ROUNDS {
                    object.acquire(&mut ctx);
                    let seen = shared.load(Ordering::Relaxed);
                    shared.store(seen + 1, Ordering::Relaxed);
                    object.release();
                    ctx.clear_edges();
                }
                assert_eq!(ctx.ops, ROUNDS);
            });
        }
    });
    assert_eq!(shared.into_inner(), 3 * ROUNDS);
}

fn words_are_held(held: &HeldWords<'_>) -> bool {
    held.objects().all(|same| object_of(same[0]).is_held())
}

#[test]
fn words_are_held_at_one_moment_and_count_one_each() {
    let (mut a, mut b) = (context(1), context(2));
    let [one, two] = [0x7100_0000, 0x7100_1000];
    let all = |mut words: Vec<u64>, ctx: &mut Context| {
        let held = HeldWords::sort(&mut words);
        held.objects().for_each(|same| hold(same, ctx));
        assert!(words_are_held(&held), "all at one moment");
        held.release();
    };
    all(vec![two, one + 4, one], &mut a);
    assert_eq!((a.ops, a.edges()), (3, [].as_slice()));
    all(vec![one, two], &mut b);
    assert_eq!(b.ops, 2);
    let mut follows: Vec<(u32, u64)> = b.edges().iter().map(|e| (e.from, e.from_op)).collect();
    follows.sort_unstable();
    // One operation of two words of a line stands for both.
    let [first, second] = follows[..] else {
        panic!("{follows:?}");
    };
    assert_eq!((first.0, second), (1, (1, 3)));
    assert!([1, 2].contains(&first.1), "{first:?}");
    assert!([one, two].iter().all(|word| !object_of(*word).is_held()));
}
