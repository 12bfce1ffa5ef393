//! `relive record`.

use std::io::IsTerminal;

use relive_engine::Failure;
use relive_engine::supervisor::{self, RecordOptions, Recording, Status};
use relive_sched::Seed;

use crate::args::RecordArgs;
use crate::place::Place;

/// Records a program; ends as it ended.
///
/// # Errors
/// Whatever stops Relive.
pub fn execute(args: &RecordArgs) -> Result<Status, Failure> {
    let guest = &args.guest;
    supervisor::find_program(guest.program(), guest.args())?;
    let place = Place::new(args.output.as_deref(), guest.program())?;
    let chaos = args.chaos.map(|seed| seed.unwrap_or_else(random_seed));
    if let Some(seed) = chaos {
        eprintln!("relive: chaos seed {seed}");
    }
    let options = RecordOptions {
        program: guest.program(),
        args: guest.args(),
        trace: &place.path,
        seed: chaos.map(|seed| (seed.0, true)),
        timeout: None,
        silent: false,
    };
    match supervisor::record(&options) {
        Ok(recording) => {
            report(&place, &recording);
            Ok(recording.status)
        }
        Err(failure) => {
            place.withdraw();
            Err(failure)
        }
    }
}

/// A seed that is short to type.
pub fn random_seed() -> Seed {
    let mut bits = [0; 8];
    // A failure leaves fewer random bits, which a seed can bear.
    let _ = rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty());
    Seed::short(u64::from_le_bytes(bits))
}

/// One line for a person; scripts and pipes see nothing but the program.
fn report(place: &Place, _recording: &Recording) {
    if std::io::stderr().is_terminal() {
        let name = if place.is_latest() {
            String::new()
        } else {
            format!(" {}", place.name())
        };
        eprintln!(
            "relive: recorded {}; next: relive replay{name}",
            place.name()
        );
    }
}
