//! `calls`: every call of a function, as it is found.
//!
//! A recording may hold more calls than memory: lines are written as soon as they are whole, and
//! only calls that have not returned are held.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus as Exit;
use relive_engine::timeline::{
    CallObserver, Callee, FunctionCall, Moment, Observed, Registers, ReplayProcess, Timeline,
    Uninterrupted, follow,
};
use relive_symbols::{Argument, Function, Named, Space, SymbolType};
use relive_trace::Bytes;
use serde_json::{Value, json};

use crate::args::{self, CallsArgs};
use crate::names::{self, ReplayedGuest};
use crate::output::{self, Stop};
use crate::{command_line, query, traces};

/// Limit on the lines that wait for an earlier call to return: beyond it lines are written as their
/// calls return.
const MOST_WAITING: usize = 1 << 16;
/// Limit on the callers without a name for which the program's maps are read again.
const MOST_UNKNOWN: usize = 256;
/// Functions that leave their callers behind.
const JUMPS: [&str; 4] = ["longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"];

/// Lists the calls of a function.
///
/// # Errors
/// Any failure of the replay.
pub fn execute(args: &CallsArgs) -> Result<Exit, Failure> {
    let trace = traces::open_to_replay(args.trace.as_deref()).map_err(|e| remedy(args, e))?;
    let way = follow(&trace, args.process)?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    timeline.search_with(traces::jobs(args.jobs))?;
    let wanted = Wanted::of(&mut timeline, &args.function)?;
    let observer = || CallReader {
        wanted: &wanted,
        folder: trace.directory(),
        space: None,
        program: None,
        fresh: true,
        function: None,
        unknown: HashSet::new(),
    };
    let mut list = List {
        json: args.json,
        waiting: BTreeMap::new(),
        broken: None,
    };
    output::print(|out| {
        let mut take = |n, moment| {
            list.note(n, moment);
            list.write(out, false)
        };
        let told = timeline.each_call(args.max, &observer, &mut Uninterrupted, &mut take);
        // Calls that have not returned by now never will.
        let rest = told.and_then(|()| list.write(out, true));
        match list.broken.take() {
            Some(error) => Err(Stop::Output(error)),
            None => rest.map_err(Stop::from),
        }
    })
}

/// The failure where there is no such trace: the function may have been named behind its trace.
fn remedy(args: &CallsArgs, error: Failure) -> Failure {
    let (args::Function::Name(first), Some(second)) = (&args.function, &args.trace) else {
        return error;
    };
    if traces::find(Some(Path::new(first))).is_err() {
        return error;
    }
    let words = ["relive", "calls"].map(|word| Bytes(word.into()));
    let [first, second] =
        [first.as_bytes(), second.as_os_str().as_bytes()].map(|w| Bytes(w.into()));
    let line = command_line::shown(&[&words[..], &[second, first]].concat(), usize::MAX);
    Failure::setup(format!("the function comes before the trace: {line}"))
}

/// The requested function.
enum Wanted {
    Address(u64),
    Name {
        name: String,
        /// Its address at the end of the process, as libraries are not mapped at the beginning,
        /// with the identity of that program.
        late: Option<(u64, (Vec<u8>, u64))>,
    },
}

impl Wanted {
    fn of(timeline: &mut Timeline, function: &args::Function) -> Result<Self, Failure> {
        let name = match function {
            args::Function::Address(at) => return Ok(Self::Address(*at)),
            args::Function::Name(name) => name.clone(),
        };
        let (program, _) = timeline.guest().program()?;
        if names::of_program(&names::space(timeline), &program, &name)?.is_some() {
            return Ok(Self::Name { name, late: None });
        }
        let found = names::find(timeline, &name)?;
        timeline.goto_end(&mut Uninterrupted)?;
        let program = timeline.guest().program()?;
        timeline.goto_start()?;
        Ok(Self::Name {
            name,
            late: Some((found.address, program)),
        })
    }
}

/// Reads of a process what the list says of its calls.
struct CallReader<'a> {
    wanted: &'a Wanted,
    folder: &'a Path,
    space: Option<Space>,
    /// The running program.
    program: Option<(Vec<u8>, u64)>,
    /// No call of this program has been seen yet.
    fresh: bool,
    function: Option<Function>,
    /// Callers without known names.
    unknown: HashSet<u64>,
}

/// What is read at a moment of a call.
enum CallMoment {
    Begins(Box<Line>),
    Returned {
        result: u64,
        results: Option<Vec<Argument>>,
    },
    Left,
}

/// One call.
struct Line {
    call: FunctionCall,
    caller: Named,
    arguments: Option<Vec<Argument>>,
    variadic: bool,
    results: Option<Vec<Argument>>,
    open: bool,
}

impl CallObserver for CallReader<'_> {
    type Told = CallMoment;

    fn find(&mut self, host: &mut ReplayProcess) -> Result<Callee, Failure> {
        let space = names::space_of(host, self.folder);
        let program = host.program()?;
        if self.program.as_ref() != Some(&program) {
            (self.program, self.fresh) = (Some(program.clone()), true);
        }
        let addr = match self.wanted {
            Wanted::Address(at) => Some(*at),
            Wanted::Name { name, late } => {
                match (names::of_program(&space, &program.0, name)?, late) {
                    (Some(found), _) => Some(found.address),
                    (None, Some((at, late))) if program == *late => Some(*at),
                    (None, _) => None,
                }
            }
        };
        let callee = callee(addr, &space);
        self.function = addr.and_then(|addr| space.function(addr));
        // In the midst of a program its libraries are there already.
        self.fresh &= self.function.is_none() || callee.jumps.is_empty();
        self.space = Some(space);
        Ok(callee)
    }

    fn observe(
        &mut self,
        moment: Moment<'_>,
        host: &mut ReplayProcess,
        registers: &Registers,
    ) -> Result<Observed<CallMoment>, Failure> {
        let from = names::passing(registers);
        let mut again = false;
        let told = match moment {
            Moment::Begins(call) => {
                again = self.look(call, host);
                let space = self.space.as_ref();
                let described = space.zip(self.function.as_ref());
                let arguments =
                    described.map(|(s, f)| f.arguments(s, &mut ReplayedGuest(host), &from));
                CallMoment::Begins(Box::new(Line {
                    call: *call,
                    caller: space
                        .map(|s| s.name(call.return_to.wrapping_sub(1)))
                        .unwrap_or_default(),
                    arguments,
                    variadic: self.function.as_ref().is_some_and(|f| f.variadic),
                    results: None,
                    open: true,
                }))
            }
            Moment::Returned => {
                let described = self.space.as_ref().zip(self.function.as_ref());
                CallMoment::Returned {
                    result: registers.gpr[0],
                    results: described.map(|(s, f)| f.results(s, &mut ReplayedGuest(host), &from)),
                }
            }
            Moment::Left => CallMoment::Left,
        };
        Ok(Observed { told, again })
    }
}

impl CallReader<'_> {
    /// Reads the program's modules again at the first call, and if something of a call is unknown,
    /// because libraries come and go. Returns whether it did.
    fn look(&mut self, call: &FunctionCall, host: &mut ReplayProcess) -> bool {
        let places = [call.place.pc, call.return_to];
        let space = self.space.as_ref();
        let known = |at: &u64| space.is_some_and(|s| s.name(*at).file_address.is_some());
        let new: Vec<u64> = places
            .into_iter()
            .filter(|at| !known(at) && !self.unknown.contains(at))
            .collect();
        let first = std::mem::take(&mut self.fresh);
        let again = first || !new.is_empty() && self.unknown.len() < MOST_UNKNOWN;
        if again {
            let space = names::space_of(host, self.folder);
            for at in new {
                if space.name(at).file_address.is_none() {
                    self.unknown.insert(at);
                }
            }
            self.function = space.function(call.place.pc);
            self.space = Some(space);
        }
        again
    }
}

/// The part of the list that is not written yet.
struct List {
    json: bool,
    waiting: BTreeMap<u64, Line>,
    /// Standard output has failed.
    broken: Option<io::Error>,
}

impl List {
    fn note(&mut self, n: u64, moment: CallMoment) {
        let line = self.waiting.get_mut(&n);
        match (moment, line) {
            (CallMoment::Begins(line), _) => {
                self.waiting.insert(n, *line);
            }
            (CallMoment::Returned { result, results }, Some(line)) => {
                line.call.result = Some(result);
                line.results = results;
                line.open = false;
            }
            (CallMoment::Left, Some(line)) => line.open = false,
            (_, None) => {}
        }
    }

    /// Writes whole lines, in the order of calls; at the end all lines.
    fn write(&mut self, out: &mut dyn Write, end: bool) -> Result<(), Failure> {
        loop {
            let full = self.waiting.len() > MOST_WAITING;
            let mut all = self.waiting.iter();
            let whole = match (end, full) {
                (true, _) => all.next(),
                (false, true) => all.find(|(_, line)| !line.open),
                (false, false) => all.next().filter(|(_, line)| !line.open),
            };
            let Some(n) = whole.map(|(n, _)| *n) else {
                return Ok(());
            };
            let Some(line) = self.waiting.remove(&n) else {
                return Ok(());
            };
            let text = match self.json {
                true => line.object().to_string(),
                false => line.text(),
            };
            if let Err(error) = writeln!(out, "{text}") {
                let failure = Failure::setup(&error);
                self.broken = Some(error);
                return Err(failure);
            }
        }
    }
}

fn callee(addr: Option<u64>, space: &Space) -> Callee {
    let jumps = JUMPS
        .iter()
        .flat_map(|name| space.find(name, SymbolType::Function));
    Callee {
        addr,
        jumps: jumps.map(|found| found.address).collect(),
    }
}

impl Line {
    fn text(&self) -> String {
        let shown = |a: &Argument| {
            let value = a.value.as_deref().unwrap_or("?");
            match &a.name {
                Some(name) => format!("{name}={value}"),
                None => value.to_owned(),
            }
        };
        let arguments: Vec<String> = match &self.arguments {
            Some(all) => {
                let more = self.variadic.then(|| "…".to_owned());
                all.iter().map(shown).chain(more).collect()
            }
            None => {
                let all = self.call.arguments.iter();
                all.map(|a| format!("{a:#x}")).collect()
            }
        };
        let result = match (self.call.result, &self.results) {
            (None, _) => "no return".to_owned(),
            (Some(value), None) => format!("{value:#x}"),
            (Some(_), Some(all)) => match &all[..] {
                [] => "nothing".to_owned(),
                [one] => shown(one),
                several => {
                    let several: Vec<String> = several.iter().map(shown).collect();
                    format!("({})", several.join(", "))
                }
            },
        };
        format!(
            "{}: ({}) = {result}, called by {}",
            query::place_text(&self.call.place),
            arguments.join(", "),
            names::text(&self.caller)
        )
    }

    fn object(&self) -> Value {
        let list = |all: &Option<Vec<Argument>>| {
            all.as_ref().map(|all| {
                let one = |a: &Argument| json!({ "name": a.name, "type": a.of, "value": a.value });
                all.iter().map(one).collect::<Vec<Value>>()
            })
        };
        json!({
            "place": query::place_object(&self.call.place),
            "arguments": self.call.arguments,
            "parameters": list(&self.arguments),
            "return_to": self.call.return_to,
            "caller": names::object(&self.caller),
            "result": self.call.result,
            "results": list(&self.results),
        })
    }
}
