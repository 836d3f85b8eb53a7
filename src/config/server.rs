//! What does `[server]` say?

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;

use super::checked::{Secret, ServerConfig};
use super::field::Field;
use super::pem::{CERTIFICATE, PRIVATE_KEY, pem};
use super::section::Section;
use super::store::secret;
use crate::peer::CertificateFiles;

const LISTEN: SocketAddr = local(8080);
const ADMIN: SocketAddr = local(9180);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(24);
const HEADER_BYTES: RangeInclusive<u64> = 8 << 10..=1 << 20;
/// 1 GiB: more than most backends want, and nobody's surprise.
const BODY: u64 = 1 << 30;
const BODY_BYTES: RangeInclusive<u64> = 0..=1 << 40;
const GRACE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);

pub(super) fn server(section: &Section<'_>) -> ServerConfig {
    let seconds = Duration::from_secs;
    let server = ServerConfig {
        listen: address(section, "listen", LISTEN),
        admin: address(section, "admin", ADMIN),
        tls: section.get("tls").and_then(|field| tls(&field)),
        proxy_protocol: section.flag("proxy_protocol", false),
        admin_token: section.get("admin_token").and_then(token),
        admin_read_only: section.flag("admin_read_only", false),
        trusted_proxies: trusted_proxies(section),
        shutdown_grace: section.duration("shutdown_grace", seconds(30), &GRACE),
        threads: section.whole("threads", cores(), &(1..=1_024)),
        header_timeout: section.duration("header_timeout", seconds(10), &TIMEOUT),
        idle_timeout: section.duration("idle_timeout", seconds(60), &TIMEOUT),
        body_timeout: section.duration("body_timeout", seconds(30), &TIMEOUT),
        write_timeout: section.duration("write_timeout", seconds(30), &TIMEOUT),
        max_connections: section.whole("max_connections", 20_000, &(1..=1_000_000)),
        max_header_bytes: max_header_bytes(section),
        max_body_bytes: section
            .get("max_body_bytes")
            .and_then(|field| body_bytes(&field))
            .unwrap_or(BODY),
        max_waiting: section.whole("max_waiting", 50_000, &(1..=10_000_000)),
        max_keys: section.whole("max_keys", 1_000_000, &(1..=100_000_000)),
        legacy_headers: section.flag("legacy_headers", false),
    };
    check_admin(section, &server);
    if server.proxy_protocol
        && server.trusted_proxies.is_empty()
        && let Some(field) = section.get("proxy_protocol")
    {
        field.fault("needs trusted_proxies: only they are asked for whom they connect");
    }
    server
}

/// The certificate that clients are shown, and its key.
fn tls(field: &Field<'_>) -> Option<CertificateFiles> {
    let section = field.section()?;
    let file = |key, block| {
        let advice = "write the path of a PEM file";
        section
            .need(key, advice)
            .and_then(|field| pem(&field, block))
    };
    let (cert, key) = (file("cert", CERTIFICATE), file("key", PRIVATE_KEY));
    section.close();
    let files = CertificateFiles {
        cert: cert?,
        key: key?,
    };
    let loaded = files.load();
    if let Err(error) = &loaded {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        field.fault(format_args!("{error}{}", cause.unwrap_or_default()));
    }
    loaded.is_ok().then_some(files)
}

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn max_header_bytes(section: &Section<'_>) -> usize {
    let bytes = section
        .get("max_header_bytes")
        .and_then(|field| field.bytes(&HEADER_BYTES));
    bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(64 * 1_024)
}

/// How much a request's body may have.
pub(super) fn body_bytes(field: &Field<'_>) -> Option<u64> {
    field.bytes(&BODY_BYTES)
}

fn address(section: &Section<'_>, key: &'static str, default: SocketAddr) -> SocketAddr {
    let address = section.get(key).and_then(|field| {
        let address = field.text()?.value.parse().ok();
        if address.is_none() {
            field.refuse("is not an address with a port, like 127.0.0.1:8080 or [::]:8080");
        }
        address
    });
    address.unwrap_or(default)
}

fn token(field: Field<'_>) -> Option<Secret> {
    let field = field.secret();
    let token = secret(&field)?;
    let visible = token.reveal().bytes().all(|byte| byte.is_ascii_graphic());
    if !visible {
        field.refuse("must be visible ASCII without spaces, since it is sent in a header");
    }
    visible.then_some(token)
}

fn trusted_proxies(section: &Section<'_>) -> Vec<IpNet> {
    let items = section
        .get("trusted_proxies")
        .and_then(|field| field.items());
    items
        .unwrap_or_default()
        .iter()
        .filter_map(network)
        .collect()
}

/// A network such as `10.0.0.0/8`, or a single address.
pub(super) fn network(field: &Field<'_>) -> Option<IpNet> {
    let text = field.text()?;
    let single = || text.value.parse::<IpAddr>().map(IpNet::from);
    let Ok(network) = text.value.parse::<IpNet>().or_else(|_no_network| single()) else {
        field.refuse("is not a network like 10.0.0.0/8, nor an address");
        return None;
    };
    // Peers are compared as IPv4 where they are: a mapped network never matches.
    if matches!(network, IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some()) {
        field.refuse("must be written as an IPv4 network");
        return None;
    }
    Some(network.trunc())
}

/// Who reaches the admin listener may change limits: not everyone may.
fn check_admin(section: &Section<'_>, server: &ServerConfig) {
    let fault = |problem: &str| match section.get("admin") {
        Some(field) => field.refuse(problem),
        None => section.fault("admin", problem),
    };
    let (listen, admin) = (server.listen, server.admin);
    let one_ip =
        listen.ip() == admin.ip() || listen.ip().is_unspecified() || admin.ip().is_unspecified();
    if one_ip && listen.port() == admin.port() && admin.port() != 0 {
        fault("must not be where requests come in: `listen` has the same port");
    }
    let guarded = server.admin_read_only || section.get("admin_token").is_some();
    if !admin.ip().to_canonical().is_loopback() && !guarded {
        fault("is not loopback: set admin_token, or admin_read_only = true");
    }
}
