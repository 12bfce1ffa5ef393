//! The system's libraries, as far as races are concerned: a table of principles, each of which
//! `docs/races.md` explains.

use relive_symbols::Named;

/// The code that an access belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    Program,
    /// The dynamic linker, which binds functions while other threads call them.
    Linker,
    /// The C library's own data: locks, streams, its heap.
    Library,
    /// A function of the C library that copies or fills its caller's data.
    Copies,
    /// One that looks through its caller's text, and may read whole vectors around it.
    Searches,
    /// The run time of Go, with its scheduler and its collector.
    GoRuntime,
}

/// Whether a race belongs to a library alone; for both accesses, whether they write.
pub fn is_own(first: (Owner, bool), second: (Owner, bool)) -> bool {
    let both = [first, second];
    let any = |wanted: Owner| both.iter().any(|(owner, _)| *owner == wanted);
    let reads = |(owner, writes): &(Owner, bool)| *owner == Owner::Searches && !writes;
    any(Owner::Linker)
        || any(Owner::GoRuntime)
        || both.iter().any(reads)
        || both.iter().all(|(owner, _)| *owner == Owner::Library)
}

/// Functions of Go's run time that copy the program's data.
const GO_COPIES: [&str; 3] = [
    "runtime.memmove",
    "runtime.memclrNoHeapPointers",
    "runtime.memequal",
];

/// The owner of an instruction.
pub fn owner(named: &Named) -> Owner {
    let symbol = named.symbol.as_ref().map_or("", |(name, _)| name.as_str());
    let module = named.module.as_deref().unwrap_or("");
    let file = module.rsplit('/').next().unwrap_or(module);
    if is_one_of(file, &["ld-linux", "ld-musl", "ld-2.", "ld.so", "ld64.so"]) {
        return Owner::Linker;
    }
    if is_one_of(symbol, &["runtime.", "runtime/", "internal/runtime/"]) {
        return match GO_COPIES.contains(&symbol) {
            true => Owner::Copies,
            false => Owner::GoRuntime,
        };
    }
    let plain = symbol.trim_start_matches('_');
    // In a program that is linked statically only reserved names say that a function is the library's.
    let libc = is_one_of(file, &["libc.so", "libc-2.", "libpthread", "libc.musl"])
        || is_one_of(
            symbol,
            &["__lll_", "_IO_", "__pthread_", "___pthread_", "__libc_"],
        );
    if !libc {
        return Owner::Program;
    }
    let is_copy = is_one_of(plain, &["mem", "wmem", "bcopy", "bzero", "explicit_bzero"]);
    let is_search = is_one_of(
        plain,
        &[
            "str",
            "stp",
            "wcs",
            "wcp",
            "rawmemchr",
            "memchr",
            "memrchr",
            "wmemchr",
        ],
    );
    match (is_search, is_copy) {
        (true, _) => Owner::Searches,
        (_, true) => Owner::Copies,
        _ => Owner::Library,
    }
}

fn is_one_of(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|begin| name.starts_with(begin))
}

/// Whether an instruction belongs to an operation on an atomic object: it is compiled from one of the
/// standard library's functions for that.
pub fn is_atomic_operation(named: &Named) -> bool {
    let functions = named
        .lines
        .iter()
        .filter_map(|line| line.function.as_deref());
    let symbol = named.symbol.as_ref().map(|(name, _)| name.as_str());
    functions.chain(symbol).any(|name| {
        is_one_of(
            name,
            &[
                "core::sync::atomic::",
                "<core::sync::atomic::",
                "std::atomic<",
                "std::atomic_",
                "std::__atomic_",
                "std::__atomic_base<",
                "internal/runtime/atomic.",
                "runtime/internal/atomic.",
                "sync/atomic.",
            ],
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(module: &str, symbol: &str) -> Named {
        Named {
            module: Some(module.to_owned()),
            symbol: Some((symbol.to_owned(), 0)),
            ..Named::default()
        }
    }

    #[test]
    fn the_c_library_is_told_apart_from_programs() {
        for (module, symbol, is) in [
            ("/lib64/ld-linux-x86-64.so.2", "memcpy", Owner::Linker),
            (
                "/lib/libc.so.6",
                "__memmove_avx_unaligned_erms",
                Owner::Copies,
            ),
            ("/lib/libc.so.6", "__strlen_avx2", Owner::Searches),
            ("/lib/libc.so.6", "__pthread_mutex_lock", Owner::Library),
            ("/tmp/a", "__lll_lock_wait", Owner::Library),
            ("/tmp/a", "strange", Owner::Program),
            ("/tmp/a", "runtime.scanobject", Owner::GoRuntime),
            ("/tmp/a", "runtime.memmove", Owner::Copies),
        ] {
            assert_eq!(owner(&named(module, symbol)), is, "{module} {symbol}");
        }
    }

    #[test]
    fn a_copy_of_a_programs_data_is_the_programs() {
        let (copies, own) = ((Owner::Copies, true), (Owner::Library, true));
        assert!(!is_own(copies, (Owner::Program, false)));
        assert!(!is_own((Owner::Program, true), own));
        assert!(is_own(own, own));
        assert!(is_own((Owner::Program, true), (Owner::Searches, false)));
        assert!(!is_own((Owner::Program, false), (Owner::Searches, true)));
    }
}
