//! The response cache in front of Laravel and Symfony: pages whose responses permit it are shared, pages with a session are
//! not, and an article that is saved is visible at once.
#![cfg(feature = "php")]

use std::fs;

use tempfile::TempDir;

use svc_testing::Svc;
use svc_testing::browser::Browser;
use svc_testing::client::{Response, eventually};
use svc_testing::fetched::fetched;

use super::documented::project;

/// Routes outside of the group `web`, as docs/cache.md recommends.
const LARAVEL: &str = r#"<?php
use Illuminate\Http\Middleware\SetCacheHeaders;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;

$file = static fn (int $id): string => storage_path("framework/article-$id");
$show = static fn (int $id) => response('Article: ' . (@file_get_contents($file($id)) ?: 'empty'))->header('Cache-Tag', "article-$id, articles");
Route::get('/articles/{id}', $show)->middleware(SetCacheHeaders::class . ':public;max_age=600;etag');
Route::get('/news/{id}', $show)->middleware(SetCacheHeaders::class . ':public;max_age=0;etag');
Route::post('/articles/{id}', static function (Request $request, int $id) use ($file): string {
    file_put_contents($file($id), $request->input('text'));
    return 'removed ' . Svc\Cache\purge_tags("article-$id");
});
"#;

/// Pages with the methods of HttpFoundation, and tags as FOSHttpCache sends them.
const SYMFONY: &str = r#"<?php
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Route;
use Symfony\Component\Routing\RouteCollection;

return static function (RouteCollection $routes): void {
    $file = static fn (int $id): string => __DIR__ . "/var/article-$id";
    $show = static fn (int $age) => static function (Request $request, int $id) use ($file, $age): Response {
        $text = 'Article: ' . (@file_get_contents($file($id)) ?: 'empty');
        $response = (new Response())->setPublic()->setMaxAge($age)->setEtag(md5($text));
        $response->headers->set('Surrogate-Key', "article-$id articles");
        return $response->isNotModified($request) ? $response : $response->setContent($text);
    };
    $save = static function (Request $request, int $id) use ($file): Response {
        file_put_contents($file($id), $request->request->get('text'));
        return new Response('removed ' . Svc\Cache\purge_tags("article-$id"));
    };
    $routes->add('save', new Route('/articles/{id}', ['_controller' => $save], [], [], '', [], ['POST']));
    $routes->add('article', new Route('/articles/{id}', ['_controller' => $show(600)]));
    $routes->add('news', new Route('/news/{id}', ['_controller' => $show(0)]));
};
"#;

fn status(response: &Response) -> &str {
    response.field("cache-status").unwrap_or("none")
}

/// Visits the pages of either framework. `session` is the cookie of its session.
fn visit(svc: &Svc, session: &str) {
    let visitor = || Browser::open(svc.main());
    let text = |path: &str| visitor().get(path).text();
    let stored = visitor().get("/articles/1");
    assert_eq!((stored.text().as_str(), status(&stored)), ("Article: empty", "svc; fwd=miss; stored"));
    let hit = visitor().get("/articles/1");
    assert!(status(&hit).starts_with("svc; hit; ttl="), "{}", status(&hit));
    for name in ["set-cookie", "cache-tag", "surrogate-key"] {
        assert_eq!(hit.field(name), None, "{name}");
    }
    let tag = hit.field("etag").unwrap();
    let condition = format!("GET /articles/1 HTTP/1.1\r\nHost: {}\r\nIf-None-Match: {tag}", svc.main());
    let unchanged = svc.client().request(&condition);
    assert!(unchanged.status == 304 && status(&unchanged).starts_with("svc; hit"), "{}", status(&unchanged));

    // An article that is saved is visible at once; others stay in the cache.
    assert_eq!(text("/articles/2"), "Article: empty");
    let saved = visitor().submit("/articles/1", &[("text", "wombats")]);
    assert_eq!((saved.status, saved.text().as_str()), (200, "removed 1"));
    assert_eq!(text("/articles/1"), "Article: wombats");
    assert!(status(&visitor().get("/articles/2")).starts_with("svc; hit"));

    // A page that is validated for each request: the framework confirms it, and is not asked for its content.
    assert_eq!(text("/news/1"), "Article: wombats");
    let confirmed = visitor().get("/news/1");
    assert_eq!(
        (confirmed.text().as_str(), status(&confirmed)),
        ("Article: wombats", "svc; fwd=stale; fwd-status=304")
    );

    // Pages with a session are for one visitor.
    let (mut one, mut other) = (visitor(), visitor());
    for count in ["1", "2", "3"] {
        let page = one.get("/counter");
        assert!(page.text().contains(count) && !status(&page).contains("stored"), "{}", status(&page));
    }
    assert!(!other.get("/counter").text().contains('3'));
    assert_eq!(status(&one.get("/articles/1")), "svc; fwd=bypass", "it has the cookie {session}");
    eventually("hits are counted", || svc.metric("svc_response_cache_requests_total{result=\"hit\"}") >= 3.0);
}

/// Starts the application in each mode of this build.
fn in_each_mode(make: impl Fn() -> TempDir, variables: &[(&str, &str)], visit: impl Fn(&Svc)) {
    // Pages call functions of svc.
    let cache = [("RESPONSE_CACHE_BYTES", "16M"), ("EXECUTOR", "sapi"), ("ENTRY_FILE", "classic.php")];
    visit(&Svc::start_in(make(), &[&cache[..], variables].concat()));
    if cfg!(feature = "worker") {
        let worker = [("WORKER_MODE_ENABLED", "true"), ("WORKER", "1"), ("ENTRY_FILE", "fibers.php")];
        visit(&Svc::start_in(make(), &[&cache[..2], &worker, variables].concat()));
    }
}

#[test]
fn laravel_s_pages_are_shared_where_they_permit_it() {
    let Some(classes) = fetched("laravel") else { return };
    let folders = ["bootstrap/cache", "storage/framework/sessions", "storage/framework/views"];
    let make = || {
        let root = project("laravel", &folders);
        fs::write(root.path().join("addition.php"), LARAVEL).unwrap();
        root
    };
    in_each_mode(make, &[("LARAVEL", &classes)], |svc| visit(svc, "laravel_session"));
}

#[test]
fn symfony_s_pages_are_shared_where_they_permit_it() {
    let Some(classes) = fetched("symfony") else { return };
    let make = || {
        let root = project("symfony", &["var/twig"]);
        fs::write(root.path().join("addition.php"), SYMFONY).unwrap();
        root
    };
    // The cookie of the tests' application has a name that no default pattern matches.
    let variables = [("SYMFONY", &*classes), ("RESPONSE_CACHE_BYPASS_COOKIES", "symfony")];
    in_each_mode(make, &variables, |svc| visit(svc, "SYMFONY"));
}
