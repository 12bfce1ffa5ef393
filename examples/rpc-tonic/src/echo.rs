//! What recording costs: an echo over loopback at full load, by turns with a layer that is not there, one
//! that is off, and one that records. **Differences between turns of one run only mean something**; the
//! turns are short, next to each other and in changing order, so that what else the machine does counts
//! for all alike.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue};
use relive_rpc::tower::{Receive, Send as SendLayer};
use relive_rpc::{Keep, Session, fork};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::Layer;

use crate::services::echo_client::EchoClient;
use crate::services::echo_server::{Echo, EchoServer};
use crate::{Amount, Result, Started, until_input_ends};

/// Requests on their way at any time.
const AT_ONCE: usize = 64;

/// How long a turn measures.
const TURN: Duration = Duration::from_millis(400);

/// How long it runs before.
const WARM: Duration = Duration::from_millis(100);

struct Same;

#[tonic::async_trait]
impl Echo for Same {
    async fn echo(
        &self,
        request: Request<Amount>,
    ) -> std::result::Result<Response<Amount>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

/// What is around server and client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Without,
    Off,
    /// A second time, to see what is chance.
    Again,
    Recorded,
    /// Nothing but a header in each request, of as many characters, that nobody reads.
    Header,
}

const MODES: [Mode; 5] = [
    Mode::Without,
    Mode::Off,
    Mode::Again,
    Mode::Recorded,
    Mode::Header,
];

/// Gives each request a header that no other one has.
#[derive(Clone)]
struct Numbered(Channel);

impl tower::Service<http::Request<Body>> for Numbered {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = <Channel as tower::Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        tower::Service::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        const NAME: HeaderName = HeaderName::from_static("relive");
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut line = *b"3CvjeAdvUoBfofvjeAdvUAAA";
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        for (place, byte) in line.iter_mut().rev().take(8).enumerate() {
            *byte = b'a' + (number >> (4 * place)) as u8 % 16;
        }
        if let Ok(mut value) = HeaderValue::from_bytes(&line) {
            value.set_sensitive(true);
            request.headers_mut().insert(NAME, value);
        }
        tower::Service::call(&mut self.0, request)
    }
}

impl Mode {
    fn session(self, process: &str, folder: &Path) -> Result<Session> {
        Ok(match self {
            Mode::Recorded => Session::record(folder, process, Keep::Order)?,
            _ => Session::off(process)?,
        })
    }
}

/// Serves at an address for each mode.
pub async fn server(folder: String) -> Result<()> {
    let mut ends = Vec::new();
    let mut line = Vec::new();
    for mode in MODES {
        let session = mode.session("server", Path::new(&folder))?;
        let receive = Receive::new(session.entry_point("echo")?);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        line.push(listener.local_addr()?.to_string());
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let routes = Routes::new(EchoServer::new(Same));
        tokio::spawn(async move {
            match mode {
                Mode::Without | Mode::Header => {
                    let server = Server::builder().add_routes(routes);
                    server.serve_with_incoming(incoming).await
                }
                _ => {
                    let server = Server::builder().layer(receive).add_routes(routes);
                    server.serve_with_incoming(incoming).await
                }
            }
        });
        ends.push(session);
    }
    println!("{}", line.join(" "));
    until_input_ends().await;
    Ok(ends.iter().try_for_each(Session::finish)?)
}

/// Requests per second, microseconds of the 99th percentile, and of both processes' running for a request.
type Figures = [f64; 3];

/// Nanoseconds that the threads of a process have run for.
fn ran(process: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // One that has just ended, of those that wait for blocking work, has no time to speak of.
        let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let first = text.split_whitespace().next().ok_or("no time")?;
        sum += first.parse::<u64>()?;
    }
    Ok(sum)
}

struct Load {
    server: Started,
    channels: Vec<Channel>,
    folder: PathBuf,
    /// A turn ends after so many requests of each caller, to count its instructions; else after its time.
    each: Option<usize>,
}

impl Load {
    async fn turn(&self, mode: Mode) -> Result<Figures> {
        let at = MODES.iter().position(|other| *other == mode);
        let channel = self.channels[at.unwrap_or_default()].clone();
        let both =
            || Ok::<_, crate::Failure>(ran(std::process::id())? + ran(self.server.child.id())?);
        // For this turn only: while a session of a process records, nothing in it may go on without a task.
        let folder = self.folder.join("client");
        let session = mode.session("client", &folder)?;
        let ran = both()?;
        let times = match mode {
            Mode::Without => callers(|| EchoClient::new(channel.clone()), self.each).await?,
            Mode::Header => {
                let client = || EchoClient::new(Numbered(channel.clone()));
                callers(client, self.each).await?
            }
            _ => {
                let client = || EchoClient::new(SendLayer.layer(channel.clone()));
                session.run("main", callers(client, self.each)).await??
            }
        };
        let ran = both()? - ran;
        session.finish()?;
        if mode == Mode::Recorded {
            std::fs::remove_dir_all(&folder)?;
        }
        let all = times.len() as f64;
        let mut times: Vec<u64> = times.into_iter().flatten().collect();
        times.sort_unstable();
        let late = match (times.get(times.len() * 99 / 100), self.each) {
            (Some(late), _) => late,
            (None, Some(_)) => &0,
            (None, None) => return Err("nothing was answered".into()),
        };
        Ok([
            times.len() as f64 / TURN.as_secs_f64(),
            *late as f64 / 1000.0,
            ran as f64 / 1000.0 / all,
        ])
    }
}

/// Sends for a turn; the time of each request, `None` before and after the measured part.
async fn callers<S>(
    client: impl Fn() -> EchoClient<S>,
    each: Option<usize>,
) -> Result<Vec<Option<u64>>>
where
    S: GrpcService<Body> + Send + 'static,
    S::Future: Send,
    S::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<crate::Failure> + Send,
    S::Error: Into<crate::Failure>,
{
    let begin = Instant::now() + WARM;
    let end = begin + TURN;
    let callers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let mut client = client();
            tokio::spawn(fork(async move {
                let mut times = Vec::with_capacity(1 << 12);
                let mut start = Instant::now();
                while each.map_or(start < end, |each| times.len() < each) {
                    client.echo(Amount { value: 7 }).await?;
                    let answered = Instant::now();
                    let counts = start >= begin && answered < end;
                    times.push(counts.then(|| (answered - start).as_nanos() as u64));
                    start = answered;
                }
                Ok::<_, Status>(times)
            }))
        })
        .collect();
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await??);
    }
    Ok(times)
}

/// The middle of sorted values, and bounds between which it lies with 95 %.
fn middle(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    // Of the binomial distribution with half a chance.
    let off = (0.98 * (count as f64).sqrt()).ceil() as usize;
    let at = |place: usize| values[place.min(count - 1)];
    [
        at(count / 2),
        at((count / 2).saturating_sub(off)),
        at(count / 2 + off),
    ]
}

fn show(name: &str, rounds: &[[Figures; MODES.len()]]) {
    let of = |mode: Mode| {
        MODES
            .iter()
            .position(|other| *other == mode)
            .unwrap_or_default()
    };
    println!("{name}, {} rounds:", rounds.len());
    for (at, figure) in [
        "requests/s",
        "99th percentile, µs",
        "time of both for a request, µs",
    ]
    .iter()
    .enumerate()
    {
        print!("  {figure:32}");
        for mode in MODES {
            let values = rounds.iter().map(|round| round[of(mode)][at]).collect();
            print!(" {:9.1}", middle(values)[0]);
        }
        println!();
        for (what, mode, before) in [
            ("chance: off, and off again", Mode::Again, Mode::Off),
            ("off, to without", Mode::Off, Mode::Without),
            ("recorded, to off", Mode::Recorded, Mode::Off),
            ("recorded, to without", Mode::Recorded, Mode::Without),
            ("a header alone, to without", Mode::Header, Mode::Without),
        ] {
            let ratio = |round: &[Figures; MODES.len()]| {
                100.0 * (round[of(mode)][at] / round[of(before)][at] - 1.0)
            };
            let [ratio, low, high] = middle(rounds.iter().map(ratio).collect());
            println!("    {what:30} {ratio:+6.2} % ({low:+.2} to {high:+.2})");
        }
    }
}

/// Prints medians without a layer, off, off again and recorded, and differences within rounds with their
/// 95 %. For a profile: `MODE=3` takes turns of one kind only, `UNDER="valgrind …"` starts the server, and
/// with `EACH=100` a turn has so many requests of each of the callers, however long they take.
pub async fn compare() -> Result<()> {
    let rounds: usize = std::env::var("ROUNDS").map_or(Ok(60), |text| text.parse())?;
    let number = |name| {
        let text = std::env::var(name).ok();
        text.map(|text| text.parse::<usize>()).transpose()
    };
    let (only, each) = (number("MODE")?, number("EACH")?);
    let folder = std::env::temp_dir().join(format!("relive-rpc-echo-{}", std::process::id()));
    let mut command = match std::env::var("UNDER") {
        Ok(words) => {
            let mut words = words.split(' ');
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words).arg(std::env::current_exe()?);
            command
        }
        Err(_) => Command::new(std::env::current_exe()?),
    };
    command.arg("echo-server").arg(&folder);
    let server = Started::from(command)?;
    let connect = |address: &str| {
        let endpoint = Endpoint::new(format!("http://{address}"))?.tcp_nodelay(true);
        Ok::<_, crate::Failure>(endpoint.connect_lazy())
    };
    let channels = server
        .address
        .split(' ')
        .map(connect)
        .collect::<Result<_>>()?;
    let load = Load {
        server,
        channels,
        folder,
        each,
    };
    let mut figures = Vec::new();
    for round in 0..rounds {
        let mut of = [[0.0; 3]; MODES.len()];
        for step in 0..MODES.len() {
            // Each mode comes at each place, and before and after each other one.
            let at = match round % 2 {
                0 => (round / 2 + step) % MODES.len(),
                _ => (round / 2 + MODES.len() - step) % MODES.len(),
            };
            let at = only.unwrap_or(at);
            of[at] = load.turn(MODES[at]).await?;
        }
        figures.push(of);
    }
    if only.is_none() {
        show(
            "without, off, off again, recorded, a header alone",
            &figures,
        );
    }
    load.server.end()?;
    std::fs::remove_dir_all(&load.folder)?;
    Ok(())
}
