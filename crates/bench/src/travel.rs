//! The waiting time for going back in a recording of about ten seconds: wall time, from the order
//! to the answer, of a timeline at the end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use relive_tests::needs::{SEARCH_PATH, find_tool};
use serde::Serialize;

use crate::inputs::{Input, Inputs};
use crate::measure::Spec;
use crate::sample::LIMIT;
use crate::samples::Bench;

/// One recording to go back in.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// Short name, unique also among the workloads.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    program: &'static str,
    words: &'static [&'static str],
    script: &'static str,
    /// The script is standard input; else the last argument.
    stdin: bool,
    watched: Watched,
    /// A function of the program, and how often it is called, about.
    called: Option<(&'static str, u32)>,
}

/// The place of eight bytes that are written for the last time half-way.
#[derive(Clone, Copy, Debug)]
enum Watched {
    /// The program prints their address.
    Printed,
    /// The second read of standard input puts the rest of the script there: the marking line is
    /// padded until the first read takes all before it.
    SecondRead,
}

/// The line of a script behind which the rest is read half-way.
const HALF_WAY: &str = "-- half-way\n";
/// Bytes that a program reads from standard input at once.
const READ: usize = 4096;

/// All of them.
pub const TRIPS: &[Trip] = &[
    Trip {
        name: "travel-python",
        what: "python3: a loop of about 10 s, with one write to an array half-way",
        program: "python3",
        words: &["-I"],
        script: "travel.py",
        stdin: false,
        watched: Watched::Printed,
        called: Some(("PyUnicode_Format", 1_500_000)),
    },
    Trip {
        name: "travel-sqlite",
        what: "sqlite3: about 10 s over 2 500 000 rows in memory",
        program: "sqlite3",
        words: &[":memory:"],
        script: "travel.sql",
        stdin: true,
        watched: Watched::SecondRead,
        called: None,
    },
];

/// Number of steps back after the first one.
const STEPS: usize = 30;
/// The project's own bars: seconds until the first step back is done, and for each later one; time
/// of the other two over that of the recording.
const BARS: (f64, f64, f64) = (2.0, 0.2, 2.0);

/// The measurements, in seconds of wall time.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// The recording.
    pub record: f64,
    /// From the start to the end of the timeline.
    pub to_end: f64,
    /// The first step back, from the end.
    pub first: f64,
    /// Each later one.
    pub later: Vec<f64>,
    /// Back to the watched write, from the end.
    pub reverse_continue: f64,
    /// The whole command `relive last-write`, the way to the end included.
    pub last_write: f64,
    /// From the start to the end, with the watchpoint that `reverse_continue` has.
    pub watched: f64,
    /// The cost of each pass of a breakpoint with a condition that does not hold.
    pub condition: Option<f64>,
}

/// A trip and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The trip's name.
    pub name: &'static str,
    /// The times, or the missing program or the failure.
    pub times: Result<Times, String>,
}

/// Makes one trip.
pub fn measure(trip: &Trip, inputs: &Inputs, bench: &Bench) -> Row {
    Row {
        name: trip.name,
        times: times(trip, inputs, bench).map_err(|e| format!("{e:#}")),
    }
}

fn times(trip: &Trip, inputs: &Inputs, bench: &Bench) -> Result<Times> {
    let program =
        find_tool(trip.program).with_context(|| format!("{} is not installed", trip.program))?;
    inputs.make(Input::Script(trip.script))?;
    if bench.scratch.exists() {
        fs::remove_dir_all(&bench.scratch)?;
    }
    fs::create_dir_all(&bench.scratch)?;
    let trace = bench.scratch.join("trace");
    let mut script = inputs.path(trip.script);
    if matches!(trip.watched, Watched::SecondRead) {
        let text = padded(&fs::read_to_string(&script)?)?;
        script = bench.scratch.join(trip.script);
        fs::write(&script, text)?;
    }
    let mut argv: Vec<std::ffi::OsString> = vec![bench.relive.clone().into()];
    argv.extend(["record", "-o"].map(Into::into));
    argv.extend([trace.clone().into(), "--".into(), program.into()]);
    argv.extend(trip.words.iter().map(Into::into));
    argv.extend((!trip.stdin).then(|| script.clone().into()));
    let output = bench.scratch.join("output");
    let spec = Spec {
        argv,
        stdin: trip.stdin.then_some(script),
        stdout: Some(output.clone()),
        stderr: bench.scratch.join("errors"),
        folder: bench.scratch.clone(),
    };
    let record = spec.start()?.finish(LIMIT)?.wall;
    let mut traveller = Traveller::start(&bench.relive, &trace, &bench.scratch)?;
    let to_end = traveller.order("end")?.0;
    let first = traveller.order("back")?.0;
    let later: Result<Vec<f64>> = (0..STEPS)
        .map(|_| traveller.order("back").map(|(seconds, _)| seconds))
        .collect();
    let later = later?;
    drop(traveller);
    let address = match trip.watched {
        Watched::Printed => {
            let text = fs::read_to_string(&output)?;
            text.lines().next().unwrap_or("").trim().parse()?
        }
        Watched::SecondRead => second_read(bench, &trace)?,
    };
    let reverse_continue = {
        let mut traveller = Traveller::start(&bench.relive, &trace, &bench.scratch)?;
        traveller.order("end")?;
        traveller.order(&format!("watch {address} 8"))?;
        let (seconds, answer) = traveller.order("reverse")?;
        ensure!(
            answer.contains("Watchpoint"),
            "no write was found: {answer}"
        );
        seconds
    };
    let last_write = {
        let spec = Spec {
            argv: [
                bench.relive.as_os_str(),
                "last-write".as_ref(),
                trace.as_os_str(),
                "--addr".as_ref(),
                address.to_string().as_ref(),
            ]
            .map(Into::into)
            .to_vec(),
            stdin: None,
            stdout: None,
            ..spec
        };
        spec.start()?.finish(LIMIT)?.wall
    };
    let watched = {
        let mut traveller = Traveller::start(&bench.relive, &trace, &bench.scratch)?;
        traveller.order(&format!("watch {address} 8"))?;
        traveller.through()?
    };
    let condition = match trip.called {
        None => None,
        Some((function, calls)) => {
            let address = first_call(bench, &trace, function)?;
            let mut traveller = Traveller::start(&bench.relive, &trace, &bench.scratch)?;
            traveller.order(&format!("break {address} never"))?;
            Some((traveller.through()? - to_end) / f64::from(calls))
        }
    };
    fs::remove_dir_all(&bench.scratch)?;
    Ok(Times {
        record,
        to_end,
        first,
        later,
        reverse_continue,
        last_write,
        watched,
        condition,
    })
}

/// A script padded so that the part behind the marking line is read by itself.
fn padded(script: &str) -> Result<String> {
    let (first, rest) = script
        .split_once(HALF_WAY)
        .context("the script says where half-way is")?;
    let room = READ.checked_sub(first.len() + HALF_WAY.len());
    let room = room.context("what comes before half-way is short")?;
    let line = HALF_WAY.trim_end();
    Ok(format!("{first}{line}{}\n{rest}", " ".repeat(room)))
}

/// The address where the second read of standard input in a recording put its bytes.
fn second_read(bench: &Bench, trace: &Path) -> Result<u64> {
    let output = Command::new(&bench.relive)
        .args(["dump", "--json", "--process", "0", "--thread", "0"])
        .arg(trace)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let reads = text.lines().filter_map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_input = event["name"] == "read" && event["args"][0] == "0x0";
        let address = event["args"][1].as_str()?.strip_prefix("0x")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        (is_input && event["result"].as_i64() >= Some(8)).then_some(address)
    });
    let all: Vec<u64> = reads.collect();
    ensure!(all.len() == 2, "it reads its script {} times", all.len());
    Ok(all[1])
}

/// The address of a function, from its first recorded call.
fn first_call(bench: &Bench, trace: &Path, function: &str) -> Result<u64> {
    let output = Command::new(&bench.relive)
        .args(["calls", "--json", "--max", "1", function])
        .arg(trace)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().next();
    let line = line.with_context(|| format!("{function} is not called"))?;
    let call: serde_json::Value = serde_json::from_str(line)?;
    let address = call["place"]["pc"].as_u64();
    address.context("a call has an address")
}

/// A timeline that takes orders: the hidden `relive travel`.
struct Traveller {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Traveller {
    fn start(relive: &PathBuf, trace: &Path, folder: &Path) -> Result<Self> {
        let mut child = Command::new(relive)
            .arg("travel")
            .arg(trace)
            .env_clear()
            .envs([("PATH", SEARCH_PATH), ("LC_ALL", "C")])
            .env("HOME", folder)
            .env("RELIVE_CACHE_DIR", folder.with_file_name("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().context("its output is a pipe")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers),
        })
    }

    /// Seconds until the answer, and the answer.
    fn order(&mut self, text: &str) -> Result<(f64, String)> {
        let started = Instant::now();
        let orders = self.orders.as_mut().context("it takes orders")?;
        writeln!(orders, "{text}")?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            bail!("relive travel has ended instead of '{text}'");
        }
        Ok((started.elapsed().as_secs_f64(), answer))
    }

    /// Goes forward to the end, through all stops; the seconds until it is there.
    fn through(&mut self) -> Result<f64> {
        let mut all = 0.0;
        loop {
            let (seconds, answer) = self.order("continue")?;
            all += seconds;
            if answer.starts_with("Ended") {
                return Ok(all);
            }
        }
    }
}

impl Drop for Traveller {
    fn drop(&mut self) {
        // The timeline ends when its orders end.
        self.orders = None;
        let _ = self.child.wait();
    }
}

/// The rows as cells; the first one is the head.
pub fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let head = [
        "recording",
        "recorded, s",
        "to its end, s",
        "first step back, s",
        "later ones, ms",
        "reverse-continue over recording",
        "last-write over recording",
        "forward with a watchpoint, over without",
        "a condition that does not hold, µs",
    ];
    let mut all = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let mut cells = vec![row.name.to_owned()];
        match &row.times {
            Err(why) => {
                cells.extend([
                    "failed:".to_owned(),
                    why.lines().collect::<Vec<_>>().join(" "),
                ]);
                cells.extend(std::iter::repeat_n(String::new(), 6));
            }
            Ok(t) => {
                let mut later = t.later.clone();
                later.sort_by(f64::total_cmp);
                let (median, most) = (later[later.len() / 2], later[later.len() - 1]);
                let ratio = |seconds: f64| {
                    let ratio = seconds / t.record;
                    format!("{ratio:.2}{}", word(ratio, BARS.2))
                };
                cells.extend([
                    format!("{:.1}", t.record),
                    format!("{:.1}", t.to_end),
                    format!("{:.2}{}", t.first, word(t.first, BARS.0)),
                    format!(
                        "{:.0} (most {:.0}){}",
                        median * 1e3,
                        most * 1e3,
                        word(most, BARS.1)
                    ),
                    ratio(t.reverse_continue),
                    ratio(t.last_write),
                    format!("{:.2}", t.watched / t.to_end),
                    t.condition
                        .map_or("–".to_owned(), |s| format!("{:.1}", s * 1e6)),
                ]);
            }
        }
        all.push(cells);
    }
    all
}

fn word(value: f64, bar: f64) -> &'static str {
    if value <= bar { ", met" } else { ", missed" }
}
