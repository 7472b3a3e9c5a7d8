//! The terminal of a live display: complete lines scroll by above a block that is redrawn.

use std::io;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use super::frame::{Cut, Frame};
use super::line::Line;
use super::stream::Stream;
use crate::style::Style;

/// Standard error, as a terminal.
pub(super) struct Terminal {
    pub(super) err: Stream,
    pub(super) style: Style,
    frame: Frame,
    /// Complete lines to be shown above the block.
    scrolled: String,
}

impl Terminal {
    pub(super) fn new(style: Style) -> Self {
        Self { err: Stream::stderr(), style, frame: Frame::default(), scrolled: String::new() }
    }

    /// Adds a line to show above the block, cut to the width of the terminal.
    pub(super) fn scroll(&mut self, line: &Line) {
        self.scroll_within(line, columns_and_rows().0.saturating_sub(1));
    }

    /// Adds a line to show above the block; the terminal wraps it.
    pub(super) fn scroll_whole(&mut self, line: &Line) {
        self.scroll_within(line, usize::MAX);
    }

    fn scroll_within(&mut self, line: &Line, columns: usize) {
        self.scrolled.push_str(&line.within(columns, &self.style));
        self.scrolled.push('\n');
    }

    /// Adds complete lines to show above the block.
    pub(super) fn scroll_text(&mut self, text: &str) {
        self.scrolled.push_str(text);
    }

    /// Draws the lines to show and the block.
    pub(super) fn draw(&mut self, block: Vec<Line>, columns: usize) {
        let room = columns.saturating_sub(1);
        let cut = |line: Line| Cut {
            shown: line.within(room, &self.style),
            columns: line.columns().min(room),
        };
        let block: Vec<_> = block.into_iter().map(cut).collect();
        let scrolled = std::mem::take(&mut self.scrolled);
        self.err.write(self.frame.draw(&scrolled, &block, columns));
    }

    /// Shows the lines without a block, while another process has the terminal.
    pub(super) fn print_lines(&mut self) {
        self.frame.abandon();
        self.err.write(std::mem::take(&mut self.scrolled));
    }

    /// Forgets the block without erasing it, because another process has written to the terminal.
    pub(super) fn abandon_block(&mut self) {
        self.frame.abandon();
    }

    /// Erases the block and shows the remaining lines.
    pub(super) fn erase_block(&mut self) {
        let erased = self.frame.clear(columns_and_rows().0);
        self.err.write(erased + &std::mem::take(&mut self.scrolled));
    }
}

/// Returns the size of the terminal at this moment.
pub(super) fn columns_and_rows() -> (usize, usize) {
    let size = tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Returns whether this process is in the foreground of the terminal.
pub(super) fn is_foreground() -> bool {
    tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
}
