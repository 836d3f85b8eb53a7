//! How do the five algorithms treat the same arrivals?
//!
//! `cargo run --example limiters` draws the pictures of `docs/limiters.md` anew. The
//! limits are those of the page's own config, and what becomes of each request is said by
//! the arithmetic that serves requests.

mod draw;
mod play;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use play::{Story, play};

/// The page whose config is drawn.
const PAGE: &str = include_str!("../../docs/limiters.md");

/// Where the pictures lie.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pictures");

/// In which order they are drawn together.
const ORDER: [&str; 5] = [
    "leaky_bucket",
    "token_bucket",
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
];

fn main() -> anyhow::Result<()> {
    for (name, picture) in pictures()? {
        let path = Path::new(FOLDER).join(name);
        fs::write(&path, picture).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Each picture with the name of its file.
fn pictures() -> anyhow::Result<Vec<(String, String)>> {
    let stories = stories()?;
    let single = |story: &Story| (format!("{}.svg", story.algorithm), draw::single(story));
    let mut pictures: Vec<_> = stories.iter().map(single).collect();
    pictures.push(("limiters.svg".to_owned(), draw::together(&stories)));
    Ok(pictures)
}

/// What becomes of the arrivals in each limit of the page.
fn stories() -> anyhow::Result<Vec<Story>> {
    let config = PAGE
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .context("the page has a config")?;
    let config = weir::config::parse(config, Path::new("limiters.md"), &|_| None)?;
    let mut stories: Vec<_> = config.limits.iter().map(play).collect();
    stories.sort_by_key(|story| ORDER.iter().position(|name| *name == story.algorithm));
    Ok(stories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pictures_show_what_the_code_does() {
        for (name, picture) in pictures().expect("pictures") {
            let kept = fs::read_to_string(Path::new(FOLDER).join(&name)).unwrap_or_default();
            assert!(
                kept == picture,
                "{name} differs: cargo run --example limiters"
            );
            assert!(picture.len() < 20_000, "{name} is small");
            let shown = format!("(pictures/{name})");
            assert!(PAGE.contains(&shown), "{name} is on the page");
        }
    }

    #[test]
    fn the_page_says_of_each_algorithm_what_its_picture_shows() {
        let mut told = Vec::new();
        for story in stories().expect("stories") {
            let (most, _) = story.busiest_minute();
            let served = story.served();
            told.push(format!(
                "| `{}` | {served} | {} | {most} | {} |",
                story.algorithm,
                story.refused(),
                story.longest_wait().as_secs()
            ));
        }
        assert_eq!(told.len(), 5, "{told:#?}");
        for row in &told {
            assert!(PAGE.contains(row.as_str()), "{told:#?}");
        }
    }
}
