//! Does weir believe the right ones for whom they open a connection?

use crate::harness::{Backend, Client, Multiplexed, Weir, get, ms, one_limit, route};

const SERVER: &str = "proxy_protocol = true\ntrusted_proxies = [\"127.0.0.1\"]";
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: weir.test\r\n\r\n";
const FAILED: &str = "weir_connections_failed_total{listener=\"requests\",kind=\"proxy_protocol\"}";

fn v1(client: &str) -> String {
    format!("PROXY TCP4 {client} 127.0.0.1 4000 80\r\n")
}

fn v2(client: [u8; 4]) -> Vec<u8> {
    let fixed = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
    [&fixed[..], &client, &[127, 0, 0, 1, 15, 160, 0, 80]].concat()
}

#[tokio::test]
async fn a_trusted_proxy_says_in_either_version_who_the_client_is() {
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/h\"", &backend).replace("\"all\"", "\"{ip}\"");
    let weir = Weir::with(SERVER, &config).await;
    for header in [v1("192.0.2.1").into_bytes(), v2([192, 0, 2, 2])] {
        // The header may come in pieces, and the request in the same one.
        for cut in [0, 5, header.len() / 2, header.len()] {
            let mut client = weir.client().await;
            let whole = [&header[..], REQUEST.as_bytes()].concat();
            let (first, second) = whole.split_at(cut);
            client.send(first).await;
            assert!(client.is_silent_for(ms(5)).await);
            client.send(second).await;
            let response = client.response().await;
            let wanted = if cut == 0 { 200 } else { 429 };
            assert_eq!(
                response.status, wanted,
                "cut at {cut}: one bucket for each client"
            );
            // The connection goes on as it began.
            client.send(REQUEST).await;
            assert_eq!(client.response().await.status, 429);
        }
    }
    let seen = backend.seen();
    let from: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("x-forwarded-for"))
        .collect();
    assert_eq!(from, [Some("192.0.2.1"), Some("192.0.2.2")]);
}

#[tokio::test]
async fn a_proxy_that_speaks_for_itself_is_the_client() {
    let backend = Backend::start();
    let weir = Weir::with(SERVER, &route("", &backend)).await;
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    for header in [b"PROXY UNKNOWN\r\n".to_vec(), local] {
        let mut client = weir.client().await;
        client
            .send([&header[..], REQUEST.as_bytes()].concat())
            .await;
        assert_eq!(client.response().await.status, 200);
    }
    for seen in backend.seen() {
        assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
    }
}

#[tokio::test]
async fn http_2_may_follow_the_header_of_a_proxy() {
    let backend = Backend::start();
    let weir = Weir::with(SERVER, &route("", &backend)).await;
    let mut stream = tokio::net::TcpStream::connect(weir.listen())
        .await
        .expect("weir");
    tokio::io::AsyncWriteExt::write_all(&mut stream, &v2([192, 0, 2, 3]))
        .await
        .expect("room");
    let client = Multiplexed::over(stream, &h2::client::Builder::new()).await;
    assert_eq!(
        client.begin(get("/"), false).await.reply().await.status,
        200
    );
    assert_eq!(
        backend.seen()[0].header("x-forwarded-for"),
        Some("192.0.2.3")
    );
}

#[tokio::test]
async fn whoever_is_not_trusted_is_not_asked_nor_believed() {
    let backend = Backend::start();
    let weir = Weir::with(SERVER, &route("", &backend)).await;
    let from = "127.0.0.2".parse().expect("an address");
    let mut client = Client::connect_from(from, weir.listen()).await;
    client.send(REQUEST).await;
    assert_eq!(client.response().await.status, 200);
    assert_eq!(
        backend.seen()[0].header("x-forwarded-for"),
        Some("127.0.0.2")
    );
    let mut liar = Client::connect_from(from, weir.listen()).await;
    liar.send(v1("192.0.2.1") + REQUEST).await;
    assert_eq!(liar.response().await.status, 400);
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn a_trusted_proxy_that_says_nothing_or_nonsense_is_not_served() {
    let backend = Backend::start();
    let server = format!("{SERVER}\nheader_timeout = \"200ms\"");
    let weir = Weir::with(&server, &route("", &backend)).await;
    let odd = [
        REQUEST.as_bytes().to_vec(),
        b"PROXY TCP4 1.2.3 127.0.0.1 1 2\r\n".to_vec(),
        [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 4096]].concat(),
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec(),
    ];
    for (count, header) in odd.iter().enumerate() {
        let mut client = weir.client().await;
        client.send(header).await;
        assert_eq!(client.rest().await, b"");
        weir.shows(FAILED, f64::from(u32::try_from(count + 1).expect("few")))
            .await;
    }
    let mut slow = weir.client().await;
    slow.send("PROXY TCP4 192.").await;
    assert_eq!(slow.rest().await, b"");
    weir.shows(
        "weir_connections_timed_out_total{listener=\"requests\"}",
        1.0,
    )
    .await;
    weir.has_connections(0).await;
    assert_eq!(backend.seen().len(), 0);
}
