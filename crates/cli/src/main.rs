//! The `relive` command.
fn main() { println!("relive"); }
