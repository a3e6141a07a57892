//! What only PostgreSQL can do or suffer.

mod leases;
mod server;
mod tls;
