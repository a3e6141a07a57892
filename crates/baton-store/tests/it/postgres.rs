//! Tests that only apply to PostgreSQL.

mod lanes;
mod leases;
mod server;
mod tls;
