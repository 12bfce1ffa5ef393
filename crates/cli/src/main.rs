//! The `relive` command.
use std::ffi::OsString;
use std::path::Path;
use relive_engine::supervisor;

fn main() {
    if let Some(fd) = relive_engine::boot::requested() {
        relive_engine::boot::host_main(fd);
    }
    let args: Vec<OsString> = std::env::args_os().skip(1).filter(|a| a != "--").collect();
    let fail = |e: relive_engine::Failure| -> ! { eprintln!("relive: {e}"); std::process::exit(125) };
    match args[0].to_str() {
        Some("run") => { let Err(e) = supervisor::run(&args[1], &args[2..]); fail(e) }
        Some("record") => match supervisor::record(&supervisor::RecordOptions { program: &args[2], args: &args[3..], trace: Path::new(&args[1]), seed: None, timeout: None, silent: false }) {
            Ok(r) => r.status.mimic(),
            Err(e) => fail(e),
        },
        Some("replay") => match supervisor::replay(&supervisor::ReplayOptions { trace: Path::new(&args[1]), quiet: false }) {
            Ok(r) => r.status.mimic(),
            Err(e) => fail(e),
        },
        _ => {}
    }
}
