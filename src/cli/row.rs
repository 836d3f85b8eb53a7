//! What does a row of text look like?

/// What a character is part of; on a terminal each has its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Title,
    Faint,
    Sent,
    Refused,
    Waiting,
    Passed,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Title => "1",
            Self::Faint => "2",
            Self::Sent => "36",
            Self::Refused => "31",
            Self::Waiting => "33",
            Self::Passed => "32",
        }
    }
}

/// A row of characters, each one column wide.
#[derive(Clone, Debug, Default)]
pub(super) struct Row(Vec<(Ink, char)>);

impl Row {
    /// A row that begins with `text`.
    pub(super) fn of(ink: Ink, text: &str) -> Self {
        let mut row = Self::default();
        row.put(0, ink, text);
        row
    }

    /// Writes `text` from `column` on, over what is there.
    pub(super) fn put(&mut self, column: usize, ink: Ink, text: &str) {
        let end = column.saturating_add(text.chars().count());
        if self.0.len() < end {
            self.0.resize(end, (Ink::Plain, ' '));
        }
        let cells = self.0.iter_mut().skip(column);
        for (cell, character) in cells.zip(text.chars()) {
            *cell = (ink, character);
        }
    }

    /// The row as text of at most `width` columns, without trailing spaces.
    pub(super) fn text(&self, width: usize, colours: bool) -> String {
        let mut seen = self.0.iter().take(width);
        let length = seen.rposition(|(_, character)| *character != ' ');
        let length = length.map_or(0, |last| last.saturating_add(1));
        let mut text = String::new();
        let mut last = Ink::Plain;
        for (ink, character) in self.0.iter().take(length) {
            // A space shows no colour, so it needs none of its own.
            if colours && *ink != last && *character != ' ' {
                text.push_str(&change(*ink));
                last = *ink;
            }
            text.push(*character);
        }
        if last != Ink::Plain {
            text.push_str(&change(Ink::Plain));
        }
        text
    }
}

/// Escapes compose ("bold, then faint"), so each change begins from plain.
fn change(ink: Ink) -> String {
    match ink {
        Ink::Plain => "\x1b[0m".to_owned(),
        ink => format!("\x1b[0;{}m", ink.code()),
    }
}

/// `text` in rows of at most `width` columns, broken between words; all but the
/// first begin with `indent` spaces.
pub(super) fn paragraph(ink: Ink, text: &str, width: usize, indent: usize) -> Vec<Row> {
    let mut rows: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match rows.last_mut() {
            Some(row) if row.chars().count() + 1 + word.chars().count() <= width => {
                row.push(' ');
                row.push_str(word);
            }
            Some(_) => rows.push(" ".repeat(indent) + word),
            None => rows.push(word.to_owned()),
        }
    }
    rows.iter().map(|row| Row::of(ink, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_only_where_the_ink_does() {
        let mut row = Row::of(Ink::Sent, "ab");
        row.put(3, Ink::Sent, "c");
        row.put(4, Ink::Plain, "d  ");
        assert_eq!(row.text(80, false), "ab cd");
        assert_eq!(row.text(80, true), "\x1b[0;36mab c\x1b[0md");
        assert_eq!(row.text(3, false), "ab");
        assert_eq!(row.text(2, true), "\x1b[0;36mab\x1b[0m");
    }

    #[test]
    fn long_sentences_break_between_words() {
        let rows = paragraph(Ink::Plain, "* one two three", 9, 2);
        let rows: Vec<_> = rows.iter().map(|row| row.text(80, false)).collect();
        assert_eq!(rows, ["* one two", "  three"]);
    }
}
