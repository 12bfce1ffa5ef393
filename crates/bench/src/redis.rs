//! One sample of redis-server: on loopback, on a free port, driven by redis-benchmark, which always
//! runs natively; only the server is measured.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use relive_tests::needs::find_tool;

use crate::measure::{Running, Spec};
use crate::modes::Way;
use crate::sample::{LIMIT, Sample};

/// Number of SET requests, and of GET requests.
const REQUESTS: u32 = 100_000;
const CLIENTS: &str = "20";

/// Runs the server in one way; a replay runs by itself.
///
/// # Errors
/// The server or its client failed.
pub fn sample(server: &Spec, way: Way, io_threads: u32, folder: &Path) -> Result<Sample> {
    let mut server = server.clone();
    if way == Way::Replay {
        return Ok(Sample {
            usage: server.start()?.finish(LIMIT)?,
            requests_per_second: None,
        });
    }
    let port = free_port()?;
    let words = format!(
        "--port {port} --bind 127.0.0.1 --appendonly no --daemonize no --protected-mode no \
         --io-threads {io_threads}"
    );
    server.argv.extend(words.split(' ').map(OsString::from));
    server.argv.extend(["--save", ""].map(OsString::from));
    let running = server.start()?;
    let driven = drive(&running, port, folder);
    if driven.is_err() {
        // It is asked to end, and killed by the limit if it does not; the first error counts.
        let _ = tell_end(port, folder);
        let _ = running.finish(Duration::from_secs(5));
        return driven.map(|_| unreachable!("an error"));
    }
    Ok(Sample {
        usage: running.finish(LIMIT)?,
        requests_per_second: Some(driven?),
    })
}

/// Drives the server with the load, and ends it. Returns requests per second.
fn drive(running: &Running, port: u16, folder: &Path) -> Result<f64> {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(address).is_err() {
        if running.has_ended() || Instant::now() > deadline {
            bail!("redis-server does not listen");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let requests = REQUESTS.to_string();
    let used = client(
        "redis-benchmark",
        port,
        folder,
        &["-q", "-t", "set,get", "-c", CLIENTS, "-n", &requests],
    )?;
    tell_end(port, folder)?;
    Ok(f64::from(2 * REQUESTS) / used)
}

fn tell_end(port: u16, folder: &Path) -> Result<()> {
    client("redis-cli", port, folder, &["shutdown", "nosave"]).map(drop)
}

/// Runs a client; returns the seconds that it took.
fn client(name: &str, port: u16, folder: &Path, words: &[&str]) -> Result<f64> {
    let program = find_tool(name).with_context(|| format!("{name} is not installed"))?;
    let mut argv = vec![program.into(), "-p".into(), port.to_string().into()];
    argv.extend(words.iter().map(OsString::from));
    let spec = Spec {
        argv,
        stdin: None,
        stdout: None,
        stderr: folder.join("client-errors"),
        folder: folder.to_owned(),
    };
    Ok(spec.start()?.finish(LIMIT)?.wall)
}

fn free_port() -> Result<u16> {
    // Free again when the listener is dropped; the server binds it a moment later.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
