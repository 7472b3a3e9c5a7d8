//! Properties of the engine that are proved against naive models, through the public API.

mod passing_over;
