//! What is wrong with an NGINX config, and where?

use super::words::Place;

/// What makes an NGINX config one that can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// It is not an NGINX config.
    #[error("{file}:{}:{}: {problem}", place.line, place.column)]
    At {
        /// The file, as it is named.
        file: String,
        /// Where in it.
        place: Place,
        /// What is wrong there.
        problem: String,
    },
    /// A file can't be read.
    #[error("{file}: {problem}")]
    File {
        /// The file, as it is named.
        file: String,
        /// Why.
        problem: String,
    },
}

impl Fault {
    /// Something wrong at a place in `file`.
    pub(super) fn at(file: &str, place: Place, problem: impl Into<String>) -> Self {
        Self::At {
            file: file.to_owned(),
            place,
            problem: problem.into(),
        }
    }

    /// Something wrong with `file` as a whole.
    pub(super) fn of_file(file: &str, problem: &std::io::Error) -> Self {
        Self::File {
            file: file.to_owned(),
            problem: problem.to_string(),
        }
    }
}
