//! Watches the free space of a disk: a health check, a page, and two metrics.
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `PLUGIN_DISK_RUST_PATH` | `/` | a path on the disk |
//! | `PLUGIN_DISK_RUST_DEGRADED_PERCENT` | 10 | with less free space than this, the plugin is degraded |
//! | `PLUGIN_DISK_RUST_FAILED_PERCENT` | 2 | with less than this, it has failed, and svc is not ready |

use svc_plugin::{Error, Health, Host, Level, Metrics, Page, PageRequest, Plugin};

struct Disk {
    path: String,
    degraded_percent: f64,
    failed_percent: f64,
    checks: u64,
}

/// The space of a disk, in bytes.
struct Space {
    free: u64,
    total: u64,
}

/// Rejects values that are not finite, such as `nan`: JSON has no such numbers.
fn percent_setting(host: &Host, key: &str, otherwise: f64) -> Result<f64, Error> {
    let percent = host.parsed_setting(key, otherwise)?;
    if percent.is_finite() {
        Ok(percent)
    } else {
        Err(Error::new(format!("the setting {key} is {percent}: not a finite number")))
    }
}

impl Plugin for Disk {
    fn init(host: &Host) -> Result<Self, Error> {
        let path = host.setting("PATH")?.unwrap_or_else(|| "/".to_owned());
        let degraded_percent = percent_setting(host, "DEGRADED_PERCENT", 10.0)?;
        let failed_percent = percent_setting(host, "FAILED_PERCENT", 2.0)?;
        let disk = Self { path, degraded_percent, failed_percent, checks: 0 };
        // A missing path is an error in the settings.
        disk.space()?;
        host.log(Level::Info, format_args!("watching {}", disk.path));
        Ok(disk)
    }

    fn health(&mut self) -> Result<Health, Error> {
        self.checks += 1;
        let percent = self.space()?.free_percent();
        let text = format!("{percent:.1} % of {} are free", self.path);
        Ok(match percent {
            percent if percent < self.failed_percent => Health::failed(text),
            percent if percent < self.degraded_percent => Health::degraded(text),
            _ => Health::ok(text),
        })
    }

    fn config(&mut self) -> Result<String, Error> {
        Ok(format!(
            r#"{{"watches": "{}", "degraded_percent": {}, "failed_percent": {}}}"#,
            self.path.replace('\\', "\\\\").replace('"', "\\\""),
            self.degraded_percent,
            self.failed_percent
        ))
    }

    fn serve(&mut self, request: &PageRequest<'_>) -> Result<Page, Error> {
        if !request.path.is_empty() {
            return Ok(Page::not_found());
        }
        let Space { free, total } = self.space()?;
        Ok(Page::text(format!("{}: {free} of {total} bytes are free\n", self.path)))
    }

    fn metrics(&mut self, metrics: &mut Metrics<'_>) -> Result<(), Error> {
        let free = self.space()?.free;
        metrics
            .gauge("free_bytes", "Free space of the disk.")?
            .sample(&[("path", &self.path)], free as f64)?;
        metrics.counter("checks_total", "Number of health checks.")?.sample(&[], self.checks as f64)?;
        Ok(())
    }
}

impl Disk {
    fn space(&self) -> Result<Space, Error> {
        let disk =
            rustix::fs::statvfs(&self.path).map_err(|error| Error::new(format!("{}: {error}", self.path)))?;
        // The space available to unprivileged users.
        Ok(Space { free: disk.f_bavail * disk.f_frsize, total: disk.f_blocks * disk.f_frsize })
    }
}

impl Space {
    fn free_percent(&self) -> f64 {
        if self.total == 0 { 100.0 } else { self.free as f64 * 100.0 / self.total as f64 }
    }
}

svc_plugin::plugin! {
    type: Disk,
    name: "disk_rust",
    version: env!("CARGO_PKG_VERSION"),
    callbacks: [health, config, serve, metrics],
}
