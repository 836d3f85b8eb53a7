//! Why does a directive of NGINX not come along?

/// A few words for people who know what the directive did.
pub(super) fn why_left_out(name: &str) -> &'static str {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match name {
        "if" => "weir has no conditions: what it refused, redirected or changed isn't any more",
        "rewrite" | "set" | "break" | "map" | "geo" | "split_clients" | "set_by_lua_block" => {
            "weir has no variables and sends paths on as they come"
        }
        "root" | "alias" | "index" | "try_files" | "autoindex" | "types" | "default_type"
        | "error_page" | "expires" | "etag" | "sub_filter" | "include" => {
            "weir serves no files and passes answers on as they come"
        }
        "add_header" | "charset" | "more_set_headers" => "weir adds no such headers to answers",
        "limit_conn"
        | "limit_conn_zone"
        | "limit_conn_status"
        | "limit_conn_log_level"
        | "limit_conn_dry_run" => {
            "weir counts requests under way for each upstream, not for each key: see max_in_flight"
        }
        "limit_req_log_level" => "weir counts refusals in weir_refused_total and logs each request",
        "limit_req" | "limit_req_zone" | "limit_req_status" | "limit_req_dry_run" => {
            "nothing that came along uses it"
        }
        "limit_rate" | "limit_rate_after" => "weir limits requests, not bytes",
        "access_log" | "error_log" | "log_format" | "log_not_found" | "log_subrequest" => {
            "weir logs to standard output: see [log]"
        }
        "allow" | "deny" | "auth_basic" | "auth_basic_user_file" | "auth_request" | "satisfy" => {
            "weir checks no access"
        }
        "worker_processes" | "worker_connections" | "events" => {
            "see threads and max_connections in [server]"
        }
        "upstream" => "no forwarded location leads to it",
        "server" => "nothing of it can be forwarded",
        "keepalive" | "keepalive_requests" | "keepalive_timeout" | "keepalive_time" => {
            "weir keeps connections by itself: see idle_timeout in [server]"
        }
        "least_conn" | "ip_hash" | "hash" | "random" | "zone" => {
            "weir has one URL for each upstream"
        }
        "real_ip_header" | "real_ip_recursive" | "set_real_ip_from" => {
            "nobody is trusted here: see trusted_proxies in [server]"
        }
        "client_header_timeout" | "client_body_timeout" | "send_timeout" => {
            "weir has one such setting for all: see [server]"
        }
        "large_client_header_buffers" | "client_header_buffer_size" => {
            "see max_header_bytes in [server]"
        }
        "resolver" | "resolver_timeout" => "weir asks the system's resolver",
        "stream" | "mail" | "rtmp" => "weir forwards HTTP",
        _ if begins(&["ssl_", "http2", "http3", "quic", "listen"]) => {
            "see tls in [server]; weir speaks HTTP/2 by itself"
        }
        _ if begins(&["gzip", "brotli", "gunzip"]) => "weir passes bodies on as they come",
        _ if begins(&["proxy_cache", "proxy_store", "proxy_no_cache"]) => "weir caches nothing",
        _ if begins(&["proxy_next_upstream"]) => "weir sends a request once",
        _ if begins(&["proxy_ssl_"]) => "see ca, client_cert and client_key of an upstream",
        _ if begins(&["proxy_buffer", "proxy_busy", "proxy_max_temp", "proxy_temp"]) => {
            "weir streams bodies and keeps none"
        }
        _ if begins(&["proxy_", "grpc_"]) => "weir has no such setting for upstreams",
        _ if begins(&["fastcgi_", "uwsgi_", "scgi_", "memcached_"]) => {
            "weir speaks HTTP to upstreams"
        }
        _ => "weir has no such setting",
    }
}
