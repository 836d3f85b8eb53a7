//! Does the program as a whole do what it says?

mod bodies;
mod bounds;
mod cli;
mod composed;
mod endings;
mod failures;
mod harness;
mod headers;
mod health;
mod holds;
mod keys;
mod layers;
mod leaving;
mod malformed;
mod pacing;
mod rates;
mod refusals;
mod reloads;
mod sending;
mod series;
mod shared_ground;
mod targets;
mod timeouts;
mod tls;
mod waits;
