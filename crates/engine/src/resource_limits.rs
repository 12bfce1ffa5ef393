//! The limits on resources of this process (getrlimit(2)), in the kernel's numbers: the largest number is
//! no limit. It must never take a limit for larger than it is: a limit that the kernel does not tell is
//! `None`.

use rustix::process::{Resource, Rlimit, setrlimit};

/// A soft and a hard limit of getrlimit(2).
pub type Limit = (u64, u64);

/// The present limit; `None`: the kernel does not tell.
#[must_use]
pub fn get(what: Resource) -> Option<Limit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // rustix has the call too, but assumes that the kernel never refuses it.
    // SAFETY: fills the structure.
    let asked = unsafe { libc::getrlimit(what as u32, &raw mut limit) };
    (asked == 0).then_some((limit.rlim_cur, limit.rlim_max))
}

/// Sets a limit; `false`: the kernel does not allow it.
pub fn set(what: Resource, (soft, hard): Limit) -> bool {
    let number = |limit| (limit != libc::RLIM_INFINITY).then_some(limit);
    let limit = Rlimit {
        current: number(soft),
        maximum: number(hard),
    };
    setrlimit(what, limit).is_ok()
}

/// The soft limit, which is in force; 0 if the kernel does not tell.
#[must_use]
pub fn soft(what: Resource) -> u64 {
    get(what).map_or(0, |(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_it_was_set() {
        let before @ (_, hard) = get(Resource::Core).expect("the kernel tells");
        assert!(set(Resource::Core, (0, hard)));
        assert_eq!(get(Resource::Core), Some((0, hard)));
        assert!(set(Resource::Core, before));
        assert_eq!(get(Resource::Core), Some(before));
    }
}
