//! Real servers for PHP's clients: MariaDB, PostgreSQL, Redis and memcached.
//!
//! A database server starts when a test first needs it, once per test process; each test gets a separate database. The
//! servers listen on a Unix socket and a loopback port, offer TLS, and have the superuser `svc` with the password `secret`.
//! Redis and memcached start instantly: each test has private ones, which end when they are dropped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::c::php_config;
use crate::daemon::{self, Daemon};
use crate::skip::skipped;
use crate::socket::Address;
use crate::tls::Certificates;

/// The user of the database servers.
pub const USER: &str = "svc";
/// The user's password.
pub const PASSWORD: &str = "secret";

/// A database of a test.
#[derive(Debug)]
pub struct Database {
    server: &'static Server,
    name: String,
}

#[derive(Debug)]
struct Server {
    driver: Driver,
    daemon: Daemon,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Mysql,
    Pgsql,
}

/// A key-value store of a test.
#[derive(Debug)]
pub struct Store {
    daemon: Daemon,
    port: u16,
}

/// Returns a database of the shared MariaDB; `None` if MariaDB is not installed.
pub fn mariadb() -> Option<Database> {
    static SERVER: LazyLock<Option<Server>> = LazyLock::new(start_mariadb);
    SERVER.as_ref().map(Database::new)
}

/// Returns a database of a private MariaDB, which the test may kill; `None` if MariaDB is not installed.
pub fn own_mariadb() -> Option<Database> {
    start_mariadb().map(own)
}

/// Returns a database of a private PostgreSQL, which the test may kill; `None` if PostgreSQL is not installed.
pub fn own_postgres() -> Option<Database> {
    start_postgres().map(own)
}

/// Wraps a private server. It ends with the test process, like the shared servers.
fn own(server: Server) -> Database {
    Database::new(Box::leak(Box::new(server)))
}

/// Returns a database of the shared PostgreSQL; `None` if PostgreSQL is not installed.
pub fn postgres() -> Option<Database> {
    static SERVER: LazyLock<Option<Server>> = LazyLock::new(start_postgres);
    SERVER.as_ref().map(Database::new)
}

/// Returns a Redis; `None` if Redis is not installed.
pub fn redis() -> Option<Store> {
    let program = daemon::find("redis-server")?;
    let command = |_: &Path, port: u16| {
        let mut command = Command::new(&program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--unixsocket", "socket", "--save", "", "--appendonly", "no"]);
        command
    };
    let (daemon, port) = Daemon::start("KILL", command, is_redis_ready);
    Some(Store { daemon, port })
}

fn is_redis_ready(folder: &Path) -> bool {
    says(&folder.join("socket"), "PING", "+PONG")
}

/// Returns a memcached, which listens only on a port; `None` if memcached is not installed.
pub fn memcached() -> Option<Store> {
    let program = daemon::find("memcached")?;
    // memcached chooses its port and writes it to a file.
    let command = |_: &Path, _| {
        let mut command = Command::new("env");
        command.arg("MEMCACHED_PORT_FILENAME=port").arg(&program);
        command.args(["-u", "nobody", "-l", "127.0.0.1", "-p", "-1", "-U", "0", "-m", "16", "-t", "1"]);
        command
    };
    let (daemon, _) = Daemon::start("KILL", command, |folder| folder.join("port").exists());
    let text = fs::read_to_string(daemon.folder().join("port")).unwrap();
    let port = text.lines().find_map(|line| line.strip_prefix("TCP INET: ")?.parse().ok());
    Some(Store { daemon, port: port.unwrap_or_else(|| panic!("{text}")) })
}

impl Database {
    fn new(server: &'static Server) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server.query(server.driver.first_database(), &format!("CREATE DATABASE {name}"));
        Self { server, name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the data source name for PDO over the Unix socket.
    pub fn dsn(&self) -> String {
        self.server.dsn(&self.name)
    }

    /// Returns the data source name for PDO over a port: the server's, or a proxy's in front of it.
    pub fn dsn_on(&self, port: u16) -> String {
        let driver = self.server.driver.name();
        format!("{driver}:host=127.0.0.1;port={port};dbname={}", self.name)
    }

    /// Returns the server's address on the loopback interface.
    pub fn address(&self) -> Address {
        Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, self.server.port)))
    }

    /// Returns the path of the Unix socket; for libpq, the folder that contains it.
    pub fn socket(&self) -> PathBuf {
        self.server.socket()
    }

    /// Returns how many clients wait in a function that sleeps.
    #[track_caller]
    pub fn sleeping(&self) -> u64 {
        let rows = self.query(match self.server.driver {
            Driver::Mysql => "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'",
            Driver::Pgsql => "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
        });
        rows[0][0].as_u64().unwrap()
    }

    /// Kills the server, which must be private to the test.
    #[track_caller]
    pub fn kill(&self) {
        self.server.daemon.kill();
    }

    /// Restarts the server.
    #[track_caller]
    pub fn start_again(&self) {
        self.server.daemon.start_again(|folder| self.server.driver.is_ready(folder));
    }

    /// Runs one statement on a connection outside the server under test; returns its rows.
    #[track_caller]
    pub fn query(&self, sql: &str) -> Value {
        self.server.query(&self.name, sql)
    }
}

impl Store {
    /// Returns the server's address on the loopback interface.
    pub fn address(&self) -> Address {
        Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
    }

    /// Returns the path of Redis' Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.daemon.folder().join("socket")
    }

    /// Returns how many clients wait in a blocking command of Redis.
    #[track_caller]
    pub fn blocked_clients(&self) -> u64 {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.write_all(b"INFO clients\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix("blocked_clients:")?.parse().ok()).unwrap()
    }

    /// Kills the server.
    #[track_caller]
    pub fn kill(&self) {
        self.daemon.kill();
    }

    /// Restarts a killed Redis.
    #[track_caller]
    pub fn start_again(&self) {
        self.daemon.start_again(is_redis_ready);
    }
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Pgsql => "pgsql",
        }
    }

    fn is_ready(self, folder: &Path) -> bool {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        match self {
            // MariaDB accepts connections before it answers them.
            Self::Mysql => UnixStream::connect(folder.join("socket")).is_ok(),
            // The last line of the file is the status, which pg_ctl waits for too. The first line is the process ID.
            Self::Pgsql => {
                let (program, text) = (read("program"), read("data/postmaster.pid"));
                !program.is_empty() && text.starts_with(&program) && text.contains("ready")
            }
        }
    }

    /// Returns a database that exists from the beginning.
    fn first_database(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Pgsql => "postgres",
        }
    }
}

/// The client that runs statements is a PHP script.
const QUERY: &str = r#"
[, $dsn, $user, $password, $sql] = $argv;
$rows = (new PDO($dsn, $user, $password, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]))->query($sql);
echo json_encode($rows->columnCount() > 0 ? $rows->fetchAll(PDO::FETCH_NUM) : [], JSON_THROW_ON_ERROR);
"#;

impl Server {
    fn socket(&self) -> PathBuf {
        match self.driver {
            Driver::Mysql => self.daemon.folder().join("socket"),
            Driver::Pgsql => self.daemon.folder().join(format!(".s.PGSQL.{}", self.port)),
        }
    }

    fn dsn(&self, database: &str) -> String {
        match self.driver {
            Driver::Mysql => format!("mysql:unix_socket={};dbname={database}", self.socket().display()),
            Driver::Pgsql => {
                let (folder, port) = (self.daemon.folder().display(), self.port);
                format!("pgsql:host={folder};port={port};dbname={database}")
            }
        }
    }

    #[track_caller]
    fn query(&self, database: &str, sql: &str) -> Value {
        let mut php = Command::new(php());
        php.args([
            "-d",
            "display_errors=stderr",
            "-r",
            QUERY,
            "--",
            &self.dsn(database),
            USER,
            PASSWORD,
            sql,
        ]);
        let rows = daemon::run(&mut php);
        serde_json::from_str(&rows).unwrap_or_else(|_| panic!("{rows}"))
    }
}

/// Returns the command-line PHP of the embedded PHP.
fn php() -> String {
    daemon::run(Command::new(php_config()).arg("--php-binary")).trim().to_owned()
}

fn start_mariadb() -> Option<Server> {
    let program = daemon::find("mariadbd")?;
    let install = daemon::find("mariadb-install-db")?;
    // The data need not survive a crash, so a small log is enough.
    let options = ["--no-defaults", "--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M"];
    let user: &[&str] = if rustix::process::geteuid().is_root() { &["--user=root"] } else { &[] };
    let command = |folder: &Path, port: u16| {
        // A server that starts deletes the temporary tables of all servers in its temporary directory.
        let folders = [
            format!("--datadir={}", folder.join("data").display()),
            format!("--tmpdir={}", folder.display()),
        ];
        daemon::run(Command::new(&install).args(options).args(user).args(&folders).arg("--skip-test-db"));
        write_certificate(folder);
        let users = format!(
            "CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;\n"
        );
        fs::write(folder.join("users.sql"), users).unwrap();
        let file = |name: &str| folder.join(name).display().to_string();
        let mut command = Command::new(&program);
        command.args(options).args(user).args(&folders);
        command.args(["--bind-address=127.0.0.1", "--skip-name-resolve"]);
        command.args(["--innodb-flush-log-at-trx-commit=0", "--max-connections=500"]);
        command.arg(format!("--port={port}"));
        for (option, name) in
            [("socket", "socket"), ("init-file", "users.sql"), ("ssl-cert", "cert"), ("ssl-key", "key")]
        {
            command.arg(format!("--{option}={}", file(name)));
        }
        command
    };
    let (daemon, port) = Daemon::start("KILL", command, |folder| Driver::Mysql.is_ready(folder));
    Some(Server { driver: Driver::Mysql, daemon, port })
}

fn start_postgres() -> Option<Server> {
    let Some(programs) = postgres_programs() else {
        skipped("postgresql is not installed");
        return None;
    };
    let command = |folder: &Path, port: u16| {
        let file = |name: &str| folder.join(name).display().to_string();
        fs::write(folder.join("password"), PASSWORD).unwrap();
        let mut initdb = daemon::as_user("postgres", &programs.join("initdb"));
        initdb.args([
            "--no-sync",
            "--no-instructions",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
        ]);
        initdb.args(["--username", USER, "--pwfile", &file("password"), "--pgdata", &file("data")]);
        daemon::run(&mut initdb);
        write_certificate(folder);
        // PostgreSQL refuses a key that another user owns.
        let owner = fs::metadata(folder.join("data")).unwrap().uid();
        chown(folder.join("key"), Some(owner), None).unwrap();
        let mut command = daemon::as_user("postgres", &programs.join("postgres"));
        command.args(["-D", &file("data"), "-k", &file(""), "-p", &port.to_string()]);
        for setting in
            ["listen_addresses=127.0.0.1", "fsync=off", "full_page_writes=off", "max_connections=300"]
        {
            command.args(["-c", setting]);
        }
        command.args(["-c", "ssl=on", "-c", &format!("ssl_cert_file={}", file("cert"))]);
        command.args(["-c", &format!("ssl_key_file={}", file("key"))]);
        command
    };
    // SIGQUIT ends PostgreSQL without a checkpoint and releases its shared memory.
    let (daemon, port) = Daemon::start("QUIT", command, |folder| Driver::Pgsql.is_ready(folder));
    Some(Server { driver: Driver::Pgsql, daemon, port })
}

/// Returns the folder with the programs of the newest PostgreSQL: Debian has one folder per version.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|entry| {
        let path = entry.ok()?.path();
        let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
        path.join("bin/initdb").is_file().then_some((version, path.join("bin")))
    });
    folders.max().map(|(_, folder)| folder)
}

/// Writes the files `cert` and `key` for connections to the loopback interface.
fn write_certificate(folder: &Path) {
    let certificates = Certificates::new(&[&["localhost", "127.0.0.1"]]);
    fs::copy(certificates.cert(0), folder.join("cert")).unwrap();
    fs::copy(certificates.key(0), folder.join("key")).unwrap();
    fs::set_permissions(folder.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
}

/// Returns whether a server with a line-based protocol sends this answer.
fn says(socket: &Path, question: &str, answer: &str) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut line = String::new();
    let asked = stream.write_all(format!("{question}\r\n").as_bytes());
    asked.is_ok() && BufReader::new(stream).read_line(&mut line).is_ok() && line.trim_end() == answer
}
