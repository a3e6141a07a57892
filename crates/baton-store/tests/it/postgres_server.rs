//! A PostgreSQL server for tests: one for all of them, made on first use, and one of its own where a test needs it.
//!
//! The first test process starts the shared server, under a lock. Every process that uses it holds a shared lock on a
//! file; a small loop outside of the tests stops the server, and removes its data, when no process has held that lock
//! for a minute. Each test has a schema and a role of its own, named in the address it gets.
//!
//! Needs nothing but the standard library and PostgreSQL's own programs, so that other crates can include it.

#![allow(dead_code, reason = "each crate that includes it uses a part")]

use std::fs::{self, File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Settings of every server: reachable over loopback only, small, and as careful with data as a real one.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=300",
    "shared_buffers=64MB",
    "fsync=on",
    "full_page_writes=on",
];

/// Ends a server that is no longer used: checks every ten seconds, and stops it at the sixth time.
const SUPERVISOR: &str = r#"
idle=0
while [ "$idle" -lt 6 ]; do
  sleep 10
  if flock --nonblock --exclusive "$CONTROL/users" true; then idle=$((idle + 1)); else idle=0; fi
done
exec 9>"$CONTROL/lock"
flock --exclusive 9
if flock --nonblock --exclusive "$CONTROL/users" true; then
  $AS "$BIN/pg_ctl" -D "$DATA/data" -m immediate stop
  rm -rf "$DATA" "$CONTROL/port"
  exit
fi
exec 9>&-
exec sh -c "$SUPERVISOR"
"#;

/// Ends the server of a test that ended without stopping it.
const LAST_RESORT: &str = r#"
flock --shared "$DATA/test" true
$AS "$BIN/pg_ctl" -D "$DATA/data" -m immediate stop
rm -rf "$DATA"
"#;

/// A schema of its own on the shared server, and a role that alone connects to it. Both are dropped with the value.
pub(crate) struct Schema {
    /// The address with the role and the schema in it.
    pub(crate) url: String,
    /// The schema, and the role.
    pub(crate) name: String,
    /// The port of the server.
    pub(crate) port: u16,
}

impl Schema {
    /// Makes a schema, and starts the server if it is not there.
    pub(crate) fn new() -> Schema {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let port = shared();
        let name = format!("t{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let made = format!(
            "DROP SCHEMA IF EXISTS {name} CASCADE; DROP ROLE IF EXISTS {name};
             CREATE ROLE {name} LOGIN SUPERUSER; CREATE SCHEMA {name}"
        );
        psql(port, &made);
        let url = address(port).replace("//baton@", &format!("//{name}@"));
        Schema { url: format!("{url}&options=-csearch_path%3D{name}"), name, port }
    }

    /// Runs SQL on the server, inside the schema.
    pub(crate) fn run(&self, sql: &str) -> String {
        psql(self.port, &format!("SET search_path = {}; {sql}", self.name))
    }

    /// Ends every session of the role and lets none begin: then the schema is no longer written to, and none of its
    /// rows is locked.
    fn shut(&self) {
        psql(self.port, &format!("ALTER ROLE {} NOLOGIN", self.name));
        let ended =
            format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'", self.name);
        // A session that has just begun may not be listed yet.
        until("all sessions of the schema have ended", || psql(self.port, &ended).is_empty());
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.shut();
            psql(self.port, &format!("DROP SCHEMA {0} CASCADE; DROP OWNED BY {0}; DROP ROLE {0}", self.name));
        }
    }
}

/// A server of its own, for tests that stop it or start it differently. It ends with the value.
pub(crate) struct OwnServer {
    /// The folder of all its files.
    pub(crate) folder: PathBuf,
    /// Its port, also after a restart.
    pub(crate) port: u16,
    settings: Vec<String>,
    /// Locked for as long as the test lives.
    _test: File,
}

impl OwnServer {
    /// Makes and starts a server with further settings.
    pub(crate) fn start(settings: &[&str]) -> OwnServer {
        let server = OwnServer::prepare(settings);
        server.up();
        server
    }

    /// Makes a server without starting it, so that files can be put into its folder.
    pub(crate) fn prepare(settings: &[&str]) -> OwnServer {
        let folder = new_folder();
        let test = open(&folder.join("test"));
        test.lock().expect("the lock of the test");
        outside(LAST_RESORT, &control(), &folder);
        init(&folder);
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        OwnServer { folder, port: free_port(), settings, _test: test }
    }

    /// Starts it.
    pub(crate) fn up(&self) {
        start(&self.folder, self.port, self.settings.iter().map(String::as_str));
    }

    /// Stops it at once, as if it had crashed.
    pub(crate) fn down(&self) {
        stop(&self.folder, "immediate");
    }

    /// Stops it, `fast` or `immediate`.
    pub(crate) fn down_as(&self, mode: &str) {
        stop(&self.folder, mode);
    }

    /// Stops it, `fast` or `immediate`, and starts it again.
    pub(crate) fn restart(&self, mode: &str) {
        stop(&self.folder, mode);
        self.up();
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        address(self.port)
    }

    /// Runs SQL on it.
    pub(crate) fn run(&self, sql: &str) -> String {
        psql(self.port, sql)
    }

    /// Runs a program in its folder, as the user of the server.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = as_server(Path::new(program));
        command.current_dir(&self.folder);
        command
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let mut stopping = pg("pg_ctl");
        stopping.arg("-D").arg(self.folder.join("data")).args(["-m", "immediate", "stop"]);
        let _ = stopping.output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The port of the server that all tests share; it is kept alive until this process ends.
fn shared() -> u16 {
    static PORT: OnceLock<(u16, File)> = OnceLock::new();
    PORT.get_or_init(|| {
        let control = control();
        let lock = open(&control.join("lock"));
        lock.lock().expect("the lock of the test server");
        let users = open(&control.join("users"));
        users.lock_shared().expect("the users of the test server");
        let known = fs::read_to_string(control.join("port")).ok().and_then(|text| text.parse().ok());
        let port = known.filter(|port| answers(*port)).unwrap_or_else(|| start_shared(&control));
        (port, users)
    })
    .0
}

fn start_shared(control: &Path) -> u16 {
    let folder = new_folder();
    init(&folder);
    let port = free_port();
    start(&folder, port, std::iter::empty());
    fs::write(control.join("port"), port.to_string()).expect("the port of the test server");
    outside(SUPERVISOR, control, &folder);
    port
}

/// Runs a script that outlives this process.
#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
fn outside(script: &str, control: &Path, folder: &Path) {
    let prefix = as_server(Path::new(""));
    let prefix: Vec<_> = std::iter::once(prefix.get_program()).chain(prefix.get_args()).collect();
    let begun = Command::new("setsid")
        .args(["--fork", "sh", "-c", script])
        .envs([("CONTROL", control), ("DATA", folder), ("BIN", binaries())])
        .env("AS", prefix.join(std::ffi::OsStr::new(" ")))
        .env("SUPERVISOR", SUPERVISOR)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(begun.expect("setsid, of util-linux").success(), "nobody would stop the server");
}

/// The folder where processes find the shared server: beside cargo's build output.
fn control() -> PathBuf {
    let exe = std::env::current_exe().expect("the path of the test");
    let target = exe.ancestors().nth(3).expect("a test below target/PROFILE/deps");
    let control = target.join("test-postgres");
    fs::create_dir_all(&control).expect("a folder in target");
    control
}

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A new folder that the server's user owns and can reach, independent of the project's own folder.
fn new_folder() -> PathBuf {
    let mut made = as_server(Path::new("mktemp"));
    made.args(["--directory", "--tmpdir", "baton-test-postgres-XXXXXX"]);
    PathBuf::from(done(&mut made).trim())
}

fn init(folder: &Path) {
    let mut init = pg("initdb");
    init.arg("-D").arg(folder.join("data"));
    done(init.args(["--username=baton", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]));
}

fn start<'a>(folder: &Path, port: u16, more: impl Iterator<Item = &'a str>) {
    let mut options = format!("-p {port}");
    for setting in SETTINGS.into_iter().chain(more) {
        options += &format!(" -c '{setting}'");
    }
    let mut started = pg("pg_ctl");
    started.arg("-D").arg(folder.join("data")).arg("-l").arg(folder.join("log"));
    // The server would inherit and keep our pipes, so it gets none.
    let status = started
        .args(["-w", "-t", "60", "-o", &options, "start"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert!(status.expect("pg_ctl").success(), "the server did not start: {}", log());
}

fn stop(folder: &Path, mode: &str) {
    let mut stopping = pg("pg_ctl");
    stopping.arg("-D").arg(folder.join("data"));
    done(stopping.args(["-m", mode, "-w", "stop"]));
}

fn address(port: u16) -> String {
    format!("postgres://baton@127.0.0.1:{port}/postgres?sslmode=prefer")
}

fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Runs SQL on a server; returns its plain output.
pub(crate) fn psql(port: u16, sql: &str) -> String {
    done(&mut asking(port, sql)).trim_end().to_owned()
}

#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
fn asking(port: u16, sql: &str) -> Command {
    let mut psql = Command::new(binaries().join("psql"));
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "baton"]);
    psql.args(["-d", "postgres", "-p", &port.to_string(), "-c", sql]);
    psql.env("PGOPTIONS", "-c client_min_messages=warning");
    psql
}

/// Checks until the condition holds; fails if it never does. Asking a server takes a while, so this does not spin.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

/// A program of PostgreSQL, as the user that a server may run as.
fn pg(program: &str) -> Command {
    as_server(&binaries().join(program))
}

/// Servers refuse to run as root, so root runs them as `postgres`, a user of Debian's package.
#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
fn as_server(program: &Path) -> Command {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut command = Command::new(if is_root { Path::new("setpriv") } else { Path::new("env") });
    if is_root {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    if !program.as_os_str().is_empty() {
        command.arg(program);
    }
    command.current_dir("/");
    command
}

fn done(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("{:?}: {e}", command.get_program()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The folder of PostgreSQL's programs: Debian's newest, or the one on the path.
fn binaries() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut found: Vec<(u32, PathBuf)> = versions
            .filter_map(|version| {
                Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin")))
            })
            .filter(|(_, folder)| folder.join("initdb").exists())
            .collect();
        found.sort();
        let on_path = || {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
        };
        let found = found.pop().map(|(_, folder)| folder).or_else(on_path);
        found.expect("these tests need PostgreSQL's server: install postgresql, as ./test does")
    })
}
