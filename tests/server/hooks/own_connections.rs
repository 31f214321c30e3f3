//! Objects that wrap a connection, with an instance for each request: Doctrine DBAL, Laravel, Predis, and a class that
//! refers to itself. Requests with separate instances do not wait for each other, and the recipes are those of
//! docs/hooks.md.

use serde_json::{Value, json};

use svc_testing::client::eventually;
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskSvc};
use svc_testing::turns::{answers, server_with};

/// The number of requests that have waited for a connection.
const WAITS: &str = "svc_connection_wait_us_count";

const FIBERS: &str = r#"svc_worker_request_fibers_active{worker="0"}"#;

const CODE: &str = r#"
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
class Held { public static $db; }
class Wrapper
{
    private $self, $pdo;
    public function __construct() { $this->self = [[$this]]; }
    private function pdo() { return $this->pdo ??= new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
    public function beginTransaction() { return $this->pdo()->beginTransaction(); }
    public function commit() { return $this->pdo()->commit(); }
    public function add() { return $this->pdo()->exec('INSERT INTO money VALUES (1)'); }
    public function count() { return (int) $this->pdo()->query('SELECT count(*) FROM money')->fetchColumn(); }
}
class Money
{
    public function __construct(private $add, private $count) { }
    public function add() { return ($this->add)(Held::$db); }
    public function count() { return (int) ($this->count)(Held::$db); }
}
class Sql { public static ?Money $money = null; }
function own(string $class, callable $factory, ?callable $reset) { Held::$db = Svc\per_request($class, $factory, $reset, 2); }
function count_money() { return Sql::$money?->count() ?? Held::$db->count(); }
function add_money() { return Sql::$money?->add() ?? Held::$db->add(); }
/** One of two concurrent requests that each have an instance. */
function both($n) { $count = count_money(); mark('both'); until('apart'); return $count; }
function begin()
{
    Held::$db->beginTransaction();
    add_money();
    mark('inside');
    until('go');
    Held::$db->commit();
    return count_money();
}
function leaves_open() { Held::$db->beginTransaction(); add_money(); return true; }
function look() { return count_money(); }
"#;

fn constants_of(database: &Database, classes: &str) -> Value {
    json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD, "NAME": database.name(),
        "PORT": database.address().port(), "CLASSES": classes})
}

/// Returns the number of other connections to the database.
fn connections(database: &Database) -> i64 {
    let counted = database.query(if database.dsn().starts_with("mysql") {
        "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    } else {
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    });
    let cell = &counted[0][0];
    cell.as_i64().unwrap_or_else(|| cell.as_str().unwrap().parse().unwrap())
}

/// Waits until no request is active: kept connections are then free for other requests.
fn at_rest(server: &TaskSvc) {
    eventually("no request is active", || server.svc.metric(FIBERS) == 0.0);
}

/// Checks that two requests with separate instances do not wait for each other, however often they use them, and that the
/// next request does not see what one leaves open.
fn are_apart(database: &Database, server: &TaskSvc) {
    assert_eq!(server.tell("look"), "0");
    at_rest(server);
    let mut two: Vec<_> = (0..2).map(|n| server.send("both", &n.to_string())).collect();
    eventually("both have an instance", || server.lines("both").len() == 2);
    server.mark("apart");
    two.iter_mut().for_each(|client| answers(client, "0"));
    at_rest(server);
    for round in 0..3 {
        let mut one = server.send("begin", "0");
        server.until("inside");
        assert_eq!(server.tell("look"), round.to_string());
        server.mark("go");
        answers(&mut one, &(round + 1).to_string());
        at_rest(server);
        server.unmark(&["inside", "go"]);
    }
    for _ in 0..2 {
        server.tell("leaves_open");
        at_rest(server);
        assert_eq!(server.tell("look"), "3");
        at_rest(server);
    }
    assert_eq!(server.svc.metric(WAITS), 0.0);
    eventually("there are those of two instances", || connections(database) == 2);
}

fn with_table(database: Option<Database>) -> Option<Database> {
    if let Some(database) = &database {
        database.query("CREATE TABLE money (amount INTEGER)");
    }
    database
}

/// Returns the example below a heading of the page.
fn recipe(heading: &str) -> String {
    let page = include_str!("../../../docs/hooks.md");
    let section = page.split(&format!("### {heading}\n")).nth(1).expect("the page has the heading");
    let block = section.split("```php\n").nth(1).and_then(|rest| rest.split("```").next());
    format!("<?php\n{}", block.expect("an example follows"))
}

#[test]
fn instances_of_a_class_that_wraps_a_connection_and_refers_to_itself() {
    let Some(database) = with_table(databases::mariadb()) else { return };
    let server = server_with(CODE, &constants_of(&database, ""));
    let boot = "own(Wrapper::class, fn () => new Wrapper(), fn () => true);";
    are_apart(&database, &server.start_with(Mode::Worker, boot));
}

const DOCTRINE: &str = r#"
require CLASSES . '/autoload.php';
$container = new class { public array $services = []; public function set(string $id, object $service): void { $this->services[$id] = $service; } };
$parameters = ['driver' => DRIVER, 'host' => '127.0.0.1', 'port' => PORT, 'user' => USER, 'password' => PASSWORD, 'dbname' => NAME];
$configuration = new Doctrine\ORM\Configuration();
$configuration->setMetadataDriverImpl(new Doctrine\ORM\Mapping\Driver\AttributeDriver([DIR]));
$configuration->setProxyDir(DIR);
$configuration->setProxyNamespace('Proxies');
require DIR . '/recipe.php';
"#;

const DBAL: &str = r#"
Held::$db = $container->services['doctrine.dbal.default_connection'];
Sql::$money = new Money(fn ($db) => $db->insert('money', ['amount' => 1]), fn ($db) => $db->fetchOne('SELECT count(*) FROM money'));
"#;

#[test]
fn connections_of_doctrine() {
    let Some(classes) = fetched("clients") else { return };
    let databases = [
        ("pdo_mysql", databases::mariadb()),
        ("mysqli", databases::mariadb()),
        ("pdo_pgsql", databases::postgres()),
        ("pgsql", databases::postgres()),
    ];
    for (driver, database) in databases {
        let Some(database) = with_table(database) else { return };
        let mut constants = constants_of(&database, &classes);
        constants["DRIVER"] = json!(driver);
        let server = server_with(CODE, &constants).file("recipe.php", &recipe("Symfony and Doctrine"));
        println!("{driver}");
        are_apart(&database, &server.start_with(Mode::Worker, &format!("{DOCTRINE}{DBAL}")));
    }
}

const ENTITIES: &str = r#"
#[Doctrine\ORM\Mapping\Entity, Doctrine\ORM\Mapping\Table('money')]
class Coin
{
    #[Doctrine\ORM\Mapping\Id, Doctrine\ORM\Mapping\Column, Doctrine\ORM\Mapping\GeneratedValue] public ?int $id = null;
    #[Doctrine\ORM\Mapping\Column] public int $amount = 1;
}
Held::$db = $container->services['doctrine.orm.default_entity_manager'];
Sql::$money = new Money(
    function ($manager) { $manager->persist(new Coin()); $manager->flush(); return true; },
    fn ($manager) => count($manager->getRepository(Coin::class)->findAll()),
);
"#;

#[test]
fn entity_managers_of_doctrine() {
    let (Some(classes), Some(database)) = (fetched("clients"), databases::mariadb()) else { return };
    database.query("CREATE TABLE money (id INTEGER AUTO_INCREMENT PRIMARY KEY, amount INTEGER)");
    let mut constants = constants_of(&database, &classes);
    constants["DRIVER"] = json!("pdo_mysql");
    let server = server_with(CODE, &constants).file("recipe.php", &recipe("Symfony and Doctrine"));
    are_apart(&database, &server.start_with(Mode::Worker, &format!("{DOCTRINE}{ENTITIES}")));
}

const LARAVEL: &str = r#"
spl_autoload_register(function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    foreach (['Illuminate/Support/', 'Illuminate/Collections/', 'Illuminate/Macroable/'] as $folder) {
        $file = CLASSES . '/' . str_replace('Illuminate/Support/', $folder, $path);
        if (is_file($file)) { require $file; return; }
    }
});
require CLASSES . '/Illuminate/Collections/helpers.php';
require CLASSES . '/Illuminate/Support/helpers.php';
$app = new Illuminate\Container\Container();
$mysql = ['driver' => 'mysql', 'host' => '127.0.0.1', 'port' => PORT, 'username' => USER, 'password' => PASSWORD, 'database' => NAME];
$app['config'] = new Illuminate\Config\Repository(['database' => ['default' => 'mysql', 'connections' => ['mysql' => $mysql]]]);
$app['events'] = new Illuminate\Events\Dispatcher($app);
$provider = new Illuminate\Database\DatabaseServiceProvider($app);
$provider->register();
$provider->boot();
require DIR . '/recipe.php';
Held::$db = $app['db'];
class Coin extends Illuminate\Database\Eloquent\Model { protected $table = 'money'; public $timestamps = false; protected $attributes = ['amount' => 1]; }
Sql::$money = new Money(fn ($db) => (new Coin())->save(), fn ($db) => $db->table('money')->count());
"#;

#[test]
fn connections_of_laravel() {
    let (Some(classes), Some(database)) = (fetched("laravel"), databases::mariadb()) else { return };
    database.query("CREATE TABLE money (id INTEGER AUTO_INCREMENT PRIMARY KEY, amount INTEGER)");
    let server = server_with(CODE, &constants_of(&database, &classes)).file("recipe.php", &recipe("Laravel"));
    are_apart(&database, &server.start_with(Mode::Worker, LARAVEL));
}

const SHARED: &str = r#"
own(PDO::class, fn () => new PDO(DSN, USER, PASSWORD), fn () => true);
class Shared { public static $db; }
Shared::$db = new PDO(DSN, USER, PASSWORD);
function ask($db) { return (int) $db->query('SELECT 1')->fetchColumn(); }
function shared_first() { $one = ask(Shared::$db); mark('shared'); until('go'); return [$one, tried(fn () => ask(Held::$db))]; }
function own_first() { $one = ask(Held::$db); mark('own'); until('go'); return [$one, tried(fn () => ask(Shared::$db))]; }
"#;

#[test]
fn instances_and_a_connection_that_is_shared_can_be_taken_in_either_order() {
    let Some(database) = databases::mariadb() else { return };
    let server = server_with(CODE, &constants_of(&database, "")).start_with(Mode::Worker, SHARED);
    let mut shared = server.send("shared_first", "0");
    server.until("shared");
    let mut own: Vec<_> = (0..2).map(|_| server.send("own_first", "0")).collect();
    eventually("all instances are in use", || server.lines("own").len() == 2);
    server.mark("go");
    // The connection is at rest while its owner waits for an instance.
    for client in [&mut shared].into_iter().chain(&mut own) {
        answers(client, r#"[1,"1"]"#);
    }
}

const PREDIS: &str = r#"
require CLASSES . '/autoload.php';
own(Predis\Client::class, fn () => new Predis\Client(['port' => PORT]), fn () => true);
function waits() { return Held::$db->blpop(['list'], 20); }
function pushes() { return Held::$db->rpush('list', ['there']); }
"#;

#[test]
fn clients_that_keep_a_stream() {
    let (Some(classes), Some(store)) = (fetched("clients"), databases::redis()) else { return };
    let constants = json!({"PORT": store.address().port(), "CLASSES": classes});
    let server = server_with(CODE, &constants).start_with(Mode::Worker, PREDIS);
    for _ in 0..3 {
        let mut one = server.send("waits", "0");
        eventually("it waits", || server.svc.metric(FIBERS) == 1.0);
        assert_eq!(server.tell("pushes"), "1");
        answers(&mut one, r#"["list","there"]"#);
    }
    assert_eq!(server.svc.metric(WAITS), 0.0);
}
