//! Is there a text that makes the check panic?

use std::path::Path;

use proptest::prelude::*;

use super::{parse, parse_bytes, warnings};

const EXAMPLES: [&str; 4] = [
    include_str!("../../config/weir.toml"),
    include_str!("../../config/slow-database.toml"),
    include_str!("../../config/payments.toml"),
    include_str!("../../config/cluster.toml"),
];
const ODD: [&str; 24] = [
    "\"",
    "'''",
    "[",
    "]]",
    "{",
    "}",
    "=",
    "\n",
    "#",
    "\0",
    "\u{feff}",
    "é",
    "-1",
    "0",
    "0x",
    "4294967295",
    "99999999999999999999999999999999999999999",
    "1e999",
    "nan",
    "true",
    "\"${\"",
    "\"${A}\"",
    "\"$${\"",
    "\"\u{202e}*.0r/s\"",
];

fn env(name: &str) -> Option<String> {
    (name == "A").then(|| "\n{é".to_owned())
}

/// Whatever comes of it must also be fit to be looked at.
fn check(bytes: &[u8]) {
    match parse_bytes(bytes, Path::new("x.toml"), &env) {
        Ok(config) => drop(warnings(&config)),
        Err(faults) => assert!(faults.lines().all(|line| !line.contains('\n'))),
    }
}

/// An example in which some words are replaced or some bytes are.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (
        any::<prop::sample::Index>(),
        0..4_usize,
        prop::sample::select(&ODD[..]),
    );
    (
        prop::sample::select(&EXAMPLES[..]),
        prop::collection::vec(edit, 1..6),
    )
        .prop_map(|(example, edits)| {
            let mut words: Vec<&str> = example.split_inclusive([' ', '\n', '.']).collect();
            for (at, how, odd) in edits {
                let at = at.index(words.len());
                match how {
                    0 => drop(words.remove(at)),
                    1 => words.insert(at, odd),
                    2 => words.swap(at, 0),
                    _ => {
                        words.remove(at);
                        words.insert(at, odd);
                    }
                }
            }
            words.concat()
        })
}

/// A sound shape with any string and number as its values.
fn filled() -> impl Strategy<Value = String> {
    ("\\PC{0,20}", any::<i128>(), "[a-z0-9{}|.$:/*]{0,12}").prop_map(|(text, number, word)| {
        let any = toml::Value::String(text);
        format!(
            "[server]\nlisten = {any}\nthreads = {number}\nmax_header_bytes = {any}\nidle_timeout = {any}\ntrusted_proxies = [{any}]\n\
             [limits.{word:?}]\nkey = {word:?}\nrate = \"{number}r/s\"\nburst = {number}\nmax_wait = \"{number}ms\"\n\
             [upstreams.a]\nurl = \"http://{word}\"\nhealth = {any}\nset_headers = {{ {any} = {any} }}\n\
             [[routes]]\npath = \"/{word}\"\nhost = {word:?}\nmethods = [{any}]\nupstream = {any}\nlimits = [{any}]\n"
        )
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        check(&bytes);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}=\"'.#$a-z0-9 \n]{0,200}") {
        check(text.as_bytes());
    }

    #[test]
    fn no_mutation_of_an_example_makes_it_panic(text in mutated()) {
        check(text.as_bytes());
    }

    #[test]
    fn no_value_makes_it_panic(text in filled()) {
        check(text.as_bytes());
    }
}

#[test]
fn deep_nesting_is_a_fault() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let text = format!("a = {}{}", open.repeat(100_000), close.repeat(100_000));
        assert!(parse(&text, Path::new("x.toml"), &env).is_err());
    }
}
