//! Does what comes of an NGINX config do what that did?

use std::path::Path;

use super::tree::parse;
use super::{Imported, imported, takes};
use crate::config::Config;

fn import(text: &str) -> Imported {
    let tree = parse(text.as_bytes()).expect(text);
    let imported = imported(tree, "x").expect(text);
    assert_eq!(takes(&imported.toml), Ok(()), "{text}\n{}", imported.toml);
    imported
}

fn config(text: &str) -> Config {
    let toml = import(text).toml;
    crate::config::parse(&toml, Path::new("x.toml"), &|_| None).expect(&toml)
}

/// What `weir check` says of limits and routes.
fn checked(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weir.toml");
    std::fs::write(&path, import(text).toml).expect("a file");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let sound = crate::cli::check::check(&path, &mut out, &mut err).expect("a buffer takes all");
    let err = String::from_utf8_lossy(&err).into_owned();
    assert!(sound, "{text}: {err}");
    let out = String::from_utf8(out).expect("text");
    let rows = out.lines().filter_map(|line| line.strip_prefix("  "));
    let spaces = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
    rows.map(spaces).collect()
}

/// A limit on the location `/` of a server with `outer` and `inner` around and in it.
fn limited(outer: &str, inner: &str) -> String {
    format!("{outer} server {{ location / {{ {inner} proxy_pass http://127.0.0.1:9; }} }}")
}

#[test]
fn a_limit_is_what_nginx_makes_of_it() {
    let zone = "limit_req_zone $binary_remote_addr zone=a:1m rate=10r/s;";
    for (inner, expected) in [
        (
            "limit_req zone=a;",
            "a 10r/s, burst 0: of many at once 1 passes, nobody waits, the rest are refused with 503",
        ),
        (
            "limit_req zone=a burst=5;",
            "a 10r/s, burst 5: of many at once 1 passes, 5 more wait, the last 500ms, the rest are refused with 503",
        ),
        (
            "limit_req zone=a burst=5 delay=2; limit_req_status 429;",
            "a 10r/s, burst 5: of many at once 3 pass, 3 more wait, the last 300ms, the rest are refused with 429",
        ),
        (
            "limit_req zone=a burst=5 delay=9;",
            "a 10r/s, burst 5: of many at once 6 pass, nobody waits, the rest are refused with 503",
        ),
        (
            "limit_req zone=a nodelay burst=5; limit_req_dry_run on;",
            "a 10r/s, burst 5: of many at once 6 pass, nobody waits, the rest are refused with 503 (dry run: none is)",
        ),
    ] {
        let text = limited(zone, inner);
        let rows = checked(&text);
        assert_eq!(rows, [expected, "/ / > a > upstream 127-0-0-1-9"], "{text}");
    }
    for (rate, expected) in [
        ("rate=30r/m", "30r/m"),
        ("rate=120r/m", "2r/s"),
        ("", "1r/s"),
        ("rate=1000000r/s", "100000r/s"),
        ("rate=1r/m", "1r/m"),
    ] {
        let zone = format!("limit_req_zone $host zone=a:1m {rate};");
        let config = config(&limited(&zone, "limit_req zone=a burst=4294967295;"));
        let policy = config.limits.first().expect("a limit");
        assert_eq!(policy.rule.pace().rate().to_string(), expected, "{rate}");
        assert!(policy.rule.burst() >= 5_000_000, "{}", policy.rule.burst());
    }
}

#[test]
fn a_level_without_limits_has_those_around_it() {
    let text = "http {
        limit_req_zone $host zone=a:1m rate=1r/s;
        limit_req_zone $remote_addr zone=b:1m rate=2r/s;
        limit_req zone=a;
        server {
            location / { proxy_pass http://127.0.0.1:9; }
            location /b { limit_req zone=b burst=2; limit_req zone=a; proxy_pass http://127.0.0.1:9;
                location /b/c { proxy_pass http://127.0.0.1:9; } }
            location /none { return 204; }
        }
        server { server_name other; limit_req zone=b;
            location / { proxy_pass http://127.0.0.1:9; } }
    }";
    let rows = checked(text);
    let routes: Vec<_> = rows.iter().filter(|row| row.contains(" > ")).collect();
    assert_eq!(
        routes,
        [
            "/ / > a > upstream 127-0-0-1-9",
            "/b /b > b > a > upstream 127-0-0-1-9",
            "/b/c /b/c > b > a > upstream 127-0-0-1-9",
            "/none /none > upstream return-204",
            "other/ other/ > b_2 > upstream 127-0-0-1-9",
        ]
    );
}

#[test]
fn servers_become_hosts_and_the_default_one_takes_the_rest() {
    let to = |port: u16| format!("location / {{ proxy_pass http://127.0.0.1:{port}; }}");
    let text = format!(
        "server {{ listen 8080; server_name a.example .b.example; {} }}
         server {{ listen 8080 default_server; server_name c.example x.b.example _; {} }}
         server {{ listen *:8080; server_name ~^d www.e.*; {} }}
         server {{ listen 8080; server_name f.example a.example; location /f {{ proxy_pass http://127.0.0.1:4; }} }}
         server {{ listen 9090; {} }}
         server {{ listen unix:/run/x.sock; {} }}",
        to(1),
        to(2),
        to(3),
        to(5),
        to(6)
    );
    let config = config(&text);
    assert_eq!(config.server.listen.to_string(), "0.0.0.0:8080");
    let upstream = |index: usize| config.upstreams.get(index).expect("an upstream");
    let routes: Vec<_> = config
        .routes
        .iter()
        .map(|route| format!("{} > {}", route.name, upstream(route.upstream).name))
        .collect();
    assert_eq!(
        routes,
        [
            "a.example/ > 127-0-0-1-1",
            "b.example/ > 127-0-0-1-1",
            "*.b.example/ > 127-0-0-1-1",
            "x.b.example/ > 127-0-0-1-2",
            "/ > 127-0-0-1-2",
            "f.example/f > 127-0-0-1-4",
            "f.example/ > not-found",
        ]
    );
    let notes = import(&text).notes.join("\n");
    for note in [
        "x:3: server_name ~^d www.e.*: differs: `~^d` is left out",
        "x:3: server: left out: no request comes to it",
        "x:4: server_name f.example a.example: differs: `a.example` is an earlier server's",
        "x:5: server: left out: weir listens on one address, here 0.0.0.0:8080",
        "x:6: server: left out: weir listens on one address",
    ] {
        assert!(notes.contains(note), "{note} is not in\n{notes}");
    }
}

#[test]
fn what_nginx_would_not_have_sent_to_an_upstream_weir_does_not_either() {
    let pass = "proxy_pass http://127.0.0.1:9;";
    for (inside, answers) in [
        ("root /var/www;", 501),
        ("fastcgi_pass 127.0.0.1:9000;", 501),
        ("return 301 https://$host$request_uri;", 501),
        ("proxy_pass http://$backend;", 501),
        ("proxy_pass http://unix:/run/x.sock;", 501),
        ("proxy_pass http://127.0.0.1:9/joined;", 501),
        ("return 403;", 403),
        ("return 444;", 444),
        ("deny all;", 403),
        ("internal;", 404),
        (&format!("deny 10.0.0.0/8; {pass}"), 403),
        (&format!("allow 10.0.0.0/8; deny all; {pass}"), 403),
        (&format!("auth_basic x; {pass}"), 403),
        (&format!("auth_request /auth; {pass}"), 403),
        (
            &format!("limit_except GET {{ allow 10.0.0.1; deny all; }} {pass}"),
            403,
        ),
    ] {
        let text = format!("server {{ location /x/ {{ {inside} }} location / {{ {pass} }} }}");
        let config = config(&text);
        let route = config.routes.iter().find(|route| &*route.name == "/x/");
        let route = route.expect(inside);
        let upstream = config.upstreams.get(route.upstream).expect("an upstream");
        match &upstream.kind {
            crate::forward::TargetKind::Respond(respond) => {
                assert_eq!(respond.status.as_u16(), answers, "{inside}");
            }
            crate::forward::TargetKind::Server(_) => assert_eq!(0, answers, "{inside}"),
        }
    }
    for inside in ["allow all; deny all;", "auth_basic off;", "satisfy any;"] {
        let text = format!("server {{ location / {{ {inside} {pass} }} }}");
        assert_eq!(checked(&text), ["/ / > upstream 127-0-0-1-9"], "{inside}");
    }
}

#[test]
fn methods_that_are_excepted_alone_reach_the_upstream() {
    let text =
        "server { location /x { limit_except GET POST { deny all; } proxy_pass http://a; } }";
    assert_eq!(
        checked(text),
        [
            "/x GET HEAD POST /x > upstream a",
            "other-methods-2-0 /x > upstream forbidden"
        ]
    );
}

#[test]
fn an_upstream_says_what_the_location_said() {
    let text = "
        upstream app { least_conn; server 10.0.0.1:81 backup; server app.example max_conns=7; server 10.0.0.2; }
        proxy_set_header Host $http_host;
        proxy_set_header X-Key \"a${'b'}\";
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header Content-Length 1;
        server {
            location /one/ { rewrite ^/one/(.*)$ /$1 break; proxy_pass https://app; proxy_read_timeout 1m30s; }
            location /two/ { proxy_pass http://app/base/; proxy_set_header X-B b; proxy_connect_timeout 10m; }
            location /rpc.Service/ { grpc_pass grpc://10.0.0.3:50051; }
            location /files { try_files $uri @app; }
            location @app { proxy_pass http://app; }
        }"
    .replace("${'b'}", "b");
    let toml = import(&text).toml;
    for keys in [
        "url = \"https://app.example:80\"\ntimeout = \"90s\"\nconnect_timeout = \"60s\"\nmax_in_flight = 7\nhost = \"client\"\nset_headers = { \"x-key\" = \"ab\" }\n",
        "url = \"http://app.example/base\"\ntimeout = \"60s\"\nconnect_timeout = \"300s\"\nmax_in_flight = 7\nset_headers = { \"x-b\" = \"b\" }\n",
        "url = \"http://10.0.0.3:50051\"\ntimeout = \"60s\"\nconnect_timeout = \"60s\"\nprotocol = \"h2\"\n",
        "path = \"/one/\"\nupstream = \"app\"\nstrip_prefix = true\n",
        "path = \"/two/\"\nupstream = \"app_2\"\nstrip_prefix = true\n",
        "path = \"/files\"\nupstream = \"app_3\"\n",
    ] {
        assert!(toml.contains(keys), "{keys} is not in\n{toml}");
    }
}

#[test]
fn settings_of_the_whole_become_those_of_the_server() {
    let text = "http { keepalive_timeout 75s 60; client_body_timeout 5ms; send_timeout 1m;
        client_max_body_size 8m; set_real_ip_from 10.0.0.0/8; set_real_ip_from unix:;
        real_ip_header X-Forwarded-For;
        server { listen 127.0.0.1:9180 ssl proxy_protocol; client_max_body_size 0;
            location / { proxy_pass http://127.0.0.1:9; }
            location /u { client_max_body_size 10k; proxy_pass http://127.0.0.1:9; } } }";
    let toml = import(text).toml;
    let server = "[server]\nlisten = \"127.0.0.1:9180\"\nadmin = \"127.0.0.1:9181\"\n\
        max_body_bytes = \"8 MiB\"\nwrite_timeout = \"60s\"\nidle_timeout = \"75s\"\n\
        trusted_proxies = [\"10.0.0.0/8\"]\nproxy_protocol = true\n# tls = { cert = \"…\", key = \"…\" }\n";
    assert!(toml.contains(server), "{toml}");
    for route in [
        "path = \"/\"\nupstream = \"127-0-0-1-9\"\nmax_body_bytes = \"1048576 MiB\"\n",
        "path = \"/u\"\nupstream = \"127-0-0-1-9\"\nmax_body_bytes = \"10 KiB\"\n",
    ] {
        assert!(toml.contains(route), "{route} is not in\n{toml}");
    }
}

#[test]
fn every_directive_that_does_not_come_along_is_named_on_both_sides() {
    let text = "user www;
        http {
            sendfile on;
            limit_req_zone $ssl_client_serial zone=odd:1m rate=1r/s;
            limit_req_zone $host zone=unused:1m rate=1r/s;
            server {
                if ($scheme = http) { return 301 https://x; }
                limit_req zone=odd;
                limit_req zone=gone;
                location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }
                location / { proxy_pass http://127.0.0.1:9; proxy_cache x; add_header A secret; }
                location = / { return 204; }
                location /.well-known/../x { return 204; }
            }
        }";
    let imported = import(text);
    let starts = [
        "x:1: user www: left out: ",
        "x:3: sendfile on: left out: ",
        "x:4: limit_req_zone $ssl_client_serial zone=odd:1m rate=1r/s: left out: weir has no `$ssl_client_serial` for a key",
        "x:5: limit_req_zone $host zone=unused:1m rate=1r/s: left out: nothing",
        "x:7: if ($scheme = http): left out: ",
        "x:8: limit_req zone=odd: left out: its zone is left out: nothing is limited",
        "x:9: limit_req zone=gone: left out: no limit_req_zone is named `gone`",
        "x:10: location ~ \\.php$: left out: ",
        "x:11: proxy_cache x: left out: ",
        "x:11: add_header A: left out: ",
        "x:12: location = /: left out: ",
        "x:13: location /.well-known/../x: left out: ",
    ];
    assert_eq!(imported.notes.len(), starts.len(), "{:#?}", imported.notes);
    for (note, start) in imported.notes.iter().zip(starts) {
        assert!(
            note.starts_with(start),
            "{note} does not begin with {start}"
        );
        assert!(imported.toml.contains(&format!("#   {note}\n")), "{note}");
    }
}

#[test]
fn networks_with_an_empty_key_are_not_counted() {
    let zone = |geo: &str, map: &str| {
        let zone = format!(
            "geo $limit {{ {geo} }} map $limit $key {{ {map} }} limit_req_zone $key zone=a:1m rate=1r/s;"
        );
        import(&limited(&zone, "limit_req zone=a;"))
    };
    let map = "0 ''; 1 $binary_remote_addr;";
    let imported = zone("default 1; 10.0.0.0/8 0; 192.0.2.7 0;", map);
    assert_eq!(imported.notes, Vec::<String>::new());
    let keys = "key = \"{ip}\"\nrate = \"1r/s\"\nipv6_prefix = 128\nskip = [\"10.0.0.0/8\", \"192.0.2.7\"]\n";
    assert!(imported.toml.contains(keys), "{}", imported.toml);
    for (geo, map) in [
        ("default 1; 10.0.0.0/8 0; 10.1.0.0/16 1;", map),
        ("default 0; 10.0.0.0/8 0;", map),
        ("ranges; default 1; 10.0.0.0-10.0.0.9 0;", map),
    ] {
        let notes = zone(geo, map).notes;
        let left_out = |note: &String| {
            note.contains(" zone=a: left out: nothing is limited")
                || note.contains("limit_req zone=a: left out: ")
        };
        assert!(notes.iter().any(left_out), "{geo}: {notes:#?}");
    }
}

#[test]
fn where_a_route_takes_more_or_less_than_its_location_is_said() {
    for (location, why) in [
        ("= /x", "the route takes /x/… as well"),
        ("/x", "a route takes whole segments: /x and /x/…, not /xx"),
        (
            "^~ /x/",
            "the route takes /x as well, and redirects nobody to /x/",
        ),
    ] {
        for inside in [
            "return 204;",
            "root /x;",
            "deny all;",
            "proxy_pass http://a;",
        ] {
            let text = format!("server {{\nlocation {location} {{ {inside} }} }}");
            let notes = import(&text).notes;
            let note = format!("x:2: location {location}: differs: {why}");
            assert!(notes.contains(&note), "{text}: {notes:#?}");
        }
    }
    let notes = import("server { location / { proxy_pass http://a; } }").notes;
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn a_zone_that_means_two_things_becomes_two_limits() {
    let text = "limit_req_zone $host zone=a:1m rate=1r/s;
        server {
            location /1 { limit_req zone=a burst=1; proxy_pass http://127.0.0.1:9; }
            location /2 { limit_req zone=a burst=2; proxy_pass http://127.0.0.1:9; }
            location /3 { limit_req zone=a burst=1; proxy_pass http://127.0.0.1:9; }
        }";
    let rows = checked(text);
    let routes: Vec<_> = rows.iter().filter(|row| row.contains(" > ")).collect();
    assert_eq!(
        routes,
        [
            "/1 /1 > a > upstream 127-0-0-1-9",
            "/2 /2 > a_2 > upstream 127-0-0-1-9",
            "/3 /3 > a > upstream 127-0-0-1-9"
        ]
    );
    let notes = import(text).notes;
    let another = "x:4: limit_req zone=a burst=2: differs: the zone has another burst";
    assert!(
        notes.iter().any(|note| note.starts_with(another)),
        "{notes:#?}"
    );
}

#[test]
fn a_directive_that_makes_no_sense_is_a_fault_with_its_place() {
    for (text, fault) in [
        (
            "limit_req_zone $host zone=a rate=1r/s;",
            "x:1:1: `zone=a` has no size",
        ),
        (
            "limit_req_zone $host zone=a:1m rate=1r/h;",
            "x:1:1: `rate=1r/h` is not a rate",
        ),
        (
            "limit_req_zone $host zone=a:1m rate=0r/s;",
            "x:1:1: `rate=0r/s` is not a rate",
        ),
        ("limit_req_zone $host;", "x:1:1: it has no `zone=`"),
        (
            "limit_req_zone a zone=a:1m; limit_req_zone b zone=a:1m;",
            "x:1:29: there is another limit_req_zone named `a`",
        ),
        (
            "server { location / { limit_req zone=a burst=0; proxy_pass http://a; } }",
            "x:1:23: `burst=0` is not a number above 0",
        ),
        (
            "server { location / { limit_req burst=1; proxy_pass http://a; } }",
            "x:1:23: it has no `zone=`",
        ),
        (
            "server { location / { limit_req zone=a;\nlimit_req zone=a; proxy_pass http://a; } }",
            "x:2:1: the zone `a` is asked twice here",
        ),
        (
            "limit_req_zone a zone=a:1m; limit_req_status 200; server { location / { limit_req zone=a; } }",
            "x:1:29: it takes a status from 400 to 599",
        ),
    ] {
        let tree = parse(text.as_bytes()).expect(text);
        assert_eq!(
            imported(tree, "x").expect_err(text).to_string(),
            fault,
            "{text}"
        );
    }
}
