//! How does a picture get onto the terminal, or into a pipe?

use std::env::var_os;
use std::io::{IsTerminal as _, Result, Stdout, Write};

use super::row::{Ink, Row, paragraph};

/// Nobody says how wide a pipe is.
const WIDTH: usize = 80;

/// What the output can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Rows can be drawn over.
    live: bool,
    colours: bool,
    width: usize,
}

impl Manner {
    /// What standard output can do.
    pub(super) fn of_stdout() -> Self {
        let set = |name| var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let live = std::io::stdout().is_terminal() && !dumb;
        let columns = set("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok());
        Self {
            live,
            colours: live && set("NO_COLOR").is_none(),
            width: columns.unwrap_or(WIDTH).max(1),
        }
    }
}

/// Where something is drawn. A picture is drawn over the one before it until it
/// is kept; what can't draw over gets the kept ones alone.
#[derive(Debug)]
pub(super) struct Screen<W: Write = Stdout> {
    out: W,
    manner: Manner,
    drawn: usize,
}

impl<W: Write> Screen<W> {
    /// Begins to draw.
    pub(super) fn new(mut out: W, manner: Manner) -> Result<Self> {
        if manner.live {
            // The cursor would dance.
            out.write_all(b"\x1b[?25l")?;
        }
        Ok(Self {
            out,
            manner,
            drawn: 0,
        })
    }

    /// How many columns there are.
    pub(super) fn width(&self) -> usize {
        self.manner.width
    }

    /// Draws `rows` over the picture before.
    pub(super) fn draw(&mut self, rows: &[Row]) -> Result<()> {
        if self.manner.live {
            self.picture(rows)?;
            self.drawn = rows.len();
        }
        Ok(())
    }

    /// Draws `rows` over the picture before, for good.
    pub(super) fn keep(&mut self, rows: &[Row]) -> Result<()> {
        self.picture(rows)?;
        self.drawn = 0;
        Ok(())
    }

    /// Keeps a sentence.
    pub(super) fn say(&mut self, ink: Ink, text: &str) -> Result<()> {
        let rows = paragraph(ink, text, self.manner.width, 2);
        self.write("", &rows, "")
    }

    /// Writes `rows` over the picture before. A terminal narrower than it says
    /// cuts them off: if they went on in the next row, nothing would be where it
    /// is drawn over.
    fn picture(&mut self, rows: &[Row]) -> Result<()> {
        match (self.manner.live, self.drawn) {
            (false, _) => self.write("", rows, ""),
            (true, 0) => self.write("\x1b[?7l", rows, "\x1b[?7h"),
            (true, up) => self.write(&format!("\x1b[?7l\x1b[{up}A\r"), rows, "\x1b[?7h"),
        }
    }

    /// Writes all at once, so that nothing half drawn is seen.
    fn write(&mut self, before: &str, rows: &[Row], after: &str) -> Result<()> {
        let mut text = before.to_owned();
        for row in rows {
            if self.manner.live {
                text.push_str("\x1b[K");
            }
            text.push_str(&row.text(self.manner.width, self.manner.colours));
            text.push('\n');
        }
        text.push_str(after);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        if self.manner.live {
            // A terminal that is gone needs no cursor.
            let _gone = self.out.write_all(b"\x1b[?25h");
            let _gone = self.out.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(live: bool) -> String {
        let mut out = Vec::new();
        let manner = Manner {
            live,
            colours: live,
            width: 80,
        };
        let mut screen = Screen::new(&mut out, manner).expect("a buffer takes all");
        let rows = [Row::of(Ink::Sent, "a"), Row::of(Ink::Plain, "b")];
        screen.draw(&rows).expect("a buffer takes all");
        screen.keep(&rows).expect("a buffer takes all");
        screen.say(Ink::Title, "c").expect("a buffer takes all");
        drop(screen);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_pipe_gets_what_is_kept_and_no_escapes() {
        assert_eq!(shown(false), "a\nb\nc\n");
    }

    #[test]
    fn a_terminal_is_drawn_over_and_left_as_it_was() {
        let rows = "\x1b[K\x1b[0;36ma\x1b[0m\n\x1b[Kb\n\x1b[?7h";
        assert_eq!(
            shown(true),
            format!(
                "\x1b[?25l\x1b[?7l{rows}\x1b[?7l\x1b[2A\r{rows}\x1b[K\x1b[0;1mc\x1b[0m\n\x1b[?25h"
            )
        );
    }
}
