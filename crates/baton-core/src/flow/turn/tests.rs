//! Table tests of the turn.
