//! The engine's suite.

mod smoke;
