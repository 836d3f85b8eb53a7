//! Who has shown the token in this browser?
//!
//! A session is a random word in a cookie that scripts can't read and other sites
//! can't send. The process keeps its hash, and forgets it when it ends, when the
//! token changes, or after half a day.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use http::header::{self, HeaderValue};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use rustls::crypto::SecureRandom;
use sha2::{Digest as _, Sha256};
use tracing::{info, warn};

use super::Admin;
use super::door::{Token, origin};
use super::error::AdminError;

/// How long a session lasts.
const LIFE: Duration = Duration::from_hours(12);

/// Sessions at once; the oldest makes room for one more.
const MOST: usize = 64;

/// All sessions of this process.
pub(super) struct Sessions {
    /// Cookies know no ports: each process looks for a name of its own.
    name: String,
    random: &'static dyn SecureRandom,
    open: Mutex<HashMap<[u8; 32], Session>>,
}

/// One browser's.
struct Session {
    /// The token that was shown: no other one's word counts.
    token: Token,
    end: Instant,
}

impl Sessions {
    pub(super) fn new() -> Self {
        let random = rustls::crypto::ring::default_provider().secure_random;
        let name = word::<4>(random).unwrap_or_default();
        Self {
            name: format!("weir-{name}"),
            random,
            open: Mutex::default(),
        }
    }

    /// Opens one for whoever has shown `token`; what its cookie says.
    fn open(&self, token: Token, now: Instant) -> Option<HeaderValue> {
        let word = word::<32>(self.random)?;
        let mut open = self.open.lock();
        open.retain(|_, session| session.end > now);
        if open.len() >= MOST {
            let oldest = open.iter().min_by_key(|(_, session)| session.end);
            let oldest = oldest.map(|(hash, _)| *hash);
            oldest.and_then(|hash| open.remove(&hash));
        }
        let end = now.checked_add(LIFE)?;
        open.insert(hash(&word), Session { token, end });
        self.cookie(&word, LIFE)
    }

    /// Whether these headers come from a session that `token` has opened.
    pub(super) fn are_open(&self, headers: &HeaderMap, token: &Token, now: Instant) -> bool {
        let open = self.open.lock();
        let counts = |word| {
            open.get(&hash(word))
                .is_some_and(|session| session.end > now && session.token == *token)
        };
        self.words(headers).any(counts)
    }

    /// Ends the session that these headers come from; what its cookie says then.
    fn close(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut open = self.open.lock();
        for word in self.words(headers) {
            open.remove(&hash(word));
        }
        self.cookie("", Duration::ZERO)
    }

    fn words<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let lines = headers.get_all(header::COOKIE).into_iter();
        let pairs = lines.filter_map(|line| line.to_str().ok());
        let pairs = pairs.flat_map(|line| line.split(';'));
        pairs.filter_map(|pair| {
            let (name, word) = pair.trim().split_once('=')?;
            (name == self.name).then_some(word)
        })
    }

    fn cookie(&self, word: &str, life: Duration) -> Option<HeaderValue> {
        let cookie = format!(
            "{}={word}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict",
            self.name,
            life.as_secs()
        );
        HeaderValue::try_from(cookie).ok()
    }
}

/// Opens a session for whoever shows the token.
pub(super) async fn open(
    State(admin): State<Admin>,
    request: Request,
) -> Result<(StatusCode, HeaderMap), AdminError> {
    let from = origin(&request)?.0;
    let shown = admin.doors.load().shown(request.headers(), from);
    if matches!(shown, Err(AdminError::NoToken)) {
        warn!(%from, "no session opened: a wrong token");
    }
    let mut headers = HeaderMap::new();
    // Where there is no token, nobody needs a session.
    if let Some(token) = shown? {
        let cookie = admin.sessions.open(token, Instant::now());
        headers.insert(header::SET_COOKIE, cookie.ok_or(AdminError::NoRandom)?);
        info!(%from, "session opened");
    }
    Ok((StatusCode::NO_CONTENT, headers))
}

/// Ends a session.
pub(super) async fn close(
    State(admin): State<Admin>,
    headers: HeaderMap,
) -> (StatusCode, HeaderMap) {
    let cookie = admin.sessions.close(&headers);
    let cookie = cookie.map(|cookie| (header::SET_COOKIE, cookie));
    (StatusCode::NO_CONTENT, cookie.into_iter().collect())
}

fn hash(word: &str) -> [u8; 32] {
    Sha256::digest(word).into()
}

/// A word that nobody guesses, of `N` random bytes.
fn word<const N: usize>(random: &dyn SecureRandom) -> Option<String> {
    let mut bytes = [0_u8; N];
    random.fill(&mut bytes).ok()?;
    let mut word = String::with_capacity(N.saturating_mul(2));
    for byte in bytes {
        // A String takes whatever is written.
        let _infallible = write!(word, "{byte:02x}");
    }
    Some(word)
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser sends back.
    fn sent(cookie: &HeaderValue) -> HeaderMap {
        let text = cookie.to_str().expect("text");
        let pair = text.split(';').next().expect("a pair");
        let line = HeaderValue::try_from(format!("theme=dark; {pair}")).expect("a line");
        HeaderMap::from_iter([(header::COOKIE, line)])
    }

    #[test]
    fn a_session_ends_after_its_time_and_with_its_token() {
        let (sessions, now) = (Sessions::new(), Instant::now());
        let token = Token::of("s3cret");
        let cookie = sessions.open(token.clone(), now).expect("a cookie");
        let sent = sent(&cookie);
        assert!(sessions.are_open(&sent, &token, now));
        assert!(!sessions.are_open(&sent, &Token::of("another"), now));
        assert!(!sessions.are_open(&HeaderMap::new(), &token, now));
        let nearly = LIFE.saturating_sub(Duration::from_secs(1));
        assert!(sessions.are_open(&sent, &token, now + nearly));
        assert!(!sessions.are_open(&sent, &token, now + LIFE));
    }

    #[test]
    fn whoever_signs_out_is_out_and_nobody_else() {
        let (sessions, now) = (Sessions::new(), Instant::now());
        let token = Token::of("s3cret");
        let open = || sent(&sessions.open(token.clone(), now).expect("a cookie"));
        let (one, other) = (open(), open());
        sessions.close(&one).expect("a cookie");
        assert!(!sessions.are_open(&one, &token, now));
        assert!(sessions.are_open(&other, &token, now));
    }

    #[test]
    fn the_oldest_of_too_many_makes_room() {
        let (sessions, mut now) = (Sessions::new(), Instant::now());
        let token = Token::of("s3cret");
        let mut all = Vec::new();
        for _ in 0..=MOST {
            now += Duration::from_secs(1);
            all.push(sent(&sessions.open(token.clone(), now).expect("a cookie")));
        }
        let open = all.iter().map(|one| sessions.are_open(one, &token, now));
        assert_eq!(
            open.collect::<Vec<_>>(),
            [vec![false], vec![true; MOST]].concat()
        );
        assert_eq!(sessions.open.lock().len(), MOST);
    }
}
