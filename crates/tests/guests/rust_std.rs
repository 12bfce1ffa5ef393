// relive: link=pie,nopie output=free expect="child says hi"
//! The Rust standard library's side of the system: files, commands, time, hashing with random
//! keys, sorting, formatting, sockets.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

fn main() {
    if env::args().nth(1).as_deref() == Some("child") {
        println!("child says hi");
        std::process::exit(5);
    }
    let status = Command::new(env::current_exe().unwrap()).arg("child").status().unwrap();
    assert_eq!(status.code(), Some(5));
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    cat.stdin.take().unwrap().write_all(b"through cat").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"through cat");
    assert!(Command::new("/no/such/program").spawn().is_err());

    fs::create_dir("tree").unwrap();
    for i in 0..20 {
        fs::write(format!("tree/{i}"), vec![b'x'; i * 100]).unwrap();
    }
    let size: u64 = fs::read_dir("tree").unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(size, 19_000);
    fs::rename("tree/7", "seven").unwrap();
    assert_eq!(fs::read_to_string("seven").unwrap().len(), 700);
    fs::remove_dir_all("tree").unwrap();

    // Random keys decide the order; a replay must print the same one.
    let map: HashMap<u32, u32> = (0..12).map(|i| (i, i * i)).collect();
    println!("{:?}", map.keys().collect::<Vec<_>>());
    let sorted: BTreeMap<_, _> = map.into_iter().collect();
    assert_eq!(sorted.values().sum::<u32>(), 506);
    let start = Instant::now();
    println!("{:?}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    assert!(start.elapsed().as_nanos() < u128::MAX && Instant::now() >= start);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        (&stream).write_all(line.to_uppercase().as_bytes()).unwrap();
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"hello\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    server.join().unwrap();
    assert_eq!(answer, "HELLO");
    println!("ok");
}
