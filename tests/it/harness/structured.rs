//! What do the structured fields of an answer say? (RFC 9651)

use std::collections::BTreeMap;

use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::Response;

/// Items with their whole-number parameters, by their names.
pub(crate) type Numbers = BTreeMap<String, BTreeMap<String, i64>>;

/// What `RateLimit` says: `r` and `t` of each limit.
pub(crate) fn limits(response: &Response) -> Numbers {
    numbers(&response.headers("ratelimit").join(", "))
}

/// What `RateLimit-Policy` says: `q` and `w` of each limit.
pub(crate) fn policies(response: &Response) -> Numbers {
    numbers(&response.headers("ratelimit-policy").join(", "))
}

/// How many more a limit would admit, as `RateLimit` says.
pub(crate) fn left(response: &Response, limit: &str) -> i64 {
    let limits = limits(response);
    let item = limits.get(limit).expect("a limit of the route");
    item.get("r").copied().expect("a number r")
}

/// The error that `Proxy-Status` names, where weir itself answers.
pub(crate) fn proxy_error(response: &Response) -> String {
    let field = response.header("proxy-status").expect("a Proxy-Status");
    let items = items(field);
    assert_eq!(items.len(), 1, "{field}");
    let item = items.first().expect("one item");
    let name = item.bare_item.as_token().expect("a name");
    assert_eq!(name.as_str(), "weir", "{field}");
    let error = item.params.iter().find(|(key, _)| key.as_str() == "error");
    let (_, error) = error.expect("an error");
    error.as_token().expect("a token").as_str().to_owned()
}

fn items(field: &str) -> Vec<Item> {
    let list: List = Parser::new(field).parse().expect("a structured list");
    let item = |entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    };
    list.into_iter().filter_map(item).collect()
}

fn numbers(field: &str) -> Numbers {
    let whole = |value: &BareItem| value.as_integer().map(i64::from);
    let items = items(field).into_iter().map(|item| {
        let name = item.bare_item.as_string().expect("a name in quotes");
        let params = item
            .params
            .iter()
            .map(|(key, value)| (key.to_string(), whole(value).expect("a whole number")));
        (name.as_str().to_owned(), params.collect())
    });
    items.collect()
}
