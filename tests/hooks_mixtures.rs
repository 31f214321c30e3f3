//! Random requests that use connections, sessions, locks, places and stores in random order: what comes to an end without
//! hooks comes to the same end with them.
//!
//! Locks are taken in one order by all, so that no requests wait for each other's; anything else comes in between them.
//! `SVC_MIXTURE_SEED` is the first seed, `SVC_MIXTURES` how many there are.
#![cfg(feature = "php")]

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Mutex;

use serde_json::json;

use crate::databases::{self, PASSWORD, USER};
use crate::fetched::fetched;
use crate::tasks::{Mode, TaskServer};

const PROGRAMS: usize = 64;
const CLIENTS: usize = 12;

const CODE: &str = r#"
class Held { public static $db = [], $redis, $place; }
class Place { function open() { return 1; } }
function connect(): PDO { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function ask(PDO $db, string $token): void
{
    $statement = $db->prepare('SELECT ?');
    $statement->execute([$token]);
    $answer = $statement->fetchAll(PDO::FETCH_COLUMN)[0];
    if ($answer !== $token) { throw new Error("foreign row: $answer for $token"); }
}
function program(string $n): string
{
    set_time_limit(25);
    [$token, $steps] = explode('-', $n);
    $held = [];
    $own = null;
    try {
        foreach (explode('.', $steps) as $step) {
            [$kind, $which] = [$step[0], $step[1] ?? 0];
            switch ($kind) {
                case 'q': ask(Held::$db[$which], $token); break;
                case 't':
                    Held::$db[$which]->beginTransaction();
                    ask(Held::$db[$which], $token);
                    usleep(500);
                    Held::$db[$which]->rollBack();
                    break;
                case 'o': ask($own ??= connect(), $token); break;
                case 's': session_save_path(DIR); session_id("s$which"); session_start(['use_cookies' => false, 'cache_limiter' => '']); break;
                case 'f': $held[] = $file = fopen(DIR . "/lock$which", 'c'); flock($file, LOCK_EX); break;
                case 'p': Held::$place->open(); break;
                case 'c': while (!Held::$redis->set('lock', $token, ['nx', 'ex' => 60])) { usleep(2000); } $held['c'] = true; break;
                case 'r':
                    Held::$redis->set("of$token", $token);
                    if (Held::$redis->get("of$token") !== $token) { throw new Error('foreign value'); }
                    break;
                case 'm':
                    $got = Held::$redis->multi()->echo($token)->echo($token)->exec();
                    if ($got !== [$token, $token]) { throw new Error('foreign block: ' . json_encode($got)); }
                    break;
                case 'z': usleep(300); break;
            }
        }
    } finally {
        if (isset($held['c'])) { Held::$redis->del('lock'); }
    }
    return "done $token";
}
"#;

const BOOT: &str =
    "Held::$db = [connect(), connect()]; Held::$redis = new Redis; Held::$redis->connect('127.0.0.1', STORE);
    Held::$place = Svc\\per_request(Place::class, fn () => new Place, null, 1);";

/// Small numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % limit
    }

    /// Some of the locks, in order, and steps between them.
    fn program(&mut self, token: usize) -> String {
        let mut text = format!("{token}-z");
        for lock in ["s", "f0", "f1", "p", "c"] {
            for _ in 0..self.below(3) {
                let steps = ["q0", "q1", "q0", "t0", "t1", "o", "r", "m", "z"];
                let index = usize::try_from(self.below(steps.len() as u64)).unwrap();
                write!(text, ".{}", steps[index]).unwrap();
            }
            match self.below(3) {
                0 if lock == "s" => write!(text, ".s{}", self.below(2)).unwrap(),
                0 => write!(text, ".{lock}").unwrap(),
                _ => {}
            }
        }
        write!(text, ".q{}", self.below(2)).unwrap();
        text
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What becomes of the programs, in their order.
fn run(server: &TaskServer, programs: &[String]) -> Vec<String> {
    let server = server.start_with(Mode::Worker, BOOT);
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

#[test]
fn what_ends_without_hooks_ends_with_them() {
    let Some(((store, extensions), database)) =
        databases::redis().zip(fetched("php-extensions")).zip(databases::mariadb())
    else {
        return;
    };
    let constants =
        json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD, "STORE": store.address().port()})
            .to_string();
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
    let server = TaskServer::new(&format!("{define}\n{CODE}"));
    let server = server.directive(&format!("extension={extensions}/redis.so")).set("PHP_WORKERS", "1");
    let first = number("SVC_MIXTURE_SEED", 1);
    for seed in first..first + number("SVC_MIXTURES", 2) {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let programs: Vec<_> = (0..PROGRAMS).map(|token| numbers.program(token)).collect();
        // With two threads, requests also wait for each other across them.
        for (hooks, workers) in [("none", "1"), ("all", "1"), ("all", "2")] {
            let server = server.clone().set("RUNTIME_HOOKS", hooks).set("PHP_WORKERS", workers);
            for (index, end) in run(&server, &programs).iter().enumerate() {
                let expected = format!("200 \"done {index}\"");
                assert_eq!(*end, expected, "seed {seed}, hooks {hooks}, {workers}: {}", programs[index]);
            }
        }
    }
}
