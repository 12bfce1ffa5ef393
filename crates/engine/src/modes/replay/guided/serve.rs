//! The orders of a guided replay: each is taken from the socket, carried out and answered. Must never end
//! the process for an order that fails: the failure is the answer.

use std::os::fd::{FromRawFd, OwnedFd};

use super::channel::Channel;
use super::drive::Driver;
use super::track::Track;
use super::{look, shared};
use crate::encoding;
use crate::failure::{Failure, Result};
use crate::guide::protocol::{Request, Response};
use crate::guide::start_variable::Guide;
use crate::machine::Machine;
use crate::modes::replay::checksum;
use crate::modes::replay::hook_state;
use crate::modes::replay::races::tracking;
use crate::modes::replay::stepper::process::Stepper;

/// Carries out orders, until the socket closes; any failure is an answer. `begun`: the replay, and the way
/// that it has gone.
pub fn serve(begun: Result<(Stepper, Track)>, guide: &Guide) {
    // No process waits for copies: the kernel reaps them by itself.
    relive_host::signal::set_disposition_with(
        libc::SIGCHLD,
        relive_host::signal::Disposition::Default,
        libc::SA_NOCLDWAIT as u64,
    );
    // SAFETY: the starter has left it open for this process, and nothing else here has the number.
    let mut channel = Channel::new(unsafe { OwnedFd::from_raw_fd(guide.fd) });
    let (stepper, track) = match begun {
        Ok(begun) => begun,
        // The answer to the first order says why there is no replay.
        Err(failure) => {
            if channel.receive().is_some() {
                // A client that is gone by now needs no answer.
                let _ = channel.send(&Response::Failed(failure), &[]);
            }
            return;
        }
    };
    let mut driver = Driver::new(stepper, track, guide.goal());
    loop {
        let Some((request, bytes)) = channel.receive() else {
            return;
        };
        let (reply, bytes) = match request {
            Request::Fork => (fork(driver.machine(), &mut channel), Vec::new()),
            request => answer(&mut driver, &mut channel, request, &bytes)
                .unwrap_or_else(|e| (Response::Failed(e), Vec::new())),
        };
        if channel.send(&reply, &bytes).is_err() {
            return;
        }
    }
}

/// Makes a copy that listens on the socket that came with the order. The answer, of which there is one
/// from each of the two: until the copy has given its own, this process must not go on, as the copy reads
/// memory that the two share.
fn fork(machine: &Machine, channel: &mut Channel) -> Response {
    let Some(socket) = channel.take_descriptor() else {
        return Response::Failed(Failure::internal("an order to fork comes with a socket"));
    };
    machine.memory().translator.about_to_fork();
    // SAFETY: a replay has one thread, which holds no lock here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        *channel = Channel::new(socket);
        checksum::is_forked();
        return match shared::separate() {
            Ok(()) => Response::Done,
            Err(failure) => Response::Failed(failure),
        };
    }
    let refused = std::io::Error::last_os_error();
    match pid {
        0.. => Response::Forked(pid),
        _ => Response::Failed(Failure::setup(format!("cannot fork the replay: {refused}"))),
    }
}

type ServedAnswer = Result<(Response, Vec<u8>)>;

fn answer(
    driver: &mut Driver,
    channel: &mut Channel,
    request: Request,
    bytes: &[u8],
) -> ServedAnswer {
    let reply = match request {
        Request::Fork => return Err(Failure::internal("a fork is no question")),
        Request::Begin => Response::Status(driver.begin()?),
        Request::Stops(stops) => {
            driver.set_stops(stops)?;
            Response::Done
        }
        Request::Output => {
            hook_state::with(|s| s.quiet = false);
            Response::Done
        }
        Request::Run(run) => {
            let (ran, output) = driver.run(&run, &mut || channel.is_wanted())?;
            return Ok((Response::Ran(Box::new(ran)), output.0));
        }
        Request::Program => {
            let (path, rsp) = driver.program();
            let bytes = [&rsp.to_le_bytes()[..], path].concat();
            return Ok((Response::Done, bytes));
        }
        Request::SigInfo => match driver.siginfo()? {
            Some(info) => return Ok((Response::Done, info)),
            None => Response::Absent,
        },
        Request::Status => Response::Status(driver.status()),
        Request::Past(slot) => Response::Past(driver.past(slot)),
        Request::Threads => Response::Threads(driver.threads()),
        Request::DeadFlags => Response::DeadFlags(driver.dead_flags()),
        Request::Registers(slot) => match driver.registers(slot) {
            Some(r) => return Ok((Response::Done, r.to_bytes())),
            None => Response::Absent,
        },
        Request::SetRegisters(slot) => look::done(driver.set_registers(slot, bytes)),
        Request::Read(addr, len) => return Ok(look::read(driver.machine(), addr, len)),
        Request::Write(addr) => look::done(look::write(driver.machine(), addr, bytes)?),
        Request::Maps => Response::Maps(look::maps(driver.machine())),
        Request::Checksum => Response::Checksum(driver.checksum()?),
        Request::Compared => Response::Compared(hook_state::compared(driver.machine())),
        Request::LookForRaces(hints) => {
            tracking::begin(hints)?;
            Response::Done
        }
        Request::Trial(order) => Response::Trial(Box::new(driver.trial(order)?)),
        Request::LookForOrders => {
            tracking::begin_orders()?;
            Response::Done
        }
        Request::Races => Response::Races(driver.races()?),
        Request::Image => match driver.image()? {
            Some((state, pages)) => {
                return Ok((Response::Pages(pages), encoding::to_bytes(&state)));
            }
            None => Response::Absent,
        },
        Request::Content(start, end) => {
            return Ok((Response::Done, look::content(driver.machine(), start, end)?));
        }
        Request::InferiorCall { slot, step } => {
            let (why, output) = driver.inferior_call(slot, step, &mut || channel.is_wanted())?;
            return Ok((Response::Ran(Box::new(why)), output));
        }
    };
    Ok((reply, Vec::new()))
}
