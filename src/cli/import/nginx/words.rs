//! Which words and signs is an NGINX config made of?

use super::fault::Fault;

/// A place in a file, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a value, its quotes and escapes undone.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Reads the tokens of a file, one after another.
#[derive(Debug)]
pub(super) struct Words<'a> {
    file: &'a str,
    rest: &'a [u8],
    place: Place,
}

impl<'a> Words<'a> {
    /// The tokens of `bytes`, which are the content of `file`.
    pub(super) fn new(file: &'a str, bytes: &'a [u8]) -> Self {
        Self {
            file,
            rest: bytes,
            place: Place { line: 1, column: 1 },
        }
    }

    /// The next token and where it begins; `None` at the file's end.
    pub(super) fn next(&mut self) -> Result<Option<(Token, Place)>, Fault> {
        self.skip_blanks();
        let place = self.place;
        let token = match self.peek() {
            None => return Ok(None),
            Some(b';') => self.sign(Token::End),
            Some(b'{') => self.sign(Token::Open),
            Some(b'}') => self.sign(Token::Close),
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote)?,
            Some(_) => self.bare(),
        };
        Ok(Some((token, place)))
    }

    /// Passes over a block of Lua whose brace is open: its text is no NGINX config.
    pub(super) fn skip_lua(&mut self) -> Result<(), Fault> {
        let begun = self.place;
        let mut depth = 1_usize;
        while let Some(byte) = self.bump() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                quote @ (b'"' | b'\'') => self.skip_lua_string(quote),
                b'-' if self.rest.starts_with(b"-[[") => self.skip_past(b"]]"),
                b'-' if self.peek() == Some(b'-') => self.skip_line(),
                b'[' if self.peek() == Some(b'[') => self.skip_past(b"]]"),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.fault(begun, "a block of Lua is never closed"))
    }

    fn fault(&self, place: Place, problem: impl Into<String>) -> Fault {
        Fault::at(self.file, place, problem)
    }

    fn sign(&mut self, token: Token) -> Token {
        self.bump();
        token
    }

    /// A word in quotes, which must end where its last quote is.
    fn quoted(&mut self, quote: u8) -> Result<Token, Fault> {
        let begun = self.place;
        self.bump();
        let mut word = Vec::new();
        loop {
            match self.bump() {
                None => return Err(self.fault(begun, "a quote is never closed")),
                Some(byte) if byte == quote => break,
                Some(b'\\') => self.escaped(&mut word),
                Some(byte) => word.push(byte),
            }
        }
        match self.peek() {
            None | Some(b';' | b'{' | b')' | b' ' | b'\t' | b'\r' | b'\n') => {
                Ok(Token::Word(text(&word)))
            }
            Some(_) => Err(self.fault(self.place, "a word goes on behind its closing quote")),
        }
    }

    /// A word without quotes. The brace of `${name}` opens no block.
    fn bare(&mut self) -> Token {
        let mut word = Vec::new();
        let mut dollar = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => break,
                b'{' if !dollar => break,
                _ => {}
            }
            self.bump();
            dollar = byte == b'$';
            match byte {
                b'\\' => self.escaped(&mut word),
                byte => word.push(byte),
            }
        }
        Token::Word(text(&word))
    }

    /// What stands behind a backslash; where that has no meaning of its own, the
    /// backslash stays, as regular expressions need it.
    fn escaped(&mut self, word: &mut Vec<u8>) {
        match self.bump() {
            Some(byte @ (b'"' | b'\'' | b'\\')) => word.push(byte),
            Some(b't') => word.push(b'\t'),
            Some(b'r') => word.push(b'\r'),
            Some(b'n') => word.push(b'\n'),
            Some(byte) => word.extend([b'\\', byte]),
            None => word.push(b'\\'),
        }
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => drop(self.bump()),
                b'#' => self.skip_line(),
                _ => return,
            }
        }
    }

    fn skip_line(&mut self) {
        while self.bump().is_some_and(|byte| byte != b'\n') {}
    }

    fn skip_past(&mut self, end: &[u8]) {
        while !self.rest.is_empty() && !self.rest.starts_with(end) {
            self.bump();
        }
        for _ in end {
            self.bump();
        }
    }

    fn skip_lua_string(&mut self, quote: u8) {
        while let Some(byte) = self.bump() {
            match byte {
                b'\\' => drop(self.bump()),
                byte if byte == quote => return,
                _ => {}
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        if *byte == b'\n' {
            self.place = Place {
                line: self.place.line + 1,
                column: 1,
            };
        } else if byte & 0xC0 != 0x80 {
            // The later bytes of a character are in its column.
            self.place.column += 1;
        }
        Some(*byte)
    }
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, String> {
        let mut words = Words::new("x", text.as_bytes());
        let mut all = Vec::new();
        while let Some((token, _)) = words.next().map_err(|fault| fault.to_string())? {
            all.push(match token {
                Token::Word(word) => word,
                Token::End => ";".to_owned(),
                Token::Open => "{".to_owned(),
                Token::Close => "}".to_owned(),
            });
        }
        Ok(all)
    }

    #[test]
    fn words_end_where_nginx_ends_them() {
        for (text, expected) in [
            ("a b;c{d}", &["a", "b", ";", "c", "{", "d}"][..]),
            ("a # b; c\n;", &["a", ";"]),
            ("a#b;", &["a#b", ";"]),
            ("\"a b\" 'c;d' ;", &["a b", "c;d", ";"]),
            ("a\"b\";", &["a\"b\"", ";"]),
            ("${x}y{", &["${x}y", "{"]),
            ("\"\\\"\" '\\n' \\.php$;", &["\"", "\n", "\\.php$", ";"]),
            ("a\\ b\\;c;", &["a\\ b\\;c", ";"]),
            ("\"\" ;", &["", ";"]),
            ("if (\"a\") {", &["if", "(\"a\")", "{"]),
        ] {
            assert_eq!(words(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn quotes_that_do_not_end_are_faults_with_line_and_column() {
        for (text, fault) in [
            ("a;\n  \"b", "x:2:3: a quote is never closed"),
            (
                "ä \"b\"c;",
                "x:1:6: a word goes on behind its closing quote",
            ),
        ] {
            assert_eq!(words(text).expect_err(text), fault);
        }
    }
}
