//! The engine under scenarios and random worlds, and the shape of the workspace.

mod arrows;
mod scenarios;
mod worlds;
