//! Ways in which PHP waits for a server. A test includes the ways that it needs; each function requests its `$n` on a
//! separate connection and returns the answer.

use std::fmt::Write as _;

use serde_json::Value;

use crate::backend::{Backend, Visit};
use crate::databases::{self, Database, PASSWORD, Store, USER};
use crate::fetched::fetched;
use crate::proxy::Proxy;
use crate::tasks::TaskServer;
use crate::tls::Certificates;

/// Fetches `/$n` from the HTTP server at HTTP, or from the HTTPS server at TLS, whose certificate CA signed.
pub const OVER_HTTP: &str = r#"
function by_curl($n, $url = null)
{
    $curl = curl_init($url ?? 'http://' . HTTP . "/$n");
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    curl_setopt($curl, CURLOPT_CAINFO, CA);
    return curl_exec($curl);
}
function by_curl_tls($n) { return by_curl($n, 'https://' . TLS . "/$n"); }
function by_curl_multi($n)
{
    $many = curl_multi_init();
    $curl = curl_init('http://' . HTTP . "/$n");
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    curl_multi_add_handle($many, $curl);
    do {
        curl_multi_exec($many, $running);
    } while ($running > 0 && curl_multi_select($many, 60) >= 0);
    return curl_multi_getcontent($curl);
}
function by_file($n) { return file_get_contents('http://' . HTTP . "/$n"); }
function by_file_tls($n)
{
    return file_get_contents('https://' . TLS . "/$n", false, stream_context_create(['ssl' => ['cafile' => CA]]));
}
function question($n): string { return "GET /$n HTTP/1.1\r\n\r\n"; }
function body(string $answer): string { return explode("\r\n\r\n", $answer, 2)[1] ?? $answer; }
function by_fsockopen($n)
{
    [$host, $port] = explode(':', HTTP);
    $stream = fsockopen($host, (int) $port);
    fwrite($stream, question($n));
    return body(stream_get_contents($stream));
}
function by_stream_select($n)
{
    $stream = stream_socket_client('tcp://' . HTTP);
    stream_set_blocking($stream, false);
    fwrite($stream, question($n));
    for ($text = ''; !feof($stream); $text .= fread($stream, 8192)) {
        $reads = [$stream];
        $writes = $excepts = null;
        stream_select($reads, $writes, $excepts, null);
    }
    return body($text);
}
function by_socket($n)
{
    [$host, $port] = explode(':', HTTP);
    $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    socket_connect($socket, $host, (int) $port);
    socket_send($socket, question($n), strlen(question($n)), 0);
    for ($text = ''; socket_recv($socket, $bytes, 8192, 0) > 0; $text .= $bytes);
    return body($text);
}
function by_socket_select($n)
{
    [$host, $port] = explode(':', HTTP);
    $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    socket_connect($socket, $host, (int) $port);
    socket_set_nonblock($socket);
    socket_write($socket, question($n));
    for ($text = ''; ; $text .= $bytes) {
        $reads = [$socket];
        $writes = $excepts = null;
        socket_select($reads, $writes, $excepts, null);
        if (($bytes = socket_read($socket, 8192)) === '') { return body($text); }
    }
}
"#;

/// The functions in [`OVER_HTTP`].
pub const HTTP_WAYS: [&str; 9] = [
    "by_curl",
    "by_curl_tls",
    "by_curl_multi",
    "by_file",
    "by_file_tls",
    "by_fsockopen",
    "by_stream_select",
    "by_socket",
    "by_socket_select",
];

/// Connections to databases and stores; each function returns a closure that sends a query. `tries` returns the query's
/// result or exception.
const CONNECTIONS: &str = r#"
function tries($n)
{
    try { return @$n()('wombat') === 'wombat' ? 'whole' : 'failed'; } catch (Throwable) { return 'failed'; }
}
function to_pdo_mysql() { $db = new PDO(MYSQL_DSN, USER, PASSWORD); return fn ($n) => $db->query("SELECT '$n'")->fetchColumn(); }
function to_mysqli()
{
    $db = new mysqli('127.0.0.1', USER, PASSWORD, MYSQL_NAME, MYSQL_PORT);
    return fn ($n) => $db->query("SELECT '$n'")->fetch_row()[0];
}
function to_pdo_pgsql() { $db = new PDO(PGSQL_DSN, USER, PASSWORD); return fn ($n) => $db->query("SELECT '$n'")->fetchColumn(); }
function to_pg()
{
    $db = pg_connect('host=127.0.0.1 port=' . PGSQL_PORT . ' dbname=' . PGSQL_NAME . ' user=' . USER . ' password=' . PASSWORD, PGSQL_CONNECT_FORCE_NEW);
    return fn ($n) => pg_fetch_result(pg_query_params($db, 'SELECT $1', [$n]), 0, 0);
}
function to_redis() { $store = new Redis(); $store->connect('127.0.0.1', REDIS_PORT); return fn ($n) => $store->echo($n); }
function to_memcached()
{
    $store = new Memcached();
    $store->addServer('127.0.0.1', MEMCACHED_PORT);
    return fn ($n) => $store->set("key$n", $n) ? $store->get("key$n") : $store->getResultMessage();
}
"#;

/// The databases and stores installed on this machine, each behind a proxy.
pub struct Stores {
    code: String,
    directives: Vec<String>,
    /// The functions that connect, each with the proxy of its server.
    pub ways: Vec<(&'static str, Proxy)>,
    _stores: Vec<Store>,
}

impl Stores {
    /// Starts the installed servers, with a proxy for each driver.
    pub fn new() -> Self {
        let mut code = format!("{CONNECTIONS}const USER = '{USER}';\nconst PASSWORD = '{PASSWORD}';\n");
        let mut ways = Vec::new();
        let mut database = |database: &Database, way: &'static str, prefix: &str| {
            let proxy = Proxy::tcp(database.address());
            let port = proxy.address().port();
            write!(code, "const {prefix}_PORT = {port};\nconst {prefix}_NAME = '{}';\n", database.name())
                .unwrap();
            writeln!(code, "const {prefix}_DSN = '{}';", database.dsn_on(port)).unwrap();
            ways.push((way, proxy));
        };
        if let Some(mysql) = databases::mariadb() {
            database(&mysql, "to_mysqli", "MYSQL");
        }
        if let Some(postgres) = databases::postgres() {
            database(&postgres, "to_pg", "PGSQL");
        }
        let mut stores = Self { code, directives: Vec::new(), ways, _stores: Vec::new() };
        if let Some(extensions) = fetched("php-extensions") {
            for (name, store) in [("redis", databases::redis()), ("memcached", databases::memcached())] {
                stores.add(&extensions, name, store);
            }
        }
        stores
    }

    fn add(&mut self, extensions: &str, name: &str, store: Option<Store>) {
        let Some(store) = store else { return };
        let proxy = Proxy::tcp(store.address());
        writeln!(self.code, "const {}_PORT = {};", name.to_uppercase(), proxy.address().port()).unwrap();
        self.directives.push(format!("extension={extensions}/{name}.so"));
        self.ways.push((if name == "redis" { "to_redis" } else { "to_memcached" }, proxy));
        self._stores.push(store);
    }

    /// Returns a server whose code has their constants.
    pub fn server(&self, code: &str) -> TaskServer {
        let server = TaskServer::new(&format!("{}{code}", self.code));
        self.directives.iter().fold(server, |server, directive| server.directive(directive))
    }

    /// Returns all drivers, each with its proxy.
    pub fn drivers(&self) -> impl Iterator<Item = (&'static str, &Proxy)> {
        self.ways.iter().flat_map(|(way, proxy)| {
            let other = match *way {
                "to_mysqli" => Some("to_pdo_mysql"),
                "to_pg" => Some("to_pdo_pgsql"),
                _ => None,
            };
            [Some(*way), other].into_iter().flatten().map(move |way| (way, proxy))
        })
    }
}

/// Answers the first request with its path once the gate is open.
pub fn held_path(visit: &mut Visit) -> std::io::Result<()> {
    let request = visit.request()?;
    visit.hold()?;
    visit.answer(path_of(&request))
}

/// Returns the path of a request, without its slash.
pub fn path_of(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/')
}

/// A plain HTTP backend and a TLS backend that answer with [`held_path`].
pub struct Pages {
    pub plain: Backend,
    pub tls: Backend,
    certificates: Certificates,
}

impl Pages {
    pub fn new() -> Self {
        let certificates = Certificates::new(&[&["127.0.0.1"]]);
        Self { plain: Backend::tcp(held_path), tls: Backend::tls(&certificates, held_path), certificates }
    }

    /// Returns the backend that a function fetches from.
    pub fn of(&self, way: &str) -> &Backend {
        if way.ends_with("_tls") { &self.tls } else { &self.plain }
    }

    /// Returns a server whose code has their addresses.
    pub fn server(&self, code: &str) -> TaskServer {
        TaskServer::new(&format!(
            "{OVER_HTTP}const HTTP = '{}';\nconst TLS = '{}';\nconst CA = '{}';\n{code}",
            self.plain.address(),
            self.tls.address(),
            self.certificates.cert(0).display(),
        ))
    }
}

/// Returns the parsed JSON of a response.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}
