//! Does any file bring a config that weir takes, or a fault with its place?

use proptest::prelude::*;

use super::tree::parse;
use super::{imported, takes};

/// Either a config that weir takes, or a fault that has a line and a column.
fn sound_or_faulty(bytes: &[u8]) {
    let result = parse(bytes).and_then(|tree| imported(tree, "x"));
    match result {
        Ok(imported) => assert_eq!(takes(&imported.toml), Ok(()), "{}", imported.toml),
        Err(fault) => {
            let fault = fault.to_string();
            let mut parts = fault.splitn(4, ':');
            let number =
                |part: Option<&str>| part.is_some_and(|part| part.parse::<usize>().is_ok());
            let placed = parts.next() == Some("x") && number(parts.next()) && number(parts.next());
            assert!(placed, "{fault}");
        }
    }
}

/// Directives that mean something, with values that may not.
fn soup() -> impl Strategy<Value = String> {
    let words = [
        "server {",
        "location / {",
        "location /a/ {",
        "location = /a {",
        "location ~ x {",
        "http {",
        "upstream u {",
        "map $host $m {",
        "if ($x) {",
        "limit_except GET {",
        "}",
        "}",
        "}",
        "listen 80;",
        "listen [::]:80 ssl;",
        "listen 9180;",
        "server_name a b.c *.d;",
        "server_name _;",
        "limit_req_zone $remote_addr zone=a:1m rate=9r/s;",
        "limit_req_zone $host$arg_x zone=b:1m;",
        "limit_req_zone $m zone=c:1m;",
        "limit_req zone=a burst=9;",
        "limit_req zone=b nodelay;",
        "limit_req zone=c burst=4 delay=2;",
        "limit_req_status 429;",
        "limit_req_dry_run on;",
        "proxy_pass http://u;",
        "proxy_pass http://u/;",
        "proxy_pass https://h:1/x;",
        "proxy_pass $x;",
        "grpc_pass grpc://g:1;",
        "server 127.0.0.1:1 max_conns=3;",
        "return 200 \"${x}$\";",
        "return 200 '${';",
        "return 503;",
        "deny all;",
        "allow 10.0.0.0/8;",
        "auth_basic x;",
        "internal;",
        "try_files $uri @n;",
        "location @n {",
        "proxy_set_header X-A \"b\\n\";",
        "proxy_set_header Host $host;",
        "proxy_read_timeout 9999d;",
        "proxy_connect_timeout 0;",
        "client_max_body_size 5k;",
        "default_type \"a\\tb\";",
        "default $host;",
        "\"\" $remote_addr;",
        "set_real_ip_from 10.0.0.0/8;",
        "real_ip_header X-Forwarded-For;",
        "root /x;",
    ];
    let odd = prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "(location|server_name|return 200|proxy_pass|proxy_set_header a|listen|limit_req_zone) [\"]?[ -~é\n]{0,12}[\";{}]{1,2}",
    ];
    prop::collection::vec(odd, 0..24).prop_map(|words| words.join("\n"))
}

proptest! {
    #[test]
    fn any_bytes_bring_a_config_or_a_fault_with_a_place(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        sound_or_faulty(&bytes);
    }

    #[test]
    fn any_text_brings_a_config_or_a_fault_with_a_place(text in "[a-z{};\"'\\\\#$/= \n]{0,120}") {
        sound_or_faulty(text.as_bytes());
    }

    #[test]
    fn any_directives_bring_a_config_or_a_fault_with_a_place(text in soup()) {
        sound_or_faulty(text.as_bytes());
    }

    /// With its braces closed: most of the others never come as far as a config.
    #[test]
    fn any_server_brings_a_config(inside in soup(), path in "/[ -~é]{0,10}", text in "\\PC{0,12}") {
        let text = text.replace(['"', '\\'], "");
        let path = path.replace(['"', '\\'], "");
        let inside = inside.replace(['{', '}'], ";").replace(";;", ";");
        sound_or_faulty(format!(
            "server {{ server_name \"{text}\"; location \"{path}\" {{ return 200 \"{text}\"; }} location / {{ {inside} }} }}"
        ).as_bytes());
    }
}
