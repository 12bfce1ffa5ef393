//! An echo over loopback at full load, by turns without and with recording: requests per second, and the
//! time in which 99 of 100 are answered.

use std::process::Command;
use std::time::{Duration, Instant};

use relive_rpc::tower::{Receive, Send as SendLayer};
use relive_rpc::{Session, fork};
use tonic::service::Routes;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};
use tower::Layer;

use crate::services::echo_client::EchoClient;
use crate::services::echo_server::{Echo, EchoServer};
use crate::{Amount, Result, Started, ended, serve};

/// Requests on their way at any time.
const AT_ONCE: u64 = 64;

/// How long one turn measures.
const TURN: Duration = Duration::from_secs(3);

/// How long it runs before.
const WARM: Duration = Duration::from_millis(500);

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

pub async fn server() -> Result<()> {
    let session = Session::from_env("server")?;
    let receive = Receive::new(session.entry_point("echo")?);
    serve(&session, receive, Routes::new(EchoServer::new(Same))).await
}

/// Prints requests per second and microseconds of the 99th percentile.
pub async fn client(server: String) -> Result<()> {
    let session = Session::from_env("client")?;
    let endpoint = Endpoint::new(format!("http://{server}"))?.tcp_nodelay(true);
    let channel = endpoint.connect_lazy();
    let begin = Instant::now() + WARM;
    let work = async {
        let caller = || {
            let mut client = EchoClient::new(SendLayer.layer(channel.clone()));
            tokio::spawn(fork(async move {
                let mut times = Vec::with_capacity(1 << 16);
                while begin.elapsed() < TURN {
                    let start = Instant::now();
                    client.echo(Amount { value: 7 }).await?;
                    if start >= begin {
                        times.push(start.elapsed().as_nanos() as u64);
                    }
                }
                Ok::<_, Status>(times)
            }))
        };
        let callers: Vec<_> = (0..AT_ONCE).map(|_| caller()).collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await??);
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(times)
    };
    let mut times = session.run("main", work).await??;
    times.sort_unstable();
    let each_second = times.len() as f64 / TURN.as_secs_f64();
    println!(
        "{each_second} {}",
        times[times.len() * 99 / 100] as f64 / 1000.0
    );
    ended(&session)
}

/// Requests per second, microseconds of the 99th percentile, and of both processes' running for a request.
type Figures = [f64; 3];

/// How long a process has run for, in hundredths of a second.
fn ran(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let behind = stat.rsplit_once(')').ok_or("no stat")?.1;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    Ok(fields[11].parse::<f64>()? + fields[12].parse::<f64>()?)
}

fn turn(folder: Option<&str>) -> Result<Figures> {
    // Both processes of a turn get the same mode.
    let mode = folder.map_or(String::new(), |folder| format!("record:{folder}"));
    let start = |words: &[&str]| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).env("RELIVE_RPC", &mode);
        Started::from(command)
    };
    let server = start(&["echo-server"])?;
    let client = start(&["echo-client", &server.address])?;
    let (rate, late) = client.address.split_once(' ').ok_or("the client failed")?;
    let (rate, late) = (rate.parse::<f64>()?, late.parse()?);
    // The client waits for its end, and the server for requests.
    let all = rate * (TURN + WARM).as_secs_f64();
    let ran = (ran(client.child.id())? + ran(server.child.id())?) * 10_000.0 / all;
    let result = [rate, late, ran];
    client.end()?;
    server.end()?;
    Ok(result)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The middle half of differences, in percent.
fn show(name: &str, unit: &str, off: &[f64], on: &[f64]) {
    let mut loss: Vec<f64> = off
        .iter()
        .zip(on)
        .map(|(off, on)| 100.0 * (on / off - 1.0))
        .collect();
    let (off, on) = (median(&mut off.to_vec()), median(&mut on.to_vec()));
    let middle = median(&mut loss);
    let quarter = |of: usize| loss[loss.len() * of / 4];
    println!(
        "{name}: {off:.1} {unit} off, {on:.1} recorded; {middle:+.1} % (middle half {:+.1} to {:+.1})",
        quarter(1),
        quarter(3)
    );
}

pub fn compare() -> Result<()> {
    let turns: usize = std::env::var("TURNS").map_or(Ok(15), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("relive-rpc-echo-{}", std::process::id()));
    let mut figures: [[Vec<f64>; 2]; 3] = Default::default();
    for at in 0..2 * turns {
        // Off first, then on first, so that what drifts counts for both.
        let recorded = (at % 4 == 1) || (at % 4 == 2);
        let turn = turn(recorded.then_some(folder.to_str().ok_or("no text")?))?;
        for (of, figure) in figures.iter_mut().zip(turn) {
            of[usize::from(recorded)].push(figure);
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
    let names = [
        ("throughput", "requests/s"),
        ("99th percentile", "µs"),
        ("time of both processes for a request", "µs"),
    ];
    for ((name, unit), [off, on]) in names.iter().zip(&figures) {
        show(name, unit, off, on);
    }
    Ok(())
}
