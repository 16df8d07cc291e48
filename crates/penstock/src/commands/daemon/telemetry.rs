//! Export of the log and of spans to a collector of OpenTelemetry, by OTLP over HTTP with protobuf
//! (<https://opentelemetry.io/docs/specs/otlp/>).
//!
//! The variables of its specification name the collector
//! (<https://opentelemetry.io/docs/specs/otel/protocol/exporter/>): without an endpoint nothing is
//! exported. Records and spans wait in queues of 2,048 each. A full queue drops what comes, so a
//! collector that is away delays nothing; the log on standard error has a warning.

use std::env;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, Protocol, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use penstock_exit::{self as exit, ExitCode, Failure, LogLayer};
use penstock_net::trust::host_client_config;
use reqwest::blocking::Client;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;

/// Variable with the collector of both signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Variable with that of the log.
const LOGS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT";
/// Variable with that of spans.
const SPANS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Variable with a file of further authorities of the collector's certificate, PEM.
const AUTHORITY: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
/// Variable with the name of the service.
const SERVICE: &str = "OTEL_SERVICE_NAME";
/// Longest time of one request to the collector.
const REQUEST: Duration = Duration::from_secs(10);
/// First part of the targets that are exported: not those of the libraries that export them.
const OWN: &str = "penstock";

/// The exporters of this process. Dropped, they send what waits, for five seconds at most.
pub(super) struct Telemetry {
    /// None if no variable names a collector of the log: the library would take one on this host.
    logs: Option<SdkLoggerProvider>,
    /// As `logs`.
    spans: Option<SdkTracerProvider>,
}

/// Starts the log, and the export that the environment asks for; it lasts until the value that is
/// returned is dropped.
///
/// # Errors
/// A variable is wrong, or the file of authorities cannot be read: exit 2.
pub(super) fn start_log(level: &str) -> anyhow::Result<Option<Telemetry>> {
    if !is_named(LOGS_ENDPOINT) && !is_named(SPANS_ENDPOINT) {
        exit::start_log(level);
        return Ok(None);
    }
    let telemetry = Telemetry::from_environment().map_err(|why| {
        let text = format!("cannot export the log to a collector of OpenTelemetry: {why}");
        Failure::new(ExitCode::Usage, text).hint("correct the variables OTEL_EXPORTER_OTLP_…")
    })?;
    exit::start_log_with(level, telemetry.layers());
    Ok(Some(telemetry))
}

/// Returns whether a collector is named for a signal, by the variable of its own or that of both.
fn is_named(own: &str) -> bool {
    [ENDPOINT, own].iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

impl Telemetry {
    fn from_environment() -> Result<Self, String> {
        let client = Arc::new(client()?);
        let logs = is_named(LOGS_ENDPOINT).then(|| {
            let exporter = LogExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary)
                .with_shared_http_client(Arc::clone(&client) as _)
                .build()?;
            let logs = SdkLoggerProvider::builder().with_resource(resource());
            Ok(logs.with_batch_exporter(exporter).build())
        });
        let spans = is_named(SPANS_ENDPOINT).then(|| {
            let exporter = SpanExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary)
                .with_shared_http_client(Arc::clone(&client) as _)
                .build()?;
            let spans = SdkTracerProvider::builder().with_resource(resource());
            Ok(spans.with_batch_exporter(exporter).build())
        });
        let text = |error: ExporterBuildError| error.to_string();
        Ok(Self { logs: logs.transpose().map_err(text)?, spans: spans.transpose().map_err(text)? })
    }

    fn layers(&self) -> Vec<LogLayer> {
        let is_own_record =
            filter_fn(|metadata| metadata.is_event() && metadata.target().starts_with(OWN));
        let is_own_span =
            filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with(OWN));
        let mut layers = Vec::new();
        if let Some(spans) = &self.spans {
            let spans = tracing_opentelemetry::layer().with_tracer(spans.tracer(OWN));
            layers.push(spans.with_filter(is_own_span).boxed());
        }
        if let Some(logs) = &self.logs {
            let logs = OpenTelemetryTracingBridge::new(logs);
            layers.push(logs.with_filter(is_own_record).boxed());
        }
        layers
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        // The process ends: a collector that does not answer loses the last records.
        let _ = self.spans.as_ref().map(SdkTracerProvider::shutdown);
        let _ = self.logs.as_ref().map(SdkLoggerProvider::shutdown);
    }
}

/// Returns a client that trusts the authorities of the host, and those of the variable.
fn client() -> Result<Client, String> {
    let more = env::var_os(AUTHORITY).filter(|path| !path.is_empty());
    let more = more.map(fs::read).transpose().map_err(|error| format!("{AUTHORITY}: {error}"))?;
    let tls = host_client_config(more.as_deref()).map_err(|error| error.to_string())?;
    let client = Client::builder().tls_backend_preconfigured(tls).timeout(REQUEST);
    client.build().map_err(|error| error.to_string())
}

/// Returns the facts of this process that go with all records; `OTEL_RESOURCE_ATTRIBUTES` adds
/// more, as the site and the peer.
fn resource() -> Resource {
    let resource = Resource::builder();
    match env::var_os(SERVICE) {
        Some(_) => resource.build(),
        None => resource.with_service_name(OWN).build(),
    }
}
