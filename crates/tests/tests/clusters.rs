//! A hunt as a job array of Slurm, on a cluster of this machine alone that the test starts and ends. It
//! listens on loopback only, and needs Debian's `slurm-wlm` and `munge`.

use relive_tests::needs::{Missing, find_tool, is_ci, missing_tool};
use relive_tests::{command, crate_dir};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Until all daemons answer.
const START: Duration = Duration::from_secs(30);
/// The tasks of the job.
const TASKS: u64 = 3;

/// The daemons, in a folder of their own.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // It may have ended by itself.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["state", "spool", "log", "run"] {
            fs::create_dir(path(name)).expect("a folder");
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("own folder");
        let key: Vec<u8> = (0..1024u32)
            .map(|n| (n * 167 + std::process::id()) as u8)
            .collect();
        fs::write(path("key"), key).expect("written");
        fs::set_permissions(path("key"), Permissions::from_mode(0o600)).expect("own file");
        let name = first_line("hostname", "-s");
        let user = first_line("id", "-un");
        fs::write(
            path("slurm.conf"),
            configuration(folder.path(), &name, &user),
        )
        .expect("written");
        let mut cluster = Self {
            folder,
            daemons: Vec::new(),
        };
        let root = cluster.folder.path().to_owned();
        let below = |option: &str, name: &str| format!("--{option}={}", root.join(name).display());
        let munged = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            below("socket", "run/munge"),
            below("key-file", "key"),
            below("log-file", "log/munge"),
            below("pid-file", "run/munge.pid"),
            below("seed-file", "run/munge.seed"),
        ];
        cluster.daemon("munged", &munged);
        let deadline = Instant::now() + START;
        while !cluster.folder.path().join("run/munge").exists() {
            cluster.wait_until(deadline);
        }
        cluster.daemon("slurmctld", &["-D".to_owned()]);
        cluster.daemon("slurmd", &["-D".to_owned(), "-N".to_owned(), name]);
        let idle = |output: Output| String::from_utf8_lossy(&output.stdout).trim() == "idle";
        while !idle(cluster.ask("sinfo", &["-h", "-o", "%T"])) {
            cluster.wait_until(deadline);
        }
        cluster
    }

    fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(find_tool(tool).expect("it was looked for"));
        command
            .current_dir(self.folder.path())
            .env("SLURM_CONF", self.folder.path().join("slurm.conf"))
            .stdin(Stdio::null());
        command
    }

    fn daemon(&mut self, tool: &str, words: &[String]) {
        let log = |end| {
            let path = self.folder.path().join(format!("log/{tool}.{end}"));
            fs::File::create(path).expect("a file")
        };
        let (out, err) = (log("out"), log("err"));
        let daemon = self
            .command(tool)
            .args(words)
            .stdout(out)
            .stderr(err)
            .spawn();
        self.daemons.push(daemon.expect("a daemon"));
    }

    fn ask(&self, tool: &str, words: &[&str]) -> Output {
        self.command(tool).args(words).output().expect("its answer")
    }

    fn wait_until(&mut self, deadline: Instant) {
        assert!(Instant::now() < deadline, "no cluster: {}", self.logs());
        for daemon in &mut self.daemons {
            let ended = daemon.try_wait().expect("a child").is_some();
            assert!(!ended, "a daemon has ended: {}", self.logs());
        }
        sleep(Duration::from_millis(100));
    }

    fn logs(&self) -> String {
        let files = fs::read_dir(self.folder.path().join("log")).expect("the folder is there");
        let files = files.map(|file| fs::read_to_string(file.expect("a file").path()));
        files.map(Result::unwrap_or_default).collect()
    }
}

fn first_line(tool: &str, word: &str) -> String {
    let output = Command::new(tool).arg(word).output().expect("a tool");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn configuration(folder: &Path, name: &str, user: &str) -> String {
    let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [controller, node] = ports.map(|port| port.local_addr().expect("bound").port());
    let folder = folder.display();
    format!(
        "ClusterName=one
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
NodeName={name} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes={name} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:{TASKS}
"
    )
}

/// A program with a bug that few runs show.
fn compile(folder: &Path) -> PathBuf {
    let program = folder.join("lost_update");
    let status = Command::new(find_tool("gcc").expect("the tests need gcc"))
        .args(["-O1", "-g", "-pthread", "-I"])
        .arg(crate_dir().join("bugs/include"))
        .arg("-o")
        .args([&program, &crate_dir().join("bugs/lost_update.c")])
        .status();
    assert!(status.expect("gcc").success());
    program
}

#[test]
fn a_job_array_of_slurm_finds_a_failing_run() {
    let tools = ["munged", "slurmctld", "slurmd", "sbatch", "sinfo"];
    if let Some(tool) = tools.into_iter().find(|tool| find_tool(tool).is_none()) {
        match missing_tool(tool, is_ci()) {
            Missing::Fail(why) => panic!("{why}"),
            Missing::Skip(why) => return eprintln!("{why}"),
        }
    }
    let cluster = Cluster::start();
    let folder = cluster.folder.path();
    let program = compile(folder);
    let relive = command::relive().expect("the command is built");
    let script = format!(
        "#!/bin/sh\nexport RELIVE_TRACE_DIR={0}/traces RELIVE_CACHE_DIR={0}/cache\nexec {1} hunt --results {0}/results -n 3000 --timeout 5s {2}\n",
        folder.display(),
        relive.display(),
        program.display()
    );
    fs::write(folder.join("job.sh"), script).expect("written");
    let array = format!("--array=1-{TASKS}");
    let ended = cluster.ask("sbatch", &["--wait", &array, "-o", "task-%a", "job.sh"]);
    let said: Vec<String> = (1..=TASKS)
        .map(|task| fs::read_to_string(folder.join(format!("task-{task}"))).unwrap_or_default())
        .collect();
    assert_eq!(
        ended.status.code(),
        Some(1),
        "{ended:?} {said:#?} {}",
        cluster.logs()
    );
    let found = fs::read(folder.join("results/found.json")).expect("a failing run");
    let found: serde_json::Value = serde_json::from_slice(&found).expect("JSON");
    let number = |name: &str| found[name].as_u64().expect("a number");
    let (run, shard) = (number("run"), number("shard"));
    assert_eq!((run - 1) % TASKS + 1, shard);
    let finder = &said[shard as usize - 1];
    assert!(finder.contains(&format!("run {run} failed: ")), "{said:#?}");
    for (task, text) in (1..).zip(&said) {
        assert!(text.contains(" failed"), "task {task}: {said:#?}");
    }
    let packed = folder
        .join("results")
        .join(found["file"].as_str().expect("a name"));
    let here = |words: &[&str]| {
        let mut command = Command::new(relive);
        command
            .args(words)
            .env("RELIVE_TRACE_DIR", folder.join("unpacked"));
        command
            .env("RELIVE_CACHE_DIR", folder.join("cache"))
            .output()
            .expect("relive")
    };
    let unpacked = here(&["unpack", packed.to_str().expect("a plain name")]);
    assert!(unpacked.status.success(), "{unpacked:?}");
    let verified = here(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
}
