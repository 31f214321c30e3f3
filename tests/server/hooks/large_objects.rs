//! Large objects of PostgreSQL, as PDO streams and as `pg_lo_*`: their content with the hook equals that without it, and a
//! request that uses one owns its connection.

use serde_json::json;

use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::hooked::forget;
use svc_testing::tasks::{Mode, TaskServer};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $db, $pg, $lob, $own; }
const LONG = 300000;
function connect(): PDO { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function connect_pg() { return pg_connect('host=127.0.0.1 port=' . PORT . ' dbname=' . NAME . ' user=' . USER . ' password=' . PASSWORD, PGSQL_CONNECT_FORCE_NEW); }
function bytes(): string { return substr(str_repeat(implode(range('a', 'z')), LONG), 0, LONG); }
function as_streams()
{
    $db = connect();
    $db->beginTransaction();
    $id = $db->pgsqlLOBCreate();
    $stream = $db->pgsqlLOBOpen($id, 'w+');
    $results = [fwrite($stream, bytes()), ftell($stream), fseek($stream, 26 * 100), fgets($stream, 27), fseek($stream, -3, SEEK_END), fread($stream, 10), feof($stream)];
    $results[] = [rewind($stream), md5(stream_get_contents($stream)) === md5(bytes()), fread($stream, 1), feof($stream)];
    rewind($stream);
    $memory = fopen('php://memory', 'r+');
    $results[] = [stream_copy_to_stream($stream, $memory, 1000), stream_get_contents($memory, -1, 974), fflush($stream)];
    fclose($stream);
    $insert = $db->prepare('INSERT INTO things (id, bytes) VALUES (?, ?)');
    $text = fopen('php://memory', 'r+');
    fwrite($text, bytes());
    rewind($text);
    $insert->bindValue(1, $id);
    $insert->bindParam(2, $text, PDO::PARAM_LOB);
    $insert->execute();
    $select = $db->prepare('SELECT bytes FROM things WHERE id = ?');
    $select->execute([$id]);
    $select->bindColumn(1, $column, PDO::PARAM_LOB);
    $select->fetch(PDO::FETCH_BOUND);
    $results[] = md5(stream_get_contents($column)) === md5(bytes());
    $read = $db->pgsqlLOBOpen($id);
    $results[] = fread($read, 5);
    $results[] = $db->commit();
    $results[] = tried(fn () => @fread($read, 100000) === '');
    $db->beginTransaction();
    $results[] = [$db->pgsqlLOBUnlink($id), tried(fn () => $db->pgsqlLOBOpen($id))];
    return preg_replace('/\d{5,}/', '#', json_encode($results));
}
function as_functions()
{
    $db = connect_pg();
    pg_query($db, 'BEGIN');
    $id = pg_lo_create($db);
    $lob = pg_lo_open($db, $id, 'w');
    $results = [pg_lo_write($lob, bytes()), pg_lo_tell($lob), pg_lo_seek($lob, 2600, PGSQL_SEEK_SET), pg_lo_read($lob, 26), pg_lo_truncate($lob, 2610), pg_lo_seek($lob, 0, PGSQL_SEEK_SET)];
    ob_start();
    $results[] = pg_lo_read_all($lob);
    $results[] = [strlen(ob_get_clean()), pg_lo_close($lob), pg_lo_export($db, $id, DIR . '/exported'), filesize(DIR . '/exported')];
    $other = pg_lo_import($db, DIR . '/exported');
    $lob = pg_lo_open($db, $other, 'r');
    $results[] = [pg_lo_read($lob, 10), pg_lo_unlink($db, $other), pg_query($db, 'COMMIT') !== false];
    $results[] = tried(fn () => @pg_lo_read($lob, 10));
    $results[] = tried(fn () => @pg_lo_open($db, $other, 'r'));
    return $results;
}
function open_lob(PDO $db)
{
    $db->beginTransaction();
    $stream = $db->pgsqlLOBOpen($db->pgsqlLOBCreate(), 'w+');
    fwrite($stream, bytes());
    rewind($stream);
    Held::$lob = $stream;
    mark('inside');
    until('go');
    return md5(stream_get_contents($stream)) === md5(bytes());
}
function open_joint() { return open_lob(Held::$db); }
function open_own() { return open_lob(Held::$own = connect()); }
function reads_lob() { mark('look'); return fread(Held::$lob, 10); }
function writes_lob() { mark('look'); return fwrite(Held::$lob, 'x'); }
function closes_lob() { return [@fclose(Held::$lob), error_get_last()['message'] ?? null]; }
function counts() { mark('look'); return Held::$db->query('SELECT count(*) FROM pg_largeobject')->fetchColumn(); }
function open_pg()
{
    pg_query(Held::$pg, 'BEGIN');
    Held::$lob = pg_lo_open(Held::$pg, pg_lo_create(Held::$pg), 'w');
    pg_lo_write(Held::$lob, bytes());
    pg_lo_seek(Held::$lob, 0, PGSQL_SEEK_SET);
    mark('inside');
    until('go');
    return md5(pg_lo_read(Held::$lob, LONG)) === md5(bytes());
}
function reads_pg() { mark('look'); return @pg_lo_read(Held::$lob, 10); }
"#;

fn server(database: &Database) -> TaskServer {
    let constants = json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD,
        "NAME": database.name(), "PORT": database.address().port()});
    // A use after free reads no valid data.
    server_with(CODE, &constants).set("USE_ZEND_ALLOC", "0").set("MALLOC_PERTURB_", "165")
}

#[test]
fn large_objects_have_the_same_contents_without_the_hook() {
    let Some(database) = databases::postgres() else { return };
    database.query("CREATE TABLE things (id OID, bytes BYTEA)");
    let server = server(&database);
    let [plain, hooked] = ["none", "net"].map(|hooks| server.clone().set("RUNTIME_HOOKS", hooks));
    let [plain, hooked] = [plain.start(Mode::Worker), hooked.start(Mode::Worker)];
    for function in ["as_streams", "as_functions"] {
        let expected = plain.tell(function);
        println!("{expected}");
        assert_eq!(hooked.tell(function), expected, "{function}");
        assert_eq!(hooked.tell_in_task(function), expected, "{function} in a task");
    }
}

#[test]
fn a_large_object_has_the_owner_of_its_connection() {
    const CLOSED: &str = "(): supplied resource is not a valid stream resource";
    let Some(database) = databases::postgres() else { return };
    let server =
        server(&database).start_with(Mode::Worker, "Held::$db = connect(); Held::$pg = connect_pg();");
    for (opens, other, expected) in [
        ("open_joint", "reads_lob", CLOSED),
        ("open_joint", "writes_lob", CLOSED),
        ("open_own", "reads_lob", CLOSED),
        ("open_own", "writes_lob", CLOSED),
        ("open_pg", "reads_pg", "false"),
    ] {
        println!("{opens} {other}");
        forget(&server, &["inside", "go"]);
        let mut one = server.send(opens, "0");
        server.until("inside");
        let mut two = looks_in_vain(&server, other, "0");
        server.mark("go");
        answers(&mut one, "true");
        // Its transaction has ended with its request, and its stream with the transaction.
        let text = two.response().text();
        assert!(text.ends_with(expected), "{text}");
        assert_eq!(server.tell("counts"), "0");
    }
}

#[test]
fn a_large_object_of_another_request_cannot_be_closed() {
    let Some(database) = databases::postgres() else { return };
    let server = server(&database).start_with(Mode::Worker, "Held::$db = connect();");
    for opens in ["open_joint", "open_own"] {
        forget(&server, &["inside", "go"]);
        let mut one = server.send(opens, "0");
        server.until("inside");
        assert_eq!(
            server.tell("closes_lob"),
            r#"[false,"fclose(): cannot close the provided stream, as it is in use"]"#
        );
        server.mark("go");
        answers(&mut one, "true");
    }
}
