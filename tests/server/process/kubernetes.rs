//! Compares the Kubernetes manifests with the settings and the probes that they name.
#![cfg(feature = "php")]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use svc_core::config::keys::KEYS;
use svc_core::config::{Config, RawConfig};
use svc_core::limits::{REPLIES_MEMORY_MAX, THREAD_EXIT_GRACE};
use svc_core::sync::counter::{Counter, Flag};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::fetched::fetched;
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;

/// Returns every object in the manifests.
fn objects() -> Vec<Value> {
    objects_in("deploy/kubernetes")
}

/// Returns every object in the manifests of a folder.
fn objects_in(folder: &str) -> Vec<Value> {
    objects_in_files(&format!("{}/{folder}/*.yaml", env!("CARGO_MANIFEST_DIR")))
}

/// Returns every object in the files that a pattern names.
pub(super) fn objects_in_files(pattern: &str) -> Vec<Value> {
    let code = "import glob, json, sys, yaml
print(json.dumps([object for path in sorted(glob.glob(sys.argv[1])) for object in yaml.safe_load_all(open(path))]))";
    // Debian's own Python has the package python3-yaml.
    let output = Command::new("/usr/bin/python3").args(["-c", code, pattern]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn object(kind: &str) -> Value {
    let found: Vec<_> = objects().into_iter().filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found[0].clone()
}

fn container() -> Value {
    object("Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
}

/// Returns the settings in the manifests, and the resulting configuration.
fn config() -> (Vec<(String, String)>, Config) {
    let map = object("ConfigMap");
    let text = |value: &Value| value.as_str().expect("the values of a ConfigMap are texts").to_owned();
    let settings: Vec<(String, String)> =
        map["data"].as_object().unwrap().iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let root = [("DOCUMENT_ROOT".to_owned(), "/".to_owned())];
    let config = Config::resolve(&RawConfig::new(settings.iter().cloned().chain(root)));
    (settings, config.unwrap_or_else(|error| panic!("{error}")))
}

fn port_named(name: &str) -> u64 {
    let ports = container()["ports"].clone();
    let port = ports.as_array().unwrap().iter().find(|port| port["name"] == name).unwrap();
    port["containerPort"].as_u64().unwrap()
}

#[test]
fn every_setting_exists_and_the_ports_are_those_of_the_container() {
    let (settings, _) = config();
    for (name, value) in &settings {
        assert!(KEYS.iter().any(|key| key.variable == name), "{name}");
        let port = match name.as_str() {
            "LISTEN_ADDR" => port_named("http"),
            "INTERNAL_ADDR" => port_named("ops"),
            _ => continue,
        };
        assert!(value.ends_with(&format!(":{port}")), "{name}={value}");
    }
    let annotations = object("Deployment")["spec"]["template"]["metadata"]["annotations"].clone();
    assert_eq!(annotations["prometheus.io/port"], port_named("ops").to_string());
}

/// Passes manifests to a program with the types of the API; returns the types of the objects, or what is wrong.
fn strictly_read(program: &str, manifests: &str) -> Result<Vec<String>, String> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(manifests.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout).lines().map(str::to_owned).collect())
    } else {
        Err(text(output.stderr))
    }
}

#[test]
fn every_object_has_only_the_fields_that_the_api_knows() {
    let Some(folder) = fetched("kubestrict") else { return };
    let program = format!("{folder}/kubestrict");
    let read = |name: &str| {
        std::fs::read_to_string(format!("{}/deploy/kubernetes/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    for (name, kinds) in [
        ("config.yaml", &["v1/ConfigMap"][..]),
        ("service.yaml", &["v1/Service", "networking.k8s.io/v1/Ingress", "policy/v1/PodDisruptionBudget"]),
        ("svc.yaml", &["apps/v1/Deployment"]),
        ("monitoring/autoscaler.yaml", &["autoscaling/v2/HorizontalPodAutoscaler"]),
        ("monitoring/podmonitor.yaml", &["monitoring.coreos.com/v1/PodMonitor"]),
    ] {
        assert_eq!(
            strictly_read(&program, &read(name)).unwrap_or_else(|fault| panic!("{name}: {fault}")),
            kinds
        );
    }
    let rules = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/alerts.yml"))
        .unwrap();
    let rules = format!(
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec:\n{}",
        rules.lines().map(|line| format!("  {line}\n")).collect::<String>()
    );
    assert_eq!(strictly_read(&program, &rules).unwrap(), ["monitoring.coreos.com/v1/PrometheusRule"]);
    // A misspelt field, a value of another type, a field twice, and an object of another version.
    for (from, to, fault) in [
        ("terminationGracePeriodSeconds", "terminationGraceSeconds", "unknown field"),
        ("terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: [45]", "cannot unmarshal"),
        ("terminationGracePeriodSeconds: 45", "enableServiceLinks: true", "already set"),
        ("apps/v1", "apps/v1beta1", "unknown type"),
    ] {
        let manifest = read("svc.yaml").replace(from, to);
        let error = strictly_read(&program, &manifest).unwrap_err();
        assert!(error.contains(fault), "{to}: {error}");
    }
}

/// Returns the object of this kind, or without a kind, for the parts that watch the pods.
fn monitoring(kind: &Value) -> Value {
    let all = objects_in("deploy/kubernetes/monitoring");
    all.into_iter().find(|object| object["kind"] == *kind).unwrap()
}

#[test]
fn pods_are_scraped_and_scaled_by_metrics_that_exist() {
    let deployment = object("Deployment");
    let monitor = monitoring(&"PodMonitor".into())["spec"].clone();
    assert_eq!(monitor["selector"]["matchLabels"], deployment["spec"]["template"]["metadata"]["labels"]);
    let endpoint = &monitor["podMetricsEndpoints"][0];
    assert_eq!(
        (&endpoint["path"], port_named(endpoint["port"].as_str().unwrap())),
        (&"/metrics".into(), port_named("ops"))
    );

    let scaler = monitoring(&"HorizontalPodAutoscaler".into())["spec"].clone();
    assert_eq!(scaler["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    assert!(scaler["minReplicas"].as_u64() >= deployment["spec"]["replicas"].as_u64());
    let adapter = monitoring(&Value::Null)["rules"]["custom"].clone();
    let rules = adapter.as_array().unwrap();
    for metric in scaler["metrics"].as_array().unwrap() {
        let name = &metric["pods"]["metric"]["name"];
        assert!(rules.iter().any(|rule| rule["name"]["as"] == *name), "{name}");
    }
    let svc = Svc::start(&[("index.php", "<?php echo 1;")], &[]);
    let Some(collector) = Collector::start(svc.ops()) else { return skipped("prometheus is not installed") };
    for rule in rules {
        let query = rule["metricsQuery"].as_str().unwrap();
        let query = query.replace("<<.GroupBy>>", "instance").replace("<<.LabelMatchers>>", "job=\"svc\"");
        eventually(&query, || {
            svc.get("/");
            collector.finds(&query)
        });
    }
}

#[test]
fn the_end_of_a_pod_leaves_time_for_the_drain() {
    let (_, config) = config();
    let pod = object("Deployment")["spec"]["template"]["spec"].clone();
    let grace = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    let drain = config.timeouts.drain_delay + config.timeouts.drain;
    assert!(grace >= drain + 5 * THREAD_EXIT_GRACE, "{grace:?} for {drain:?}");
    assert!(config.timeouts.drain_delay > noticed_after(), "{:?}", noticed_after());
    // The drain begins with the signal, so no hook has to wait.
    assert!(container()["lifecycle"].is_null());
}

/// Returns how long the readiness probe may take to notice that requests should go elsewhere.
fn noticed_after() -> Duration {
    let readiness = container()["readinessProbe"].clone();
    let number = |name: &str| readiness[name].as_u64().unwrap();
    Duration::from_secs(number("periodSeconds") * number("failureThreshold"))
}

/// The pod has the manifest's settings. It gets requests until the probe has noticed, in the slowest case.
#[test]
fn a_pod_that_is_replaced_under_load_fails_no_request() {
    let (settings, _) = config();
    let settings: Vec<_> = settings.iter().filter(|(name, _)| !name.ends_with("_ADDR")).collect();
    let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut svc = Svc::start(&[("index.php", "<?php usleep(5000); echo 'hello';")], &settings);
    let probe = container()["readinessProbe"]["httpGet"]["path"].as_str().unwrap().to_owned();
    let (is_removed, served) = (Flag::new(), Counter::new());
    let (main, is_removed, served) = (svc.main(), &is_removed, &served);
    std::thread::scope(|scope| {
        for number in 0..6 {
            scope.spawn(move || {
                let mut client = Client::connect(main);
                while !is_removed.is_set() {
                    let answer = client.get("/");
                    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
                    served.incr();
                    // The ingress keeps some of its connections.
                    if number % 2 == 0 || answer.field("connection") == Some("close") {
                        client = Client::connect(main);
                    }
                }
            });
        }
        eventually("there is load", || served.value() > 100);
        let before = served.value();
        svc.signal(Signal::TERM);
        eventually("it says so", || svc.ask(&probe).status == 503);
        let uptime = || Duration::from_secs_f64(svc.metric("svc_uptime_seconds"));
        let end = uptime() + noticed_after();
        eventually("the probe has noticed", || uptime() >= end);
        assert!(served.value() > before, "it has served on");
        is_removed.set();
    });
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn the_probes_are_answered_by_the_port_that_they_name() {
    let svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[]);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = container()[probe]["httpGet"].clone();
        assert_eq!(get["port"], "ops", "{probe}");
        assert_eq!(svc.ask(get["path"].as_str().unwrap()).status, 200, "{probe}");
    }
}

#[test]
fn the_container_needs_no_rights_and_writes_only_where_it_may() {
    let pod = object("Deployment")["spec"]["template"]["spec"].clone();
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = container();
    let security = &container["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"][0], "ALL");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/tmp");
    assert!(container["resources"]["limits"]["memory"].is_string());
    assert!(pod["volumes"][0]["emptyDir"].is_object());
}

/// PHP's default memory limit for a request, and OPcache's default size.
const PHP_DEFAULT_BYTES: u64 = 128 << 20;

#[test]
fn the_settings_fit_into_the_memory_and_the_volume_of_the_container() {
    let (_, config) = config();
    let mebibytes = |quantity: &str| quantity.strip_suffix("Mi").unwrap().parse::<u64>().unwrap() << 20;
    let limit = mebibytes(container()["resources"]["limits"]["memory"].as_str().unwrap());
    let heaps = config.php.workers.max as u64 * PHP_DEFAULT_BYTES;
    let allowed = heaps + PHP_DEFAULT_BYTES + config.files.cache_bytes + REPLIES_MEMORY_MAX;
    let process = 100 << 20;
    assert!(allowed + process <= limit, "{} MiB of {} MiB", (allowed + process) >> 20, limit >> 20);
    let volume = object("Deployment")["spec"]["template"]["spec"]["volumes"][0]["emptyDir"].clone();
    assert_eq!(volume["sizeLimit"], "2Gi");
    assert!(config.bodies.spool_max_bytes <= 1 << 30, "uploads and sessions have the rest");
}

#[test]
fn the_service_reaches_the_pods_on_the_main_port_only() {
    let labels = object("Deployment")["spec"]["template"]["metadata"]["labels"].clone();
    let service = object("Service");
    assert_eq!(service["spec"]["selector"], labels);
    assert_eq!(object("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels);
    let targets: Vec<_> =
        service["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["targetPort"]).collect();
    assert_eq!(targets, ["http"]);
    let backend = object("Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"].clone();
    assert_eq!((&backend["name"], &backend["port"]["name"]), (&service["metadata"]["name"], &"http".into()));
    assert_eq!(container()["envFrom"][0]["configMapRef"]["name"], object("ConfigMap")["metadata"]["name"]);
}
