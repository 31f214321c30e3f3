//! The source of the spans: the attributes of the resource.
//!
//! Attributes that an operator has set take precedence; the others are determined once, at the start. Nothing here
//! changes while the process runs.

use std::hash::{BuildHasher, Hasher, RandomState};

use svc_core::config::{AttributeLimits, TraceConfig};
use svc_core::otlp::Resource;
use svc_core::trace::AttributeValue;

/// Describes this process; `php_version` is `None` without PHP.
pub(crate) fn resource(config: &TraceConfig, php_version: Option<&str>) -> Resource {
    let mut resource = Resource::with_capacity(config.resource.len() + OWN_MAX);
    let limits = AttributeLimits { count: usize::MAX, value_chars: None };
    for (key, value) in &config.resource {
        resource.set(key.clone(), value.clone(), &limits);
    }
    let mut found: Vec<(&'static str, AttributeValue)> = vec![
        ("service.version", env!("CARGO_PKG_VERSION").into()),
        ("service.instance.id", instance_id().into()),
        ("process.pid", i64::from(std::process::id()).into()),
    ];
    found.extend(host_name().map(|name| ("host.name", name.into())));
    if let Some(version) = php_version {
        found.push(("process.runtime.name", "php".into()));
        found.push(("process.runtime.version", version.to_owned().into()));
    }
    for (key, value) in found {
        if resource.get(key).is_none() {
            resource.add(key, value, &limits);
        }
    }
    // The attributes of the SDK cannot be configured.
    resource.set("telemetry.sdk.name", "svc", &limits);
    resource.set("telemetry.sdk.language", "rust", &limits);
    resource.set("telemetry.sdk.version", env!("CARGO_PKG_VERSION"), &limits);
    resource
}

/// The maximum number of attributes that are determined here.
const OWN_MAX: usize = 9;

/// Returns a random UUID.
fn instance_id() -> String {
    let draw = || RandomState::new().build_hasher().finish();
    let number = u128::from(draw()) << 64 | u128::from(draw());
    // Version 4 of variant 1: the other bits are random.
    let number = number & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let digits = format!("{number:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use svc_core::config::{Config, RawConfig};

    fn described(attributes: &str, php_version: Option<&str>) -> Resource {
        let settings = [
            ("DOCUMENT_ROOT", "/tmp"),
            ("SPOOL_DIR", "/tmp"),
            ("OTEL_ENABLED", "true"),
            ("OTEL_RESOURCE_ATTRIBUTES", attributes),
        ];
        let config = Config::resolve(&RawConfig::new(settings)).unwrap();
        resource(&config.tracing.unwrap(), php_version)
    }

    #[test]
    fn configured_attributes_are_kept_and_others_are_detected() {
        let own = described("", Some("8.4.1"));
        for key in
            ["service.name", "service.version", "service.instance.id", "telemetry.sdk.version", "host.name"]
        {
            assert!(matches!(own.get(key), Some(AttributeValue::Text(text)) if !text.is_empty()), "{key}");
        }
        assert_eq!(own.get("process.pid"), Some(&AttributeValue::Int(std::process::id().into())));
        assert_eq!(own.get("process.runtime.version"), Some(&"8.4.1".to_owned().into()));
        let set = described("host.name=h,telemetry.sdk.name=x,k=v,service.instance.id=7", None);
        assert_eq!(set.get("host.name"), Some(&"h".into()));
        assert_eq!(set.get("k"), Some(&"v".into()));
        assert_eq!(set.get("service.instance.id"), Some(&"7".into()));
        assert_eq!(set.get("telemetry.sdk.name"), Some(&"svc".into()));
        assert_eq!(set.get("process.runtime.name"), None);
    }

    #[test]
    fn each_instance_has_a_uuid() {
        let (one, other) = (instance_id(), instance_id());
        assert_ne!(one, other);
        let groups: Vec<&str> = one.split('-').collect();
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']), "{one}");
    }
}
