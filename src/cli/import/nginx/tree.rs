//! Which directives does an NGINX config have, those of included files in their place?

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::{MatchOptions, glob_with};

use super::fault::Fault;
use super::words::{Place, Token, Words};

/// All files together are no longer.
const LONGEST: u64 = 16 << 20;
/// No more files are read.
const MOST_FILES: usize = 4_096;
/// Blocks in blocks, and files in files.
const DEEPEST: usize = 64;

/// What `*` in an include takes: what a shell takes.
const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// A directive with all that belongs to it.
#[derive(Debug)]
pub(super) struct Directive {
    /// No other has the same.
    pub(super) id: usize,
    pub(super) name: String,
    pub(super) values: Vec<String>,
    /// What stands in its braces, if it has them.
    pub(super) block: Option<Vec<Directive>>,
    file: Arc<str>,
    place: Place,
}

/// A config as it was written.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) directives: Vec<Directive>,
    /// Includes that lead to no file.
    pub(super) missing: Vec<String>,
}

impl Directive {
    /// The values, as text.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// The first value; empty where there is none.
    pub(super) fn first(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }

    /// What stands in its braces.
    pub(super) fn inside(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Where it is: `nginx.conf:12`.
    pub(super) fn spot(&self) -> String {
        format!("{}:{}", self.file, self.place.line)
    }

    /// Something that is wrong with it.
    pub(super) fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault::at(&self.file, self.place, problem)
    }
}

/// Reads the config at `path` and all that it includes.
///
/// Fails where one of them can't be read or is no NGINX config.
pub(super) fn read(path: &Path) -> Result<Tree, Fault> {
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = Reader::new(folder);
    let bytes = reader
        .bytes(path)
        .map_err(|error| Fault::of_file(&name, &error))?;
    reader.whole(&name, &bytes)
}

/// Reads a config that is not in a file.
#[cfg(test)]
pub(super) fn parse(bytes: &[u8]) -> Result<Tree, Fault> {
    Reader::new(PathBuf::from("/nonexistent")).whole("x", bytes)
}

struct Reader {
    folder: PathBuf,
    count: usize,
    files: usize,
    left: u64,
    missing: Vec<String>,
}

/// Where in files and blocks a reader is.
#[derive(Clone, Copy)]
struct Depth {
    blocks: usize,
    files: usize,
}

impl Reader {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            count: 0,
            files: 0,
            left: LONGEST,
            missing: Vec::new(),
        }
    }

    fn whole(mut self, file: &str, bytes: &[u8]) -> Result<Tree, Fault> {
        let depth = Depth {
            blocks: 0,
            files: 0,
        };
        let directives = self.file(file, bytes, depth)?;
        Ok(Tree {
            directives,
            missing: self.missing,
        })
    }

    fn file(&mut self, file: &str, bytes: &[u8], depth: Depth) -> Result<Vec<Directive>, Fault> {
        let mut words = Words::new(file, bytes);
        self.block(&Arc::from(file), &mut words, None, depth)
    }

    /// The directives up to the end of the block that was opened at `begun`, or of the file.
    fn block(
        &mut self,
        file: &Arc<str>,
        words: &mut Words<'_>,
        begun: Option<Place>,
        depth: Depth,
    ) -> Result<Vec<Directive>, Fault> {
        let mut directives = Vec::new();
        loop {
            let unexpected = |sign: &str, place| {
                let problem = format!("`{sign}` where a directive should begin");
                Err(Fault::at(file, place, problem))
            };
            match (words.next()?, begun) {
                (None, None) | (Some((Token::Close, _)), Some(_)) => return Ok(directives),
                (None, Some(begun)) => {
                    return Err(Fault::at(file, begun, "this block is never closed"));
                }
                (Some((Token::Close, place)), None) => return unexpected("}", place),
                (Some((Token::End, place)), _) => return unexpected(";", place),
                (Some((Token::Open, place)), _) => return unexpected("{", place),
                (Some((Token::Word(name), place)), _) => {
                    let directive = self.directive(file, words, (name, place), depth)?;
                    if directive.name == "include" && directive.block.is_none() {
                        directives.extend(self.included(&directive, depth)?);
                    } else {
                        directives.push(directive);
                    }
                }
            }
        }
    }

    fn directive(
        &mut self,
        file: &Arc<str>,
        words: &mut Words<'_>,
        (name, place): (String, Place),
        depth: Depth,
    ) -> Result<Directive, Fault> {
        self.count += 1;
        let id = self.count;
        let mut values = Vec::new();
        let block = loop {
            match words.next()? {
                Some((Token::Word(word), _)) => values.push(word),
                Some((Token::End, _)) => break None,
                Some((Token::Open, _)) if name.ends_with("_by_lua_block") => {
                    words.skip_lua()?;
                    break Some(Vec::new());
                }
                Some((Token::Open, begun)) => {
                    let blocks = depth.blocks + 1;
                    if blocks > DEEPEST {
                        return Err(Fault::at(file, begun, "blocks are nested too deeply"));
                    }
                    let inside = Depth { blocks, ..depth };
                    break Some(self.block(file, words, Some(begun), inside)?);
                }
                Some((Token::Close, close)) => {
                    let problem = format!("`}}` before `{}` has its `;`", shown(&name));
                    return Err(Fault::at(file, close, problem));
                }
                None => {
                    let problem = format!("`{}` is not ended by a `;`", shown(&name));
                    return Err(Fault::at(file, place, problem));
                }
            }
        };
        Ok(Directive {
            id,
            name,
            values,
            block,
            file: Arc::clone(file),
            place,
        })
    }

    /// The directives of the files that an include names.
    fn included(&mut self, include: &Directive, depth: Depth) -> Result<Vec<Directive>, Fault> {
        let [pattern] = include.values.as_slice() else {
            return Err(include.fault("`include` takes one file"));
        };
        let files = depth.files + 1;
        if files > DEEPEST {
            return Err(include.fault("files include each other too deeply"));
        }
        let mut directives = Vec::new();
        let paths = self.matching(pattern);
        if paths.is_empty() && !pattern.contains(['*', '?', '[']) {
            self.missing.push(format!(
                "{}: include {}: left out: there is no such file here",
                include.spot(),
                shown(pattern)
            ));
        }
        for path in paths {
            let name = path.display().to_string();
            match self.bytes(&path) {
                Ok(bytes) => {
                    directives.extend(self.file(&name, &bytes, Depth { files, ..depth })?);
                }
                Err(error) => self.missing.push(format!(
                    "{}: include {}: left out: {error}",
                    include.spot(),
                    shown(&name)
                )),
            }
        }
        Ok(directives)
    }

    /// The files that a pattern takes, in the order of their names.
    fn matching(&self, pattern: &str) -> Vec<PathBuf> {
        let whole = self.folder.join(pattern);
        if whole.is_file() {
            return vec![whole];
        }
        let found = whole.to_str().and_then(|whole| glob_with(whole, GLOB).ok());
        let paths = found.into_iter().flatten().filter_map(Result::ok);
        paths.filter(|path| path.is_file()).collect()
    }

    fn bytes(&mut self, path: &Path) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path)?;
        file.take(self.left + 1).read_to_end(&mut bytes)?;
        self.files += 1;
        let left = self.left.checked_sub(bytes.len() as u64);
        match left.filter(|_| self.files <= MOST_FILES) {
            Some(left) => self.left = left,
            None => return Err(std::io::Error::other("too much is included")),
        }
        Ok(bytes)
    }
}

/// A text without line breaks and the like, and not too long, for a note.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    let mut plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST)
        .collect();
    if text.chars().nth(MOST).is_some() {
        plain.push('…');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directives: &[Directive]) -> Vec<String> {
        directives
            .iter()
            .flat_map(|one| {
                let own = format!("{} {}", one.spot(), one.name);
                std::iter::once(own).chain(names(one.inside()))
            })
            .collect()
    }

    #[test]
    fn faults_have_file_line_and_column() {
        for (text, fault) in [
            ("http {\n  a b\n}", "x:3:1: `}` before `a` has its `;`"),
            ("http {\n  a b;\n", "x:1:6: this block is never closed"),
            ("a;\n}", "x:2:1: `}` where a directive should begin"),
            ("a;;", "x:1:3: `;` where a directive should begin"),
            (" {", "x:1:2: `{` where a directive should begin"),
            ("a\nb", "x:1:1: `a` is not ended by a `;`"),
            ("include a b;", "x:1:1: `include` takes one file"),
        ] {
            assert_eq!(parse(text.as_bytes()).expect_err(text).to_string(), fault);
        }
        let deep = "a{".repeat(100_000);
        let fault = parse(deep.as_bytes()).expect_err("deep").to_string();
        assert_eq!(fault, "x:1:130: blocks are nested too deeply");
    }

    #[test]
    fn lua_is_passed_over() {
        let text = "content_by_lua_block { local t = { '}' } -- }\n s = [[ } ]] } b;";
        let tree = parse(text.as_bytes()).expect("a config");
        assert_eq!(
            names(&tree.directives),
            ["x:1 content_by_lua_block", "x:2 b"]
        );
    }

    #[test]
    fn included_files_stand_where_they_are_included() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write(
            "nginx.conf",
            "a;\nhttp { include sites/*.conf; b; }\ninclude none*;\ninclude gone.conf;",
        );
        write("sites/2.conf", "two;");
        write("sites/1.conf", "\none { include deep.conf; }");
        write("sites/.hidden.conf", "hidden;");
        write("deep.conf", "deep;");
        let tree = read(&folder.path().join("nginx.conf")).expect("a config");
        let root = format!("{}/", folder.path().display());
        let plain = |text: String| text.replace(&root, "");
        let names: Vec<_> = names(&tree.directives).into_iter().map(plain).collect();
        assert_eq!(
            names,
            [
                "nginx.conf:1 a",
                "nginx.conf:2 http",
                "sites/1.conf:2 one",
                "deep.conf:1 deep",
                "sites/2.conf:1 two",
                "nginx.conf:2 b"
            ]
        );
        let missing: Vec<_> = tree.missing.into_iter().map(plain).collect();
        assert_eq!(
            missing,
            ["nginx.conf:4: include gone.conf: left out: there is no such file here"]
        );
        write("loop.conf", "include loop.conf;");
        let fault = read(&folder.path().join("loop.conf")).expect_err("a loop");
        assert!(fault.to_string().contains("too deeply"), "{fault}");
    }
}
