//! Does each file import only from those before it?

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, the lowest first. A module may import from its own layer's files
/// and from any layer before.
const LAYERS: &[&[&str]] = &[
    &["units", "metrics", "pem"],
    &["line", "window", "timer"],
    &["key", "route"],
    &["limit"],
    &["store", "peer"],
    &["bucket"],
    &["forward"],
    &["respond"],
    &["proxy"],
    &["admin"],
    &["config"],
    &["layer"],
    &["server"],
    &["cli"],
    &["lib", "main"],
];

/// Where axum may appear.
const AXUM: &[&str] = &["admin", "server"];

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&module))
        .ok_or(module)
        .expect("a layer for each module")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    files
        .into_iter()
        .filter(rust)
        .chain(folders.iter().flat_map(|folder| self::files(folder)))
        .collect()
}

/// The top module that a file belongs to.
fn module(source: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(source).expect("a file of the source");
    let first = inside.iter().next().expect("a name").to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn imports(text: &str) -> BTreeSet<String> {
    let names = text.split("crate::").skip(1).map(|rest| {
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn a_file_imports_only_from_layers_before_its_own() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = files(&source);
    assert!(files.len() > 30, "the source was found");
    for file in files {
        let module = module(&source, &file);
        let text = fs::read_to_string(&file).expect("text");
        assert!(
            text.starts_with("//!"),
            "{} opens with the question that it answers",
            file.display()
        );
        for import in imports(&text) {
            let allowed = import == module || layer(&import) < layer(&module);
            assert!(
                allowed,
                "{} imports `{import}`, which is not before `{module}`",
                file.display()
            );
        }
        // What the documentation shows of another program is that program's.
        let axum = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .any(|line| line.trim_start().starts_with("use axum") || line.contains("axum::"));
        assert!(
            !axum || AXUM.contains(&module.as_str()),
            "{} uses axum",
            file.display()
        );
    }
}
