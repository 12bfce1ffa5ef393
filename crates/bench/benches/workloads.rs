//! `cargo bench -p relive-bench`: see the library's documentation.

fn main() -> std::process::ExitCode {
    relive_bench::main(env!("CARGO_TARGET_TMPDIR").as_ref())
}
