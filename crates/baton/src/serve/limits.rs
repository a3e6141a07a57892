//! The limits of the service: how much it accepts at once, and how long it waits. All of them are settings.

use std::time::Duration;

use super::network::Network;

/// See the fields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServeLimits {
    /// The longest body, in bytes.
    pub(crate) body_bytes: usize,
    /// How long a whole body may take to arrive.
    pub(crate) body_deadline: Duration,
    /// The longest block of headers, in bytes.
    pub(crate) header_bytes: usize,
    /// The most headers.
    pub(crate) headers: usize,
    /// How long headers may take to arrive.
    pub(crate) header_deadline: Duration,
    /// How long a connection may be kept without a request.
    pub(crate) idle: Duration,
    /// The most connections.
    pub(crate) connections: usize,
    /// Proxies, which have no share of the connections: there are many callers behind them.
    pub(crate) proxies: Vec<Network>,
    /// The most live runs of this process, with the calls that are being made.
    pub(crate) runs: usize,
    /// The most streams of one run.
    pub(crate) streams_per_run: usize,
    /// The most streams of one tenant; absent: any number.
    pub(crate) streams_per_tenant: Option<usize>,
    /// Requests a second of one tenant; absent: any number.
    pub(crate) requests_per_s: Option<u32>,
    /// How often a silent stream sends a heartbeat.
    pub(crate) heartbeat: Duration,
    /// How long a reader may take nothing before its stream is ended.
    pub(crate) stall: Duration,
    /// Free bytes on the disk of the data folder below which the service is degraded.
    pub(crate) low_space: u64,
    /// Bytes that are buffered for a reader who does not take them, approximately.
    pub(crate) buffer_bytes: usize,
}

impl Default for ServeLimits {
    fn default() -> Self {
        ServeLimits {
            body_bytes: 1 << 20,
            body_deadline: Duration::from_secs(30),
            header_bytes: 16 << 10,
            headers: 64,
            header_deadline: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            connections: 10_000,
            proxies: Vec::new(),
            runs: 10_000,
            streams_per_run: 100,
            streams_per_tenant: None,
            requests_per_s: None,
            heartbeat: Duration::from_secs(15),
            stall: Duration::from_secs(30),
            low_space: 256 << 20,
            buffer_bytes: 16 << 10,
        }
    }
}
