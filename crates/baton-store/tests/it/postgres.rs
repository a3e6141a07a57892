//! What only PostgreSQL can do or suffer.

mod lanes;
mod leases;
mod server;
mod tls;
