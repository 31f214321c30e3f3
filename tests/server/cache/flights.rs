//! Requests that wait for the response to another one, stale responses, and purges.

use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};

/// Waits for a file `go` if the query has `hold`, and prints its number of runs.
const PAGE: (&str, &str) = (
    "page.php",
    r"<?php
    $runs = fopen(__DIR__ . '/runs', 'a');
    flock($runs, LOCK_EX); // until it is closed: no two runs read the same number
    fwrite($runs, 'x');
    $run = fstat($runs)['size'];
    fclose($runs);
    $go = __DIR__ . '/go' . ($_GET['go'] ?? '');
    while (isset($_GET['hold']) && !file_exists($go)) { usleep(1000); clearstatcache(); }
    foreach ($_GET['h'] ?? [] as $field) header($field, false);
    if (isset($_GET['etag'])) {
        header('ETag: \'x\'');
        if (isset($_SERVER['HTTP_IF_NONE_MATCH'])) { http_response_code(304); return; }
    }
    if (file_exists(__DIR__ . '/fail')) { http_response_code(503); }
    if (isset($_GET['early'])) { echo 'early '; ob_flush(); flush(); while (!file_exists($go)) { usleep(1000); clearstatcache(); } }
    echo 'run ', $run, str_repeat('.', (int) ($_GET['n'] ?? 0));",
);

const PURGE: (&str, &str) = (
    "purge.php",
    r"<?php echo json_encode(match ($_GET['what']) {
        'tags' => Svc\Cache\purge_tags(...$_GET['names'] ?? []),
        'url' => Svc\Cache\purge_url($_GET['names'][0]),
        'clear' => Svc\Cache\clear(),
        'task' => Svc\async(static fn () => Svc\Cache\purge_tags('x') + Svc\Cache\clear())->await(),
        'bad' => (static function () { try { Svc\Cache\purge_url('a'); } catch (ValueError $e) { return $e->getMessage(); } })(),
        'types' => (static function () { try { Svc\Cache\purge_tags('a', []); } catch (TypeError $e) { return 'type'; } })(),
    });",
);

const APP: (&str, &str) = (
    "app.php",
    r"<?php Svc\Worker::serve(static function () {
        require __DIR__ . (str_starts_with($_SERVER['REQUEST_URI'], '/purge') ? '/purge.php' : '/page.php');
    });",
);

/// Scripts that call functions of svc.
const IN_PROCESS: (&str, &str) = ("EXECUTOR", "sapi");

const WORKER_MODE: [(&str, &str); 2] = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php")];

fn cached(settings: &[(&str, &str)]) -> Svc {
    let own = [("RESPONSE_CACHE_BYTES", "16M"), ("PHP_WORKERS", "2"), ("QUEUE_WAIT_TIMEOUT_MS", "20000")];
    Svc::start(&[PAGE, PURGE, APP], &[&own, settings].concat())
}

/// Acts on a server with a cache in each mode of this build.
fn in_each_mode(settings: &[(&str, &str)], act: impl Fn(&Svc)) {
    act(&cached(settings));
    if cfg!(feature = "worker") {
        act(&cached(&[settings, &WORKER_MODE].concat()));
    }
}

const MINUTE: &str = "h[]=Cache-Control:max-age=60";

fn ask(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
    client
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go{name}")), "").unwrap();
}

fn status_of(response: &Response) -> &str {
    response.field("cache-status").unwrap_or("none")
}

fn outcome(svc: &Svc, word: &str) -> f64 {
    svc.metric(&format!("svc_response_cache_requests_total{{result=\"{word}\"}}"))
}

fn runs(svc: &Svc) -> usize {
    std::fs::read(svc.root().join("runs")).map_or(0, |runs| runs.len())
}

/// Waits until all requests that were sent have been received.
fn received(svc: &Svc, count: usize) {
    eventually("all have arrived", || svc.metric("svc_requests_total") >= count as f64);
}

#[test]
fn one_script_answers_all_concurrent_requests() {
    in_each_mode(&[], |svc| {
        let page = format!("/page.php?hold&{MINUTE}");
        let mut leader = ask(svc, &page);
        eventually("it runs", || runs(svc) == 1);
        let mut followers: Vec<Client> = (0..20).map(|_| ask(svc, &page)).collect();
        received(svc, 21);
        assert_eq!(svc.metric("svc_pending_requests"), 1.0, "followers are not pending");
        go(svc, "");
        assert_eq!(leader.response().text(), "run 1");
        for follower in &mut followers {
            let response = follower.response();
            assert_eq!(
                (response.text().as_str(), status_of(&response)),
                ("run 1", "svc; fwd=miss; collapsed")
            );
        }
        assert_eq!(runs(svc), 1);
        eventually("all are counted", || outcome(svc, "collapsed") == 20.0);
    });
}

#[test]
fn followers_of_a_private_response_run_on_their_own() {
    in_each_mode(&[("PHP_WORKERS", "4")], |svc| {
        let page = "/page.php?hold&h[]=Cache-Control:private";
        let mut leader = ask(svc, page);
        eventually("it runs", || runs(svc) == 1);
        let mut others: Vec<Client> = (0..3).map(|_| ask(svc, page)).collect();
        received(svc, 4);
        assert_eq!(runs(svc), 1);
        go(svc, "");
        let mut texts: Vec<String> = others.iter_mut().map(|client| client.response().text()).collect();
        texts.push(leader.response().text());
        texts.sort();
        assert_eq!(texts, ["run 1", "run 2", "run 3", "run 4"]);
        // The next ones do not wait for each other.
        std::fs::remove_file(svc.root().join("go")).unwrap();
        let mut next: Vec<Client> = (0..2).map(|_| ask(svc, page)).collect();
        eventually("both run", || runs(svc) == 6);
        go(svc, "");
        next.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    });
}

#[test]
fn requests_whose_responses_are_not_stored_wait_for_one_that_is() {
    in_each_mode(&[], |svc| {
        let page = format!("/page.php?hold&{MINUTE}");
        let mut leader = ask(svc, &page);
        eventually("it runs", || runs(svc) == 1);
        let mut others: Vec<Client> = ["HEAD", "GET"]
            .map(|method| {
                let mut client = svc.client();
                client.send(format!(
                    "{method} {page} HTTP/1.1\r\nHost: test\r\nX-Forwarded-Host: other\r\n\r\n"
                ));
                client
            })
            .into();
        received(svc, 3);
        go(svc, "");
        assert_eq!(leader.response().text(), "run 1");
        let head = others[0].head_only();
        assert_eq!((head.field("content-length"), status_of(&head)), (Some("5"), "svc; fwd=miss; collapsed"));
        assert_eq!(others[1].response().text(), "run 1");
        assert_eq!(runs(svc), 1);
    });
}

#[test]
fn one_leads_after_an_authorized_response_and_after_a_304() {
    in_each_mode(&[], |svc| {
        for (name, field) in [("a", "Authorization: Basic YTpi"), ("b", "If-None-Match: \"x\"")] {
            let before = runs(svc);
            let page = format!("/page.php?hold&go={name}&etag&{MINUTE}");
            let mut leader = svc.client();
            leader.send(format!("GET {page} HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"));
            eventually("it runs", || runs(svc) == before + 1);
            let count = svc.metric("svc_requests_total") as usize;
            let mut others: Vec<Client> = (0..5).map(|_| ask(svc, &page)).collect();
            received(svc, count + 5);
            go(svc, name);
            leader.response();
            let statuses: Vec<Response> = others.iter_mut().map(Client::response).collect();
            // Those that are released later than the others find it stored.
            let is_shared = |response: &&Response| {
                status_of(response).ends_with("collapsed") || status_of(response).starts_with("svc; hit")
            };
            assert_eq!((statuses.iter().filter(is_shared).count(), runs(svc)), (4, before + 2), "{field}");
        }
    });
}

#[test]
fn followers_of_a_response_that_is_too_large_do_not_wait_for_each_other() {
    let svc = cached(&[("RESPONSE_CACHE_BYTES", "1M"), ("PHP_WORKERS", "3")]);
    // With its compressed copies, it would take more than a quarter of the memory.
    let page = format!("/page.php?hold&n=200000&{MINUTE}");
    let mut leader = ask(&svc, &page);
    eventually("it runs", || runs(&svc) == 1);
    let mut others: Vec<Client> = (0..2).map(|_| ask(&svc, &page)).collect();
    received(&svc, 3);
    go(&svc, "");
    assert_eq!(leader.response().status, 200);
    others.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    std::fs::remove_file(svc.root().join("go")).unwrap();
    let mut next: Vec<Client> = (0..2).map(|_| ask(&svc, &page)).collect();
    eventually("both run", || runs(&svc) == 5);
    go(&svc, "");
    next.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

#[test]
fn followers_of_a_response_that_needs_validation_run_on_their_own() {
    let svc = cached(&[("PHP_WORKERS", "4")]);
    for (index, cache_control) in ["no-cache", "max-age=0"].iter().enumerate() {
        let page = format!("/page.php?hold&go={index}&h[]=Cache-Control:{cache_control}&h[]=ETag:a");
        let first = 3 * index + 1;
        let mut leader = ask(&svc, &page);
        eventually("it runs", || runs(&svc) == first);
        let mut others: Vec<Client> = (0..2).map(|_| ask(&svc, &page)).collect();
        received(&svc, first + 2);
        go(&svc, &index.to_string());
        assert_eq!(leader.response().text(), format!("run {first}"), "{cache_control}");
        let mut texts: Vec<String> = others.iter_mut().map(|client| client.response().text()).collect();
        texts.sort();
        assert_eq!(texts, [first + 1, first + 2].map(|run| format!("run {run}")), "{cache_control}");
    }
}

#[test]
fn a_follower_waits_no_longer_than_for_a_worker() {
    let svc = cached(&[("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
    // The first process may take longer to start than a request waits.
    eventually("there is a worker", || svc.get("/page.php").text() == "run 1");
    let refused = || svc.metric("svc_admission_refused_total{reason=\"wait_timeout\"}");
    let before = refused();
    let page = format!("/page.php?hold&{MINUTE}");
    let mut leader = ask(&svc, &page);
    eventually("it runs", || runs(&svc) == 2);
    let response = ask(&svc, &page).response();
    assert_eq!((response.status, response.text().as_str()), (529, "Site is overloaded"));
    assert_eq!(refused(), before + 1.0);
    go(&svc, "");
    assert_eq!(leader.response().text(), "run 2");
}

#[test]
fn followers_are_bounded() {
    let svc = cached(&[("QUEUE_MAX_WAITING", "2")]);
    let page = format!("/page.php?hold&{MINUTE}");
    let mut leader = ask(&svc, &page);
    eventually("it runs", || runs(&svc) == 1);
    let mut followers: Vec<Client> = (0..2).map(|_| ask(&svc, &page)).collect();
    received(&svc, 3);
    assert_eq!(ask(&svc, &page).response().status, 529);
    assert_eq!(svc.metric("svc_admission_refused_total{reason=\"waiting_full\"}"), 1.0);
    go(&svc, "");
    assert_eq!(leader.response().status, 200);
    followers.iter_mut().for_each(|client| assert_eq!(client.response().text(), "run 1"));
}

#[test]
fn the_next_one_leads_if_the_first_client_leaves() {
    let svc = cached(&[("PHP_WORKERS", "1")]);
    let blocker = ask(&svc, "/page.php?hold&go=blocker");
    eventually("the worker is busy", || svc.metric("svc_busy_workers") == 1.0);
    let page = format!("/page.php?{MINUTE}");
    let leader = ask(&svc, &page);
    received(&svc, 2);
    let mut followers: Vec<Client> = (0..3).map(|_| ask(&svc, &page)).collect();
    received(&svc, 5);
    drop(leader);
    eventually("it has left", || svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}") == 1.0);
    go(&svc, "blocker");
    let texts: Vec<String> = followers.iter_mut().map(|client| client.response().text()).collect();
    assert_eq!(texts, ["run 2", "run 2", "run 2"]);
    drop(blocker);
}

#[test]
fn followers_are_notified_when_the_server_stops() {
    let mut svc = cached(&[("DRAIN_TIMEOUT_SECONDS", "1")]);
    let page = format!("/page.php?hold&{MINUTE}");
    let mut leader = ask(&svc, &page);
    eventually("it runs", || runs(&svc) == 1);
    let mut follower = ask(&svc, &page);
    received(&svc, 2);
    svc.stop();
    assert_eq!((leader.response().status, follower.response().status), (503, 503));
}

#[test]
fn a_stale_response_answers_while_one_request_refreshes_it() {
    in_each_mode(&[("ACCESS_LOG", "all")], |svc| {
        let page = "/page.php?h[]=Cache-Control:max-age=1,stale-while-revalidate=600";
        assert_eq!(svc.get(page).text(), "run 1");
        eventually("it is stale", || {
            let response = svc.get(page);
            status_of(&response).contains("ttl=-") || svc.metric("svc_response_cache_refreshes_total") > 0.0
        });
        eventually("there is a new one", || svc.get(page).text() != "run 1");
        assert!(svc.metric("svc_response_cache_stale_total{reason=\"revalidate\"}") >= 1.0);
        let refreshes = svc.metric("svc_response_cache_refreshes_total");
        // A refresh is no request, and its work is counted like any other.
        eventually("the scripts are counted", || svc.metric("svc_queue_wait_us_count") >= 1.0 + refreshes);
        let answered =
            || -> f64 { ["hit", "miss", "stale", "collapsed"].iter().map(|word| outcome(svc, word)).sum() };
        eventually("all are counted", || answered() == svc.metric("svc_requests_total"));
        assert_eq!(svc.metric("svc_abandoned_work_total"), 0.0);
    });
}

#[test]
fn a_refresh_is_not_aborted_for_lack_of_a_client() {
    let script = r"<?php
        header('Cache-Control: max-age=1, stale-while-revalidate=600');
        file_put_contents(__DIR__ . '/runs', 'x', FILE_APPEND);
        clearstatcache();
        $run = filesize(__DIR__ . '/runs');
        for ($i = 0; $i < 5; $i++) { echo str_repeat('x', 50000); ob_flush(); flush(); flush(); }
        echo 'run ', $run, ' ', connection_status();";
    let svc = Svc::start(&[("big.php", script)], &[("RESPONSE_CACHE_BYTES", "16M")]);
    assert!(svc.get("/big.php").text().ends_with("xrun 1 0"));
    eventually("it is refreshed", || svc.get("/big.php").text().ends_with("xrun 2 0"));
}

#[test]
fn a_stale_response_answers_for_a_script_that_fails() {
    in_each_mode(&[("RESPONSE_CACHE_STALE_SECONDS", "600")], |svc| {
        let pages = [
            ("/page.php?a&h[]=Cache-Control:max-age=0", true),
            ("/page.php?b&h[]=Cache-Control:max-age=0,must-revalidate&h[]=ETag:a", false),
            ("/page.php?c&h[]=Cache-Control:s-maxage=0&h[]=ETag:a", false),
        ];
        for (page, _) in pages {
            assert_eq!(svc.get(page).status, 200);
        }
        std::fs::write(svc.root().join("fail"), "").unwrap();
        for (page, is_answered) in pages {
            let response = svc.get(page);
            assert_eq!(response.status, if is_answered { 200 } else { 503 }, "{page}");
            assert_eq!(status_of(&response).contains("detail=error"), is_answered, "{page}");
        }
        assert_eq!(svc.metric("svc_response_cache_stale_total{reason=\"error\"}"), 1.0);
    });
}

#[test]
fn a_stale_response_answers_in_place_of_a_refusal() {
    let settings = [
        ("RESPONSE_CACHE_STALE_SECONDS", "600"),
        ("QUEUE_WAIT_TIMEOUT_MS", "0"),
        ("QUEUE_CAPACITY", "1"),
        ("PHP_WORKERS", "1"),
    ];
    let svc = cached(&settings);
    let page = "/page.php?h[]=Cache-Control:max-age=0";
    let strict = "/page.php?s&h[]=Cache-Control:max-age=0,must-revalidate&h[]=ETag:a";
    // Without an idle worker, a request is refused at once.
    for (page, run) in [(page, "run 1"), (strict, "run 2")] {
        eventually("the worker is idle", || svc.metric("svc_busy_workers") == 0.0);
        assert_eq!(svc.get(page).text(), run);
    }
    eventually("the worker is idle", || svc.metric("svc_busy_workers") == 0.0);
    let mut held: Vec<Client> = vec![ask(&svc, "/page.php?hold&1")];
    eventually("the worker is busy", || svc.metric("svc_busy_workers") == 1.0);
    held.push(ask(&svc, "/page.php?hold&2"));
    eventually("the queue is full", || svc.metric("svc_queue_depth") == 1.0);
    let response = svc.get(page);
    assert_eq!((response.status, response.text().as_str()), (200, "run 1"));
    assert!(status_of(&response).ends_with("; detail=overload"), "{}", status_of(&response));
    assert_eq!(svc.metric("svc_admission_refused_total{reason=\"queue_full\"}"), 0.0, "it is not a refusal");
    assert_eq!(svc.get(strict).status, 529);
    assert_eq!(svc.metric("svc_response_cache_stale_total{reason=\"overload\"}"), 1.0);
    go(&svc, "");
    held.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

#[test]
fn a_follower_gets_the_stale_response_when_its_wait_is_over() {
    let svc = cached(&[("RESPONSE_CACHE_STALE_SECONDS", "600"), ("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
    let page = "/page.php?hold&h[]=Cache-Control:max-age=0";
    go(&svc, "");
    // The first process may take longer to start than a request waits.
    eventually("it is stored", || svc.get(page).text() == "run 1");
    let refused = || svc.metric("svc_admission_refused_total{reason=\"wait_timeout\"}");
    let before = refused();
    std::fs::remove_file(svc.root().join("go")).unwrap();
    let mut leader = ask(&svc, page);
    eventually("it runs", || runs(&svc) == 2);
    let response = ask(&svc, page).response();
    assert_eq!((response.status, response.text().as_str()), (200, "run 1"));
    assert!(status_of(&response).ends_with("; detail=overload"), "{}", status_of(&response));
    go(&svc, "");
    assert_eq!(leader.response().text(), "run 2");
    assert_eq!(refused(), before);
}

#[test]
fn scripts_remove_the_entries_that_they_name() {
    in_each_mode(&[IN_PROCESS], |svc| {
        let tagged = |name: &str, tags: &str| format!("/page.php?{name}&{MINUTE}&h[]=Cache-Tag:{tags}");
        let (a, b, c) = (tagged("a", "x,y"), tagged("b", "y"), tagged("c", "z"));
        let fill = || [&a, &b, &c].map(|page| svc.get(page).text());
        let first = fill();
        assert_eq!(fill(), first);
        let purge = |query: &str| svc.get(&format!("/purge.php?what={query}")).text();
        assert_eq!(purge("tags&names[]=x"), "1");
        assert_eq!(purge("tags&names[]=y&names[]=none"), "1");
        assert_eq!(purge("tags"), "0");
        let second = fill();
        assert!(second[0] != first[0] && second[1] != first[1] && second[2] == first[2]);
        let encoded = |url: &str| {
            url.replace('&', "%26")
                .replace('?', "%3F")
                .replace('=', "%3D")
                .replace('[', "%5B")
                .replace(']', "%5D")
        };
        assert_eq!(purge(&format!("url&names[]={}", encoded(&c))), "1");
        assert_eq!(purge(&format!("url&names[]={}", encoded(&c))), "0");
        assert_eq!(purge("clear"), "2");
        assert_eq!(
            purge("bad"),
            "\"Svc\\\\Cache\\\\purge_url(): Argument #1 ($url) must be a URL of http or https, or, in a request, a path that begins with a slash\""
        );
        assert_eq!(purge("types"), "\"type\"");
        eventually("it is counted", || svc.metric("svc_response_cache_purged_total") == 5.0);
    });
}

#[cfg(feature = "async")]
#[test]
fn tasks_remove_the_entries_that_they_name() {
    in_each_mode(&[("ASYNC_WORKERS", "1")], |svc| {
        for (name, tag) in [("a", "x"), ("b", "y"), ("c", "y")] {
            svc.get(&format!("/page.php?{name}&{MINUTE}&h[]=Cache-Tag:{tag}"));
        }
        assert_eq!(svc.get("/purge.php?what=task").text(), "3");
        eventually("it is counted", || svc.metric("svc_response_cache_purged_total") == 3.0);
    });
    let without_cache = Svc::start(&[PURGE], &[("ASYNC_WORKERS", "1")]);
    assert_eq!(without_cache.get("/purge.php?what=task").text(), "0");
}

#[test]
fn without_a_cache_nothing_is_removed() {
    let svc = Svc::start(&[PURGE], &[IN_PROCESS]);
    for what in ["clear", "tags&names[]=a", "url&names[]=/"] {
        assert_eq!(svc.get(&format!("/purge.php?what={what}")).text(), "0", "{what}");
    }
}

#[test]
fn a_purge_prevents_that_responses_in_flight_are_stored() {
    let svc = cached(&[IN_PROCESS]);
    let page = format!("/page.php?hold&{MINUTE}&h[]=Cache-Tag:a");
    let mut leader = ask(&svc, &page);
    eventually("it runs", || runs(&svc) == 1);
    assert_eq!(svc.get("/purge.php?what=tags&names[]=a").text(), "0");
    go(&svc, "");
    let response = leader.response();
    assert_eq!((response.text().as_str(), status_of(&response)), ("run 1", "svc; fwd=miss"));
    assert_eq!(svc.get(&page).text(), "run 2");
}

#[test]
fn a_purged_response_does_not_answer_for_a_failure() {
    let svc = cached(&[IN_PROCESS, ("RESPONSE_CACHE_STALE_SECONDS", "600")]);
    let page = "/page.php?hold&h[]=Cache-Control:max-age=0&h[]=Cache-Tag:a";
    go(&svc, "");
    assert_eq!(svc.get(page).text(), "run 1");
    std::fs::remove_file(svc.root().join("go")).unwrap();
    std::fs::write(svc.root().join("fail"), "").unwrap();
    let mut leader = ask(&svc, page);
    eventually("it runs", || runs(&svc) == 2);
    assert_eq!(svc.get("/purge.php?what=tags&names[]=a").text(), "1");
    let mut follower = ask(&svc, page);
    received(&svc, 4);
    go(&svc, "");
    assert_eq!(leader.response().text(), "run 1", "it came before the purge");
    assert_eq!(follower.response().status, 503);
}

#[test]
fn an_unsafe_request_removes_entries_that_it_may_have_changed() {
    let svc = cached(&[]);
    let page = format!("/page.php?{MINUTE}");
    let other = "/page.php?other&h[]=Cache-Control:max-age=60";
    assert_eq!((svc.get(&page).text(), svc.get(other).text()), ("run 1".to_owned(), "run 2".to_owned()));
    let send = |method: &str, path: &str| {
        svc.client().request(&format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0"))
    };
    std::fs::write(svc.root().join("fail"), "").unwrap();
    assert_eq!(send("POST", &page).status, 503);
    std::fs::remove_file(svc.root().join("fail")).unwrap();
    let get = |path: &str| send("GET", path).text();
    let (first, second) = (get(&page), get(other));
    assert_eq!((get(&page), get(other)), (first.clone(), second.clone()), "a failed request changes nothing");
    assert_eq!(send("DELETE", &page).status, 200);
    assert_ne!(get(&page), first);
    assert_eq!(get(other), second);
    // A path, and a reference that browsers resolve.
    for path in ["/page.php", "", "./page.php"] {
        let second = get(other);
        let named = format!("{path}%3Fother%26h%5B%5D%3DCache-Control%3Amax-age%3D60");
        assert_eq!(send("PUT", &format!("/page.php?x&h[]=Content-Location:{named}")).status, 200);
        assert_ne!(get(other), second, "{path}");
    }
}

#[test]
fn a_streamed_response_reaches_its_client_before_it_is_complete() {
    let svc = cached(&[]);
    let page = format!("/page.php?early&{MINUTE}");
    let mut leader = ask(&svc, &page);
    let head = leader.head_only();
    assert_eq!(head.status, 200);
    assert_eq!(leader.chunk().as_deref(), Some(&b"early "[..]));
    let mut follower = ask(&svc, &page);
    received(&svc, 2);
    go(&svc, "");
    assert_eq!(follower.response().text(), "early run 1");
}
