//! Which route does a request take?

use http::Method;

/// Which requests a route takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The host: `pay.example.com`, `*.example.com`, or any.
    pub host: Option<String>,
    /// The path's first segments; a slash at the end changes nothing.
    pub path: String,
    /// The methods; none named means all.
    pub methods: Vec<Method>,
}

/// Routes, the most specific first: host before any host, a name before a
/// wildcard, then the longer path, then named methods before all methods.
#[derive(Debug)]
pub struct Routes<T> {
    routes: Vec<(Pattern, T)>,
}

impl Pattern {
    /// Whether the pattern takes a request, given in normal form.
    fn takes(&self, host: &str, path: &str, method: &Method) -> bool {
        self.takes_host(host)
            && self.takes_path(path)
            && (self.methods.is_empty() || self.methods.contains(method))
    }

    fn takes_host(&self, host: &str) -> bool {
        match self.host.as_deref() {
            None => true,
            Some(pattern) => match pattern.strip_prefix('*') {
                // `*.example.com` takes one label or more before the dot.
                Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
                None => pattern == host,
            },
        }
    }

    fn takes_path(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.prefix());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn prefix(&self) -> &str {
        self.path.strip_suffix('/').unwrap_or(&self.path)
    }

    fn specificity(&self) -> (u8, usize, usize, bool) {
        let (kind, host) = match self.host.as_deref() {
            None => (0, 0),
            Some(host) if host.starts_with('*') => (1, host.len()),
            Some(host) => (2, host.len()),
        };
        (kind, host, self.prefix().len(), !self.methods.is_empty())
    }

    /// What is left of a raw path once the route's own segments are taken away.
    /// It is cut on slashes, so that escapes stay as they were sent.
    pub fn strip<'a>(&self, raw_path: &'a str) -> &'a str {
        let own = self.prefix().matches('/').count();
        let rest = raw_path
            .match_indices('/')
            .nth(own)
            .and_then(|(at, _)| raw_path.get(at..));
        rest.unwrap_or("/")
    }

    /// Whether some request is taken by both with neither more specific.
    pub fn clashes_with(&self, other: &Self) -> bool {
        let methods =
            self.methods.is_empty() || self.methods.iter().any(|m| other.methods.contains(m));
        self.host == other.host
            && self.specificity() == other.specificity()
            && self.prefix() == other.prefix()
            && methods
    }
}

impl<T> Routes<T> {
    /// Routes in any order.
    pub fn new(mut routes: Vec<(Pattern, T)>) -> Self {
        routes.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.specificity()));
        Self { routes }
    }

    /// The route of a request, given in normal form, and its place among all.
    pub fn find(&self, host: &str, path: &str, method: &Method) -> Option<(usize, &T)> {
        let mut routes = self.routes.iter().enumerate();
        routes
            .find(|(_, (pattern, _))| pattern.takes(host, path, method))
            .map(|(place, (_, route))| (place, route))
    }

    /// The route at a place.
    pub fn get(&self, place: usize) -> Option<&T> {
        self.routes.get(place).map(|(_, route)| route)
    }

    /// All routes, the most specific first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.routes.iter().map(|(_, route)| route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(host: &str, path: &str, methods: &[Method]) -> Pattern {
        let host = (!host.is_empty()).then(|| host.to_owned());
        Pattern {
            host,
            path: path.to_owned(),
            methods: methods.to_vec(),
        }
    }

    fn routes() -> Routes<&'static str> {
        Routes::new(vec![
            (pattern("", "/", &[]), "any"),
            (pattern("", "/v1/", &[]), "v1"),
            (pattern("", "/v1/pay", &[Method::POST]), "post"),
            (pattern("", "/v1/pay", &[]), "pay"),
            (pattern("*.example.com", "/", &[]), "wild"),
            (pattern("pay.example.com", "/", &[]), "host"),
            (pattern("*.b.example.com", "/", &[]), "deeper"),
        ])
    }

    #[test]
    fn the_most_specific_route_wins() {
        let routes = routes();
        for (host, path, method, name) in [
            ("a", "/", Method::GET, "any"),
            ("a", "/v1", Method::GET, "v1"),
            ("a", "/v1/x", Method::GET, "v1"),
            ("a", "/v10", Method::GET, "any"),
            ("a", "/v1/pay/1", Method::POST, "post"),
            ("a", "/v1/pay", Method::GET, "pay"),
            ("a", "/v1/payment", Method::POST, "v1"),
            ("pay.example.com", "/v1/pay", Method::POST, "host"),
            ("x.example.com", "/v1/pay", Method::POST, "wild"),
            ("x.b.example.com", "/", Method::GET, "deeper"),
            ("example.com", "/", Method::GET, "any"),
            (".example.com", "/", Method::GET, "any"),
        ] {
            assert_eq!(
                routes.find(host, path, &method).map(|(_, name)| *name),
                Some(name),
                "{method} {host}{path}"
            );
        }
    }

    #[test]
    fn a_request_that_no_pattern_takes_has_no_route() {
        let routes = Routes::new(vec![(pattern("", "/v1", &[Method::POST]), ())]);
        assert_eq!(routes.find("a", "/v1", &Method::GET), None);
        assert_eq!(routes.find("a", "/", &Method::POST), None);
    }

    #[test]
    fn a_prefix_is_stripped_by_segments_and_nothing_is_re_encoded() {
        for (prefix, raw, rest) in [
            ("/v1/", "/v1/a%2Fb//c", "/a%2Fb//c"),
            ("/v1", "/%761/x", "/x"),
            ("/v1", "/v1", "/"),
            ("/", "/x/y", "/x/y"),
            ("/v1", "/v1//evil.example", "//evil.example"),
        ] {
            assert_eq!(pattern("", prefix, &[]).strip(raw), rest, "{prefix} {raw}");
        }
    }
}
