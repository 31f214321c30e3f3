//! The configuration report at `/config`.
//!
//! It always contains a field for each setting that may be shown, with the type given in the table. Automatic values
//! appear as their resolved values, and keys are sorted. It omits everything that the table excludes (paths of keys,
//! the address of the operations port, secrets).

use serde_json::{Map, Value};

use super::Config;

impl Config {
    /// Returns the report. The fields of `extra` are added, or replace fields of the same name.
    pub fn report(&self, extra: Map<String, Value>) -> Map<String, Value> {
        let mut report = Map::new();
        for setting in &self.settings {
            if let Some((field, json)) = setting.key.report_field() {
                report.insert(field, setting.value.to_json(json));
            }
        }
        let sources = self.settings.iter().filter_map(|setting| {
            let (field, _) = setting.key.report_field()?;
            Some((field, setting.source.describe(setting.key.variable).into()))
        });
        report.insert("sources".to_owned(), Value::Object(sources.collect()));
        report.insert("async_in_flight_cap".to_owned(), self.background.async_in_flight_cap().into());
        let hooks = self.background.runtime_hooks.iter().map(|hook| hook.as_str());
        report.insert("runtime_hooks".to_owned(), hooks.collect());
        report.insert("tls_enabled".to_owned(), (!self.tls.certificates.is_empty()).into());
        // Settings do not know whether a file was loaded; its loader sets the field in `extra`.
        report.insert("deny_file".to_owned(), Map::from_iter([("loaded".to_owned(), false.into())]).into());
        report
            .insert("headers_file".to_owned(), Map::from_iter([("loaded".to_owned(), false.into())]).into());
        report.extend(extra);
        report
    }

    /// Returns one field of the report that belongs to a setting.
    pub fn reported(&self, field: &str) -> Option<Value> {
        self.settings.iter().find_map(|setting| {
            let (name, json) = setting.key.report_field()?;
            (name == field).then(|| setting.value.to_json(json))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawConfig;

    #[test]
    fn the_source_of_each_value_is_there() {
        let report = report(&[("SVC_LOG_LEVEL", "warn"), ("TRUSTED_PROXIES", "private")]);
        assert_eq!(report["sources"]["log_level"], "environment (SVC_LOG_LEVEL)");
        assert_eq!(report["sources"]["trusted_proxies"], "environment");
        assert_eq!(report["sources"]["executor_type"], "default");
        assert!(report["sources"].get("tls_key").is_none());
    }

    const STRINGS: &str = "access_log document_root entry_file executor_type listen_addr log_level php_workers \
        tls_min_version";
    const INTEGERS: &str = "async_in_flight_cap async_max_fibers async_queue_capacity async_workers brotli_level \
        drain_timeout_seconds gzip_level header_timeout_seconds max_connections max_query_body queue_capacity \
        queue_max_waiting queue_max_waiting_bytes queue_wait_timeout_ms rate_limit rate_window_seconds static_max_age \
        io_workers worker_max_memory_mib worker_max_requests zstd_level";
    const BOOLEANS: &str = "static_revalidate superglobals_enabled tls_enabled trace_context trusted_proxies worker_mode_enabled";

    fn report(variables: &[(&str, &str)]) -> Map<String, Value> {
        let defaults = [("DOCUMENT_ROOT", "/tmp"), ("SPOOL_DIR", "/tmp")];
        let raw = RawConfig::new(defaults.iter().chain(variables).copied());
        Config::resolve(&raw).unwrap_or_else(|error| panic!("{error}")).report(Map::new())
    }

    #[test]
    fn every_promised_field_is_there_with_its_type() {
        let report = report(&[]);
        for name in STRINGS.split_whitespace() {
            assert!(report[name].is_string(), "{name}: {}", report[name]);
        }
        for name in INTEGERS.split_whitespace() {
            assert!(report[name].is_u64(), "{name}: {}", report[name]);
        }
        for name in BOOLEANS.split_whitespace() {
            assert!(report[name].is_boolean(), "{name}: {}", report[name]);
        }
        assert_eq!(report["deny_file"]["loaded"], false);
        assert_eq!(report["headers_file"]["loaded"], false);
        assert!(report["plugins"].is_object());
        assert!(report["runtime_hooks"].is_array());
    }

    #[test]
    fn secret_settings_are_not_in_the_report() {
        let report = report(&[
            ("INTERNAL_ADDR", "127.0.0.1:45678"),
            ("TLS_CERT", "/etc/45678.pem"),
            ("TLS_KEY", "/etc/45678.key"),
        ]);
        assert_eq!(report["tls_enabled"], true);
        for name in ["tls_cert", "tls_key", "internal_addr", "error_pages_dir"] {
            assert!(!report.contains_key(name), "{name}");
        }
        assert!(!Value::Object(report).to_string().contains("45678"));
    }

    #[test]
    fn unset_text_is_empty_and_automatic_values_are_numbers() {
        let report = report(&[("PHP_WORKERS", "auto"), ("QUEUE_CAPACITY", "auto")]);
        assert_eq!(report["entry_file"], "");
        assert!(report["php_workers"].as_str().unwrap().parse::<u32>().unwrap() > 0);
        assert!(report["queue_capacity"].as_u64().unwrap() > 0);
    }

    #[test]
    fn further_facts_join_the_report() {
        let raw = RawConfig::new([("DOCUMENT_ROOT", "/tmp"), ("SPOOL_DIR", "/tmp")]);
        let extra = Map::from_iter([("php".to_owned(), Value::from("8.4"))]);
        assert_eq!(Config::resolve(&raw).unwrap().report(extra)["php"], "8.4");
    }
}
