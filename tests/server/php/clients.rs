//! The HTTP and database clients that applications use, in Debian's packages.

use serde_json::{Value, json};

use svc_testing::Svc;
use svc_testing::answering::{answer, script};
use svc_testing::backend::Backend;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;

/// Sends a request with the named library.
const CLIENTS: &str = r#"
// The packages are older than this PHP, which deprecates some of their code.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
require CLASSES . '/autoload.php';

function answer(): mixed
{
    switch ($_GET['through']) {
        case 'guzzle':
            return (string) (new GuzzleHttp\Client())->get(URL)->getBody();
        case 'guzzle-at-once':
            $client = new GuzzleHttp\Client();
            $promises = array_map(fn () => $client->getAsync(URL), range(1, 3));
            return array_map(fn ($response) => (string) $response->getBody(), GuzzleHttp\Promise\Utils::unwrap($promises));
        case 'symfony-curl':
            return (new Symfony\Component\HttpClient\CurlHttpClient())->request('GET', URL)->getContent();
        case 'symfony-native':
            return (new Symfony\Component\HttpClient\NativeHttpClient())->request('GET', URL)->getContent();
        case 'dbal':
            return Doctrine\DBAL\DriverManager::getConnection(DATABASE)->fetchOne('SELECT ?', ['wombat']);
        case 'predis':
            $redis = new Predis\Client(REDIS);
            $redis->set('animal', 'wombat');
            return $redis->get('animal');
    }
}
"#;

/// Returns the answer of a client that has these constants.
fn asked(through: &str, mut constants: Value) -> Option<Value> {
    constants["CLASSES"] = fetched("clients")?.into();
    let svc = Svc::start(&[("index.php", &script(CLIENTS, &constants))], &[]);
    Some(answer(&svc, &format!("/?through={through}")))
}

#[test]
fn guzzle_and_symfony_fetch_a_page() {
    let backend = Backend::tcp(|visit| {
        while visit.request()?.starts_with("GET /page ") {
            visit.answer("wombat")?;
        }
        Ok(())
    });
    let url = format!("http://{}/page", backend.address());
    for through in ["guzzle", "symfony-curl", "symfony-native"] {
        let Some(answer) = asked(through, json!({"URL": url})) else { return };
        assert_eq!(answer, json!("wombat"), "{through}");
    }
    let Some(answers) = asked("guzzle-at-once", json!({"URL": url})) else { return };
    assert_eq!(answers, json!(["wombat", "wombat", "wombat"]));
}

#[test]
fn doctrine_dbal_queries_both_databases() {
    for (database, driver) in [
        (databases::mariadb(), "pdo_mysql"),
        (databases::mariadb(), "mysqli"),
        (databases::postgres(), "pdo_pgsql"),
    ] {
        let Some(database) = database else { return };
        let constants = json!({"DATABASE": {
            "driver": driver, "host": "127.0.0.1", "port": database.address().port(),
            "user": USER, "password": PASSWORD, "dbname": database.name(),
        }});
        let Some(answer) = asked("dbal", constants) else { return };
        assert_eq!(answer, json!("wombat"), "{driver}");
    }
}

#[test]
fn predis_reads_the_values_that_it_wrote() {
    let Some(store) = databases::redis() else { return };
    let Some(answer) = asked("predis", json!({"REDIS": format!("tcp://{}", store.address())})) else {
        return;
    };
    assert_eq!(answer, json!("wombat"));
}
