//! A part of a hunt that is divided among processes: each makes every N-th run. Which part this process is
//! comes from the command line, or from the variables that Slurm and Kubernetes give to the tasks of a job.

use std::fmt;
use std::str::FromStr;

use relive_engine::Failure;

/// A part: `index` of `of`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `of`.
    pub index: u32,
    /// How many parts there are.
    pub of: u32,
}

/// The value of `--shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardArg {
    /// `2/8`.
    Given(Shard),
    /// `/8`: the surroundings say which of them.
    Among(u32),
}

impl FromStr for ShardArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no shard: write 2/8, or /8 in an indexed job");
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let of: u32 = of.parse().map_err(|_| wrong())?;
        if of == 0 {
            return Err(wrong());
        }
        if index.is_empty() {
            return Ok(Self::Among(of));
        }
        let index: u32 = index.parse().map_err(|_| wrong())?;
        match (1..=of).contains(&index) {
            true => Ok(Self::Given(Shard { index, of })),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.index, self.of)
    }
}

impl Shard {
    /// The whole.
    pub const ALL: Self = Self { index: 1, of: 1 };

    /// The part of this process; the whole, if nothing says otherwise.
    ///
    /// # Errors
    /// The surroundings do not say which part it is.
    pub fn find(given: Option<ShardArg>) -> Result<Self, Failure> {
        Self::among(given, |name| std::env::var(name).ok())
    }

    fn among(
        given: Option<ShardArg>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        if let Some(ShardArg::Given(shard)) = given {
            return Ok(shard);
        }
        let of = given.map(|given| match given {
            ShardArg::Given(shard) => shard.of,
            ShardArg::Among(of) => of,
        });
        let number = |name: &str| variable(name)?.parse::<u32>().ok();
        if let Some(id) = number("SLURM_ARRAY_TASK_ID") {
            return slurm(id, of, number);
        }
        let index = number("JOB_COMPLETION_INDEX");
        match (index, of) {
            (Some(index), Some(of)) if index < of => Ok(Self {
                index: index + 1,
                of,
            }),
            (Some(index), Some(of)) => Err(Failure::setup(format!(
                "JOB_COMPLETION_INDEX is {index}, and there are {of} shards: give --shard the job's number of completions"
            ))),
            (Some(_), None) => Err(Failure::setup(
                "this is a task of an indexed job, which does not say how many there are: give --shard /N, with the job's number of completions",
            )),
            (None, Some(_)) => Err(Failure::setup(
                "nothing here says which shard this is (SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX): give --shard I/N",
            )),
            (None, None) => Ok(Self::ALL),
        }
    }

    /// The number in the whole hunt of the run which is the `n`-th of this part (both from 1); `None`:
    /// it has no number.
    pub fn run(self, n: u32) -> Option<u32> {
        (n - 1).checked_mul(self.of)?.checked_add(self.index)
    }
}

/// The part of a task of a Slurm array (sbatch(1), `--array`).
fn slurm(id: u32, of: Option<u32>, number: impl Fn(&str) -> Option<u32>) -> Result<Shard, Failure> {
    let first = number("SLURM_ARRAY_TASK_MIN").unwrap_or(0);
    let step = number("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1);
    let last = number("SLURM_ARRAY_TASK_MAX");
    let count = of.or(number("SLURM_ARRAY_TASK_COUNT"));
    let place = id
        .checked_sub(first)
        .filter(|distance| distance % step == 0);
    let even = last
        .and_then(|last| Some((last.checked_sub(first)?) / step + 1))
        .is_none_or(|all| Some(all) == count);
    match (place.map(|distance| distance / step), count) {
        (Some(place), Some(of)) if place < of && even => Ok(Shard {
            index: place + 1,
            of,
        }),
        _ => Err(Failure::setup(
            "the numbers of this job array are not evenly spaced: give --shard I/N, or use --array=1-N",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(given: &str, variables: &[(&str, &str)]) -> Option<(u32, u32)> {
        let given = (!given.is_empty()).then(|| given.parse().expect("a shard"));
        let variable = |name: &str| {
            let mut all = variables.iter();
            all.find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
        };
        let shard = Shard::among(given, variable).ok()?;
        Some((shard.index, shard.of))
    }

    #[test]
    fn texts() {
        assert_eq!(
            "2/8".parse(),
            Ok(ShardArg::Given(Shard { index: 2, of: 8 }))
        );
        assert_eq!("/3".parse(), Ok(ShardArg::Among(3)));
        for text in ["", "3", "0/3", "4/3", "/0", "1/", "a/b", "-1/2"] {
            assert!(text.parse::<ShardArg>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_surroundings_say_which() {
        let slurm = |id, min, max, count| {
            [
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_MIN", min),
                ("SLURM_ARRAY_TASK_MAX", max),
                ("SLURM_ARRAY_TASK_COUNT", count),
            ]
        };
        assert_eq!(find("", &[]), Some((1, 1)));
        assert_eq!(find("", &slurm("3", "0", "7", "8")), Some((4, 8)));
        assert_eq!(find("", &slurm("8", "1", "8", "8")), Some((8, 8)));
        assert_eq!(find("2/3", &slurm("8", "1", "8", "8")), Some((2, 3)));
        assert_eq!(find("", &slurm("7", "1", "7", "3")), None);
        let mut stepped = slurm("9", "1", "9", "3").to_vec();
        stepped.push(("SLURM_ARRAY_TASK_STEP", "4"));
        assert_eq!(find("", &stepped), Some((3, 3)));
        let indexed = [("JOB_COMPLETION_INDEX", "2")];
        assert_eq!(find("/4", &indexed), Some((3, 4)));
        assert_eq!(find("/2", &indexed), None);
        assert_eq!(find("", &indexed), None);
        assert_eq!(find("/4", &[]), None);
    }

    #[test]
    fn parts_share_the_runs() {
        let mut runs: Vec<u32> = (1..=3)
            .flat_map(|index| (1..=4).filter_map(move |n| Shard { index, of: 3 }.run(n)))
            .collect();
        runs.sort_unstable();
        assert_eq!(runs, (1..=12).collect::<Vec<_>>());
        assert_eq!(Shard { index: 2, of: 3 }.run(u32::MAX), None);
    }
}
