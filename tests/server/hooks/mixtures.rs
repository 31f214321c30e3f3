//! Random requests that use connections, sessions, locks, places, stores, tasks and programs in random order: those that
//! end without hooks end in the same way with them.
//!
//! All requests take locks in the same order, so that no two wait for each other's; all other steps come in between. In every
//! fourth mixture, some requests keep a transaction open while they wait for locks: requests may then be refused, but none
//! reaches its time limit.
//!
//! `make mixtures` runs them for a given time. `SVC_MIXTURE_SEED` is the first seed, `SVC_MIXTURES` the number of seeds, and
//! `SVC_MIXTURE_SECONDS` ends the run earlier.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;

use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskServer};

const PROGRAMS: usize = 64;
const CLIENTS: usize = 12;

/// The steps between locks; duplicates make a step twice as frequent.
const STEPS: [&str; 36] = [
    "q0", "q1", "q0", "q1", "g", "g", "i", "e", "t0", "t1", "o", "n", "n", "N", "L", "u0", "u1", "v", "a",
    "x", "r", "m", "d0", "d1", "O", "k", "R", "z", "z", "P0", "P1", "P2", "j0", "j1", "M", "M",
];
/// Changes the session of a connection. A request that has done so and polls for a lock keeps its connection, and one in a
/// transaction keeps it from the holder of a lock for which a third one polls.
const STATE: &str = "S";
/// Opens a transaction, which the end of the program commits.
const BEGIN: [&str; 2] = ["b0", "b1"];
/// The lock that is polled for.
const POLLED: &str = "c";
/// The last step of a program that ends by a fatal error.
const FATAL: &str = ".X";

/// Each step is a letter, followed by a digit if there are several of a kind. The results of a step must still be the
/// request's own after the following steps.
const CODE: &str = r#"
class Held { public static $db = [], $pg, $mysqli, $lite, $prepared, $redis, $store, $place, $multi; }
class Place { function open() { return 1; } }
final class Foreign extends Error { }
function connect(string $dsn = MY): PDO { return new PDO($dsn, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function mysqli(): mysqli { return mysqli_connect('127.0.0.1', USER, PASSWORD, MY_NAME, MY_PORT); }
function lite(): PDO { return new PDO('sqlite:' . DIR . '/lite', options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function boot(): void
{
    Held::$db = [connect(), connect()];
    Held::$pg = connect(PG);
    Held::$mysqli = mysqli();
    Held::$lite = lite();
    Held::$lite->exec('CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, who TEXT)');
    Held::$prepared = Held::$db[0]->prepare('SELECT ?');
    Held::$redis = new Redis;
    Held::$redis->connect('127.0.0.1', REDIS);
    Held::$store = new Memcached;
    Held::$store->addServer('127.0.0.1', MEMCACHED);
    Held::$place = Svc\per_request(Place::class, fn () => new Place, null, 1);
    Held::$multi = curl_multi_init();
}
/** A persistent connection, each time as a new object. */
function persistent(int $which): object
{
    return match ($which) {
        0 => new PDO(MY, USER, PASSWORD, [PDO::ATTR_PERSISTENT => true, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]),
        1 => new PDO(PG, USER, PASSWORD, [PDO::ATTR_PERSISTENT => true, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]),
        2 => mysqli_connect('p:127.0.0.1', USER, PASSWORD, MY_NAME, MY_PORT),
    };
}
function ask_persistent(int $which, string $token): void
{
    $db = persistent($which);
    $db instanceof PDO ? ask($db, $token) : own($db->query("SELECT '$token'")->fetch_row()[0], $token, 'row');
}
function own(mixed $found, mixed $expected, string $what): void
{
    if ($found !== $expected) { throw new Foreign("$what: " . json_encode($found) . ' instead of ' . json_encode($expected)); }
}
function all(PDOStatement $statement): array { $rows = $statement->fetchAll(PDO::FETCH_COLUMN); $statement->closeCursor(); return $rows; }
function ask(PDO $db, string $token): void
{
    $statement = $db->prepare('SELECT CAST(? AS CHAR(9))');
    $statement->execute([$token]);
    own(trim(all($statement)[0]), $token, 'row');
}
function transact(PDO $db, string $token): void
{
    $db->beginTransaction();
    ask($db, $token);
    $db->exec("INSERT INTO visits (who) VALUES ('in transaction $token')");
    usleep(500);
    own((int) all($db->query("SELECT count(*) FROM visits WHERE who LIKE 'in transaction %'"))[0], 1, 'transaction');
    $db->rollBack();
}
/** Inserts a row and returns its ID, which the server keeps until the request generates another one. */
function make(PDO $db, string $token): int
{
    $db->exec("INSERT INTO visits (who) VALUES ('$token')");
    return (int) $db->lastInsertId();
}
/** A transfer in the multi handle that all requests share. */
function transfer(string $token): void
{
    file_put_contents(DIR . "/file$token", $token);
    $easy = curl_init('file://' . DIR . "/file$token");
    curl_setopt($easy, CURLOPT_RETURNTRANSFER, true);
    curl_multi_add_handle(Held::$multi, $easy);
    do {
        curl_multi_exec(Held::$multi, $running);
        if ($running) { curl_multi_select(Held::$multi, 0.01); }
    } while ($running);
    own(curl_multi_getcontent($easy), $token, 'file');
    curl_multi_remove_handle(Held::$multi, $easy);
}
function in_task(string $token): string { ask(Held::$db[0], $token); ask(Held::$pg, $token); return $token; }
/** Unread rows on the connection while other requests need it. */
function unbuffered(mysqli $db, string $token): void
{
    $rows = $db->query("SELECT '$token' UNION ALL SELECT '$token' UNION ALL SELECT 'last'", MYSQLI_USE_RESULT);
    own($rows->fetch_row()[0], $token, 'row');
    usleep(300);
    own(array_merge(...$rows->fetch_all()), [$token, 'last'], 'rows');
}
/** Runs out of memory while rows are unread. */
function exhaust(): void
{
    $db = mysqli();
    ini_set('memory_limit', memory_get_usage() + (8 << 20));
    $rows = $db->query("SELECT REPEAT('x', 60000) FROM information_schema.columns", MYSQLI_USE_RESULT);
    for ($all = []; $row = $rows->fetch_row(); ) { $all[] = $row; }
}
function rows_of(PDO $db, string $token): void
{
    foreach ($db->query("SELECT '$token' UNION ALL SELECT '$token'", PDO::FETCH_COLUMN, 0) as $row) {
        own($row, $token, 'row of foreach');
        usleep(200);
    }
}
function database(int $number, string $token): void
{
    Held::$redis->select($number);
    Held::$redis->set("of$token", $number);
    own(Held::$redis->get("of$token"), (string) $number, 'database');
    Held::$redis->select(0);
}
function with_prefix(string $token): void
{
    Held::$redis->setOption(Redis::OPT_PREFIX, "$token:");
    Held::$redis->set('value', $token);
    own(Held::$redis->get('value'), $token, 'value with a prefix');
    Held::$redis->setOption(Redis::OPT_PREFIX, '');
}
function program(string $n): string
{
    set_time_limit(25);
    [$token, $steps] = explode('-', $n);
    $held = $begun = [];
    $own = $made = $kept = $made_in_kept = null;
    try {
        foreach (explode('.', $steps) as $step) {
            [$kind, $which] = [$step[0], $step[1] ?? 0];
            switch ($kind) {
                case 'q': ask(Held::$db[$which], $token); break;
                case 'g': ask(Held::$pg, $token); break;
                case 'i': own(Held::$mysqli->query("SELECT '$token'")->fetch_row()[0], $token, 'row'); break;
                case 'e': Held::$prepared->execute([$token]); own(all(Held::$prepared)[0], $token, 'row of a prepared statement'); break;
                case 't': $begun || transact($which ? Held::$pg : Held::$db[0], $token); break;
                case 'b': $begun[$which] ??= ($which ? Held::$pg : Held::$db[0])->beginTransaction(); break;
                case 'S': Held::$db[0]->exec("SET @of = '$token'"); break;
                case 'P': ask_persistent($which, $token); break;
                case 'j': $made_in_kept = make($which || !$kept ? $kept = persistent(0) : $kept, $token); break;
                case 'M': transfer($token); break;
                case 'o': ask($own ??= connect(), $token); break;
                case 'n': $made = make(Held::$db[1], $token); break;
                case 'N': make(Held::$lite, $token); own(all(Held::$lite->query('SELECT who FROM visits WHERE id = last_insert_rowid()')), [$token], 'row ID'); break;
                case 'L': $lite = lite(); $lite->exec('BEGIN IMMEDIATE'); make($lite, $token); usleep(500); $lite->exec('COMMIT'); break;
                case 'u': unbuffered($which ? Held::$mysqli : mysqli(), $token); break;
                case 'v': rows_of(Held::$db[0], $token); break;
                case 'a': own(Svc\async(in_task(...), $token)->await(), $token, 'answer of a task'); break;
                case 'x': own(exec("echo $token"), $token, 'output'); break;
                case 's': session_save_path(DIR); session_id("s$which"); session_start(['use_cookies' => false, 'cache_limiter' => '']); break;
                case 'f': $held[] = $file = fopen(DIR . "/lock$which", 'c'); flock($file, LOCK_EX); break;
                case 'p': Held::$place->open(); break;
                case 'c': while (!Held::$redis->set('lock', $token, ['nx', 'ex' => 60])) { usleep(2000); } $held['c'] = true; break;
                case 'r': Held::$redis->set("of$token", $token); own(Held::$redis->get("of$token"), $token, 'value'); break;
                case 'm': own(Held::$redis->multi()->echo($token)->echo($token)->exec(), [$token, $token], 'block'); break;
                case 'd': database(1 + (int) $which, $token); break;
                case 'O': with_prefix($token); break;
                case 'k': Held::$store->set("of$token", $token); own(Held::$store->get("of$token"), $token, 'value'); break;
                case 'R': if (!$begun) { Svc\release_connections(); $made = $made_in_kept = null; } break;
                case 'z': usleep(300); break;
                case 'X': exhaust(); break;
            }
        }
        if ($made !== null && getenv('RUNTIME_HOOKS') === 'all') {
            own((int) all(Held::$db[1]->query('SELECT LAST_INSERT_ID()'))[0], $made, 'ID');
        }
        if ($made_in_kept !== null && getenv('RUNTIME_HOOKS') === 'all') {
            own((int) all($kept->query('SELECT LAST_INSERT_ID()'))[0], $made_in_kept, 'ID of a persistent connection');
        }
        foreach ($begun as $which => $_) { ($which ? Held::$pg : Held::$db[0])->commit(); }
    } finally {
        if (isset($held['c'])) { Held::$redis->del('lock'); }
    }
    return "done $token";
}
"#;

/// Small pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % limit
    }

    fn steps(&mut self, text: &mut String, most: u64, may_await: bool) {
        for _ in 0..self.below(most + 1) {
            let index = usize::try_from(self.below(STEPS.len() as u64)).unwrap();
            let step = if STEPS[index] == "a" && !may_await { "z" } else { STEPS[index] };
            write!(text, ".{step}").unwrap();
        }
    }

    /// Returns some of the locks, in order, with steps between them. A program that ends by a fatal error takes no locks.
    /// There are none where transactions are open: the worker is replaced, and deadlocks between its old and its new thread are
    /// not recognised.
    /// Without hooks, a request that polls for the last lock blocks its thread, so the holder of that lock must not await
    /// anything.
    fn program(&mut self, token: usize, may_begin: bool) -> String {
        let mut text = format!("{token}-z");
        if !may_begin && self.below(24) == 0 {
            self.steps(&mut text, 3, true);
            return text + FATAL;
        }
        let changes_session = self.below(3) == 0;
        let begins = may_begin && self.below(2) == 0;
        let place = self.below(5);
        for (number, lock) in (0..).zip(["s", "f0", "f1", "p", POLLED]) {
            self.steps(&mut text, 2, true);
            if number == place && changes_session {
                write!(text, ".{STATE}").unwrap();
            }
            if number == place && begins {
                write!(text, ".{}", BEGIN[usize::try_from(self.below(2)).unwrap()]).unwrap();
            }
            match self.below(3) {
                0 if lock == "s" => write!(text, ".s{}", self.below(2)).unwrap(),
                0 if lock == POLLED && (changes_session || may_begin) => {}
                0 => write!(text, ".{lock}").unwrap(),
                _ => {}
            }
        }
        self.steps(&mut text, 2, false);
        text
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the outcomes of the programs, in their order.
fn run(server: &TaskServer, programs: &[String]) -> Vec<String> {
    let server = server.start_with(Mode::Worker, "boot();");
    let left: Mutex<VecDeque<_>> = Mutex::new(programs.iter().enumerate().collect());
    let ends = Mutex::new(vec![String::new(); programs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop_front();
                    let Some((index, program)) = next else { return };
                    let response = server.send("program", program).response();
                    ends.lock().unwrap()[index] = format!("{} {}", response.status, response.text());
                }
            });
        }
    });
    ends.into_inner().unwrap()
}

fn is_expected(program: &str, index: usize, end: &str, may_be_refused: bool) -> bool {
    if program.ends_with(FATAL) {
        return end.starts_with("500 ");
    }
    end == format!("200 \"done {index}\"")
        || (may_be_refused && end.starts_with("200 Svc\\ConnectionBusyError: "))
}

#[test]
fn programs_that_end_without_hooks_end_with_them() {
    let (Some(my), Some(pg), Some(redis), Some(memcached), Some(extensions)) = (
        databases::mariadb(),
        databases::postgres(),
        databases::redis(),
        databases::memcached(),
        fetched("php-extensions"),
    ) else {
        return;
    };
    my.query("CREATE TABLE visits (id INT PRIMARY KEY AUTO_INCREMENT, who TEXT)");
    pg.query("CREATE TABLE visits (id SERIAL PRIMARY KEY, who TEXT)");
    let constants =
        json!({"MY": my.dsn(), "MY_NAME": my.name(), "MY_PORT": my.address().port(), "PG": pg.dsn(),
        "USER": USER, "PASSWORD": PASSWORD, "REDIS": redis.address().port(),
        "MEMCACHED": memcached.address().port()})
        .to_string();
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
    let server = TaskServer::new(&format!("{define}\n{CODE}"))
        .directive(&format!("extension={extensions}/redis.so"))
        .directive(&format!("extension={extensions}/memcached.so"))
        .entry("boot();");
    let first = number("SVC_MIXTURE_SEED", 1);
    let until = Instant::now() + Duration::from_secs(number("SVC_MIXTURE_SECONDS", u64::MAX >> 16));
    for seed in first..first + number("SVC_MIXTURES", 2) {
        if Instant::now() > until {
            println!("{} mixtures", seed - first);
            break;
        }
        let may_begin = seed % 4 == 0;
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let programs: Vec<_> = (0..PROGRAMS).map(|token| numbers.program(token, may_begin)).collect();
        // With two threads, requests also wait for each other across threads.
        let settings = [("all", "1"), ("none", "1"), ("all", "2")];
        // Without hooks, requests would share a connection in the middle of a transaction; with two threads, requests in
        // transactions wait for each other's locks across threads.
        for (hooks, workers) in settings.into_iter().take(if may_begin { 1 } else { 3 }) {
            let server = server.clone().set("RUNTIME_HOOKS", hooks).set("PHP_WORKERS", workers);
            let ends = run(&server, &programs);
            let unexpected: Vec<_> = (0..PROGRAMS)
                .filter(|index| !is_expected(&programs[*index], *index, &ends[*index], may_begin))
                .map(|index| format!("{}: {}", programs[index], ends[index]))
                .collect();
            assert!(
                unexpected.is_empty(),
                "seed {seed}, hooks {hooks}, {workers}:\n{}",
                unexpected.join("\n")
            );
        }
    }
}
