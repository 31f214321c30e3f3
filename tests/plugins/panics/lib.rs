//! Panics in the callback that `PLUGIN_PANICS_IN` names.

use svc_plugin::{Error, Health, Host, Metrics, Page, PageRequest, Plugin, RequestFacts};

struct Panics {
    callback: String,
}

impl Plugin for Panics {
    fn init(host: &Host) -> Result<Self, Error> {
        let plugin = Self { callback: host.setting("IN")?.unwrap_or_default() };
        plugin.reach("init");
        Ok(plugin)
    }

    fn start(&mut self) -> Result<(), Error> {
        self.reach("start");
        Ok(())
    }

    fn health(&mut self) -> Result<Health, Error> {
        self.reach("health");
        Ok(Health::ok(""))
    }

    fn metrics(&mut self, metrics: &mut Metrics<'_>) -> Result<(), Error> {
        metrics.gauge("answer", "The answer.")?.sample(&[], 42.0)?;
        self.reach("metrics");
        Ok(())
    }

    fn config(&mut self) -> Result<String, Error> {
        self.reach("config");
        Ok("{}".to_owned())
    }

    fn serve(&mut self, request: &PageRequest<'_>) -> Result<Page, Error> {
        self.reach("serve");
        Ok(match request.path {
            b"over" => Page::text(vec![b'x'; (8 << 20) + 1]),
            path => Page::html(path),
        })
    }

    fn request_ended(&mut self, _facts: &RequestFacts<'_>) -> Result<(), Error> {
        self.reach("request_ended");
        Ok(())
    }

    fn stop(self) {
        self.reach("stop");
    }
}

impl Panics {
    fn reach(&self, callback: &str) {
        assert_ne!(self.callback, callback, "as it was told");
    }
}

svc_plugin::plugin! {
    type: Panics,
    name: "panics",
    version: "0.1",
    callbacks: [health, metrics, config, serve, request_ended],
}
