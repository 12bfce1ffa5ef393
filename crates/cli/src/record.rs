//! `relive record`.

use std::time::Duration;

use relive_engine::Failure;

use relive_engine::explore;
use relive_engine::supervisor::{
    self, EndStatus, EpochPlan, FinderEnd, FlightPart, FlightPlan, FlightWindow, HeldOutputs,
    KeptFlight, KeptSearches, LiveImages, LiveIndexed, RecordOptions,
};
use relive_sched::Seed;
use relive_trace::ImageSet;

use crate::args::{RecordArgs, RecordMode};
use crate::format::{self, count, duration, size};
use crate::output::{complain, tell};
use crate::place::Place;
use crate::stats::Stats;
use crate::{finder, keep, traces};

/// Time between two session images, at least, by default.
const EVERY: Duration = Duration::from_secs(1);
/// The same at first, by which it grows, where each epoch between two is run again meanwhile (DoublePlay, section 4.1).
const EPOCH: Duration = Duration::from_millis(50);
/// When so many epochs could be run again for each that is, the program waits.
const WAITING: usize = 8;
/// The past that a flight recording keeps, by default.
const WINDOW: Duration = Duration::from_secs(30);
/// Bytes of all of them, about.
const MOST: u64 = 1 << 30;

/// Refuses what a recording whose threads run at the same time cannot do.
fn refuse_together(args: &RecordArgs) -> Result<(), Failure> {
    let mode = match args.mode {
        RecordMode::Serial => return Ok(()),
        RecordMode::Sketch => "sketch",
        RecordMode::Coherence => "coherence",
        RecordMode::Uniparallel => "uniparallel",
    };
    let refused = |what: &str, option: &str| {
        Err(Failure::unsupported(format!(
            "{what} whose threads run at the same time: leave out --mode {mode}, or {option}"
        )))
    };
    if args.flight.is_some() && args.chaos.is_some() {
        return refused("pauses, in the last part of a recording,", "--chaos");
    }
    if args.mode == RecordMode::Coherence && args.chaos.is_some() {
        return refused(
            "pauses, with all accesses to memory in order, of a program",
            "--chaos (or use --mode sketch)",
        );
    }
    Ok(())
}

/// Records a program; ends as it ended.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &RecordArgs) -> Result<EndStatus, Failure> {
    let guest = &args.guest;
    refuse_together(args)?;
    if args.jobs.is_some() && args.mode != RecordMode::Uniparallel {
        return Err(Failure::setup("--jobs is for --mode uniparallel alone"));
    }
    if args.commit && args.mode != RecordMode::Uniparallel {
        return Err(Failure::setup("--commit is for --mode uniparallel alone"));
    }
    if args.commit && args.jobs == Some(0) {
        return Err(Failure::setup(
            "with --commit output waits for searches, of which --jobs 0 makes none: leave one of them out",
        ));
    }
    let jobs = args.jobs.map_or_else(half_of_cores, |jobs| jobs as usize);
    // A mistyped name must not leave an empty recording behind.
    supervisor::find_program(guest.program(), guest.args())?;
    let place = match &args.output {
        Some(path) => Place::named(path)?,
        None => Place::numbered(guest.program())?,
    };
    place.make_latest()?;
    let chaos = args.chaos.map(|seed| seed.unwrap_or_else(random_seed));
    if let Some(seed) = chaos {
        complain(&format!("chaos seed {seed}"));
    }
    let flight = args.flight.map(|window| FlightPlan {
        window: window.unwrap_or(FlightWindow::Time(WINDOW)),
        signal: args.keep_on.map(|signal| signal.0),
        place: place.path().to_owned(),
        always: args.keep,
    });
    let past = flight
        .as_ref()
        .is_none_or(|flight| flight.window != FlightWindow::Nothing);
    let work = keep::work(place.path());
    if flight.is_some() {
        keep::clear(&work);
    }
    let options = RecordOptions {
        program: guest.program(),
        args: guest.args(),
        trace: match &flight {
            Some(_) => &work,
            None => place.path(),
        },
        recorder: args.mode.recorder(),
        seed: chaos.map(|seed| (seed.0, true)),
        timeout: None,
        deadlocks: false,
        silent: false,
        count: args.stats.stats.is_some(),
        promotes: !args.no_promoted,
        sites: &[],
        flight,
        images: match (args.index, args.mode) {
            // A flight has its own checkpoints.
            (None, RecordMode::Uniparallel) if args.flight.is_none() => {
                Some(images(None, args.mode))
            }
            (index, _) => index.map(|every| images(every, args.mode)),
        },
        epochs: (args.mode == RecordMode::Uniparallel).then_some(EpochPlan {
            finder: finder::command,
            jobs,
            most: match jobs {
                0 => u32::MAX,
                _ => (WAITING * jobs) as u32,
            },
            commits: args.commit,
        }),
        flips: (0, &[]),
    };
    match supervisor::record(&options) {
        Ok(mut recording) => {
            recording.remarks.iter().for_each(|remark| complain(remark));
            let finder = recording.finder.take();
            let found = finder.map(|finder| finder.finish(&mut tell_of_search));
            if let (Some(how), Some(totals)) = (args.stats.stats, &recording.totals) {
                let mut stats = Stats::new(totals, Some(&recording.summary));
                if let Some(found) = &found {
                    stats.add_epochs(found, recording.held);
                }
                if let Some(outputs) = &recording.outputs {
                    stats.add_outputs(outputs);
                }
                stats.tell(how);
            }
            match &recording.indexed {
                Some(Ok(_)) if found.is_some() => {}
                Some(Ok(made)) => tell(&index_text(made, args.mode)),
                Some(Err(failure)) => complain(&format!("no index was made: {failure}")),
                None => {}
            }
            if let Some(kept) = &recording.kept {
                for kept in kept {
                    tell(&kept_text(kept, recording.status));
                }
                if let Some(failure) = &recording.keep_failure {
                    complain(&format!("not kept: {failure}"));
                }
                let searches = recording.kept_searches.take();
                for (folder, end) in searches.into_iter().flat_map(KeptSearches::finish) {
                    let exact = exact_text(&end, Duration::ZERO);
                    tell(&format!("{}{exact}", folder.display()));
                }
                if kept.is_empty() {
                    // Who runs a program without having it recorded need not hear of that.
                    if past {
                        tell(&format!(
                            "not kept ({}): it has not ended badly, and nobody asked",
                            format::status(recording.status)
                        ));
                    }
                    place.withdraw();
                }
                return Ok(recording.status);
            }
            let next = if place.is_numbered() {
                "replay".to_owned()
            } else {
                format!("replay {}", place.name())
            };
            let exact = found.map_or(String::new(), |found| exact_text(&found, recording.held));
            let outputs = recording
                .outputs
                .as_ref()
                .map_or(String::new(), outputs_text);
            tell(&format!(
                "recorded as {} ({}){exact}{outputs}; next: relive {next}",
                place.name(),
                format::status(recording.status)
            ));
            Ok(recording.status)
        }
        Err(failure) => {
            place.withdraw();
            Err(failure)
        }
    }
}

fn half_of_cores() -> usize {
    (traces::jobs(None) / 2).max(1)
}

/// The program has ended, and the search goes on.
fn tell_of_search() {
    tell(
        "the program has ended; the order of its threads is still searched (Ctrl-C: end that, and keep the recording as a sketch)",
    );
}

/// How exact a recording is whose order was searched.
fn exact_text(end: &FinderEnd, held: Duration) -> String {
    if let (Some(failure), true) = (&end.failed, end.missing > 0) {
        complain(&traces::missing_text(end.missing, end.epochs, failure));
        return ", exact in its last part".to_owned();
    }
    if let Some(failure) = &end.failed {
        complain(&format!(
            "the order of its threads is not found, and the first replay searches on: {failure}"
        ));
        return ", a sketch".to_owned();
    }
    let attempts = match end.attempts as usize == end.epochs {
        true => String::new(),
        false => format!(", {}", count(end.attempts.into(), "attempt")),
    };
    let held = match held {
        Duration::ZERO => String::new(),
        held => format!("; the program waited {} for that", duration(held)),
    };
    format!(
        ", exact by {}{attempts}{held}",
        count(end.epochs as u64, "epoch")
    )
}

/// How long output was held back.
fn outputs_text(outputs: &HeldOutputs) -> String {
    if outputs.number == 0 {
        return String::new();
    }
    format!(
        "; {} held back, {} each on average, {} at most",
        count(outputs.number, "output"),
        duration(outputs.delay / u32::try_from(outputs.number).unwrap_or(u32::MAX)),
        duration(outputs.longest)
    )
}

fn kept_text(kept: &KeptFlight, status: EndStatus) -> String {
    let part = match kept.part {
        FlightPart::Whole => "all of it".to_owned(),
        FlightPart::Last => format!("the last {}", duration(kept.span)),
        FlightPart::FromNow => format!("{} from when it was asked for", duration(kept.span)),
    };
    format!(
        "kept {part} as {} ({})",
        kept.folder.display(),
        format::status(status)
    )
}

fn images(every: Option<Duration>, mode: RecordMode) -> LiveImages {
    let every = every.unwrap_or(EVERY);
    match mode {
        RecordMode::Serial => LiveImages {
            every,
            grows: None,
            most: MOST,
            set: ImageSet::Index,
            alone: supervisor::is_alone,
        },
        RecordMode::Sketch | RecordMode::Coherence | RecordMode::Uniparallel => LiveImages {
            every,
            grows: (mode == RecordMode::Uniparallel).then_some(EPOCH.min(every)),
            most: MOST,
            set: ImageSet::Epochs,
            alone: explore::has_epochs,
        },
    }
}

fn index_text(made: &LiveIndexed, mode: RecordMode) -> String {
    let left_out = match (made.left_out, mode) {
        (0, _) => "",
        (_, RecordMode::Serial) => {
            "; of processes that share memory with others, or map a file shared, there are none yet"
        }
        _ => {
            "; of several processes, and of one that shares memory or maps a file shared, there are none yet"
        }
    };
    format!(
        "indexed: {}, {}, no thread held up for longer than {}{left_out}",
        count(made.images as u64, "image"),
        size(made.bytes),
        duration(made.pause)
    )
}

/// A seed that is short to type.
pub fn random_seed() -> Seed {
    let mut bits = [0; 8];
    // A failure leaves fewer random bits, which is enough for a seed.
    let _ = rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty());
    Seed::short(u64::from_le_bytes(bits))
}
