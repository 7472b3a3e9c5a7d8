//! The position in shell text, and the rewritten text so far.

pub(super) struct Cursor<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) out: String,
}

impl<'t> Cursor<'t> {
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Copies `bytes` bytes, or as many as are left, rounded up to whole characters.
    pub(super) fn copy(&mut self, bytes: usize) {
        let mut end = (self.at + bytes).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        self.out.push_str(&self.text[self.at..end]);
        self.at = end;
    }
}
