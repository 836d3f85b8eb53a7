//! What remains of a client that leaves?

use std::time::{Duration, Instant};

use crate::harness::{
    Answer, Backend, Client, Request, Weir, clients, ms, one_limit, responses, together, upstream,
};

/// What a client has sent when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    NoBody,
    /// And the next request behind it.
    TheNextToo,
    SmallBody,
    HalfABody,
    HalfItsChunks,
    /// More of 8 MiB than anyone reads ahead, and less than fits on the way:
    /// behind bytes for which there is no room the kernel sends no FIN.
    Unread,
    /// As much of 8 MiB as there is room for.
    AllThatFits,
}

/// How it leaves.
#[derive(Clone, Copy, Debug)]
enum Way {
    Reset,
    Close,
    /// It says that it will send no more, and stays.
    HalfClose,
}

const SENT: [Sent; 7] = [
    Sent::NoBody,
    Sent::TheNextToo,
    Sent::SmallBody,
    Sent::HalfABody,
    Sent::HalfItsChunks,
    Sent::Unread,
    Sent::AllThatFits,
];

impl Sent {
    /// So many at once, so that each way is taken about a hundred times.
    fn times(self) -> u32 {
        if self == Self::AllThatFits { 12 } else { 34 }
    }

    fn in_all(self) -> f64 {
        let ways = u32::try_from(self.ways().len()).expect("few");
        f64::from(ways * self.times())
    }

    fn ways(self) -> &'static [Way] {
        if self == Self::AllThatFits {
            &[Way::Reset]
        } else {
            &[Way::Reset, Way::Close, Way::HalfClose]
        }
    }

    async fn by(self, client: &mut Client, target: &str) {
        let head =
            |framing: &str| format!("POST {target} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        match self {
            Self::NoBody => client.send(Request::get(target).bytes()).await,
            Self::TheNextToo => {
                let one = Request::get(target).bytes();
                client.send([&one[..], &one[..]].concat()).await;
            }
            Self::SmallBody => client.send(Request::post(target, "small").bytes()).await,
            Self::HalfABody => client.send(head("Content-Length: 100") + "half").await,
            Self::HalfItsChunks => {
                client
                    .send(head("Transfer-Encoding: chunked") + "4\r\nhalf\r\n")
                    .await;
            }
            Self::Unread | Self::AllThatFits => {
                let length = 8 << 20;
                client
                    .send(head(&format!("Content-Length: {length}")))
                    .await;
                let sent = if self == Self::Unread {
                    48 << 10
                } else {
                    length
                };
                client.send_what_fits(&vec![b'x'; sent]).await;
            }
        }
    }
}

impl Way {
    /// Goes; what is left of it stays until it is dropped.
    async fn go(self, mut client: Client) -> Option<Client> {
        match self {
            Self::Reset => client.reset(),
            Self::Close => drop(client),
            Self::HalfClose => {
                client.finish().await;
                return Some(client);
            }
        }
        None
    }
}

async fn come(weir: &Weir, sent: Sent, target: &str) -> Vec<Client> {
    let mut all = Vec::new();
    for _ in 0..sent.times() {
        let mut client = weir.client().await;
        sent.by(&mut client, target).await;
        all.push(client);
    }
    all
}

async fn leave(all: Vec<Client>, way: Way) -> Vec<Client> {
    let mut left = Vec::new();
    for client in all {
        left.extend(way.go(client).await);
    }
    left
}

/// Everything that counts what is there is where it was.
async fn is_empty(weir: &Weir) {
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    weir.has_connections(0).await;
}

#[tokio::test]
async fn whoever_leaves_in_line_frees_its_place_and_never_reaches_the_backend() {
    let cases = SENT.map(|sent| async move {
        let backend = Backend::start();
        let weir = Weir::start(&one_limit("rate = \"1r/h\"\nburst = 99", &backend)).await;
        assert_eq!(weir.get("/first").await.status, 200);
        for &way in sent.ways() {
            let all = come(&weir, sent, "/left").await;
            weir.has_waiting(sent.times()).await;
            let left = leave(all, way).await;
            weir.has_waiting(0).await;
            drop(left);
        }
        is_empty(&weir).await;
        let left = "weir_requests_total{route=\"main\",outcome=\"left\"}";
        weir.shows(left, sent.in_all()).await;
        assert_eq!(backend.targets(), ["/first"], "{sent:?}");
    });
    together(cases).await;
}

#[tokio::test]
async fn whoever_leaves_in_its_turn_takes_its_request_back_from_the_backend() {
    let cases = SENT.map(|sent| async move {
        let backend = Backend::answering(|_| Answer::never());
        let weir = Weir::start(&upstream("max_in_flight = 40", "", &backend)).await;
        let mut seen = 0;
        for &way in sent.ways() {
            let all = come(&weir, sent, "/").await;
            seen += all.len();
            backend.has_seen(seen).await;
            let left = leave(all, way).await;
            weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
            backend.has_open(0).await;
            drop(left);
        }
        is_empty(&weir).await;
        let left = "weir_requests_total{route=\"main\",outcome=\"left\"}";
        weir.shows(left, sent.in_all()).await;
        assert_eq!(backend.seen().len(), seen, "{sent:?}: none was sent twice");
    });
    together(cases).await;
}

#[tokio::test]
async fn whoever_leaves_in_its_answer_frees_the_upstream() {
    for &way in Sent::NoBody.ways() {
        let backend = Backend::answering(|_| Answer::chunked("").chunk("half").hold());
        let weir = Weir::start(&upstream("max_in_flight = 20", "", &backend)).await;
        let mut all = come(&weir, Sent::NoBody, "/").await;
        all.truncate(20);
        for client in &mut all {
            assert!(client.some().await.starts_with(b"HTTP/1.1 200"), "{way:?}");
        }
        let left = leave(all, way).await;
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
        backend.has_open(0).await;
        drop(left);
        is_empty(&weir).await;
    }
}

#[tokio::test]
async fn whoever_leaves_while_the_upstream_is_full_is_not_sent_to_it() {
    for limit in [
        "",
        "[limits.main]\nkey = \"all\"\nrate = \"1000r/s\"\nburst = 99\n",
    ] {
        let keys = if limit.is_empty() {
            ""
        } else {
            "limits = [\"main\"]"
        };
        let backend = Backend::answering(|_| Answer::held());
        let config = format!("{limit}{}", upstream("max_in_flight = 1", keys, &backend));
        let weir = Weir::start(&config).await;
        let mut first = weir.client().await;
        first.send(Request::get("/first").bytes()).await;
        backend.has_seen(1).await;
        weir.has_connections(1).await;
        for sent in SENT {
            let all = come(&weir, sent, "/left").await;
            tokio::time::sleep(ms(30)).await;
            leave(all, Way::Reset).await;
            weir.has_connections(1).await;
        }
        backend.let_go(2);
        assert_eq!(first.response().await.status, 200);
        assert_eq!(weir.get("/last").await.status, 200);
        assert_eq!(backend.targets(), ["/first", "/last"], "{limit}");
    }
}

#[tokio::test]
async fn five_who_leave_make_room_for_five_at_once() {
    for sent in [Sent::NoBody, Sent::SmallBody, Sent::AllThatFits] {
        let backend = Backend::start();
        let weir = Weir::start(&one_limit("rate = \"1r/s\"\nburst = 5", &backend)).await;
        let begun = Instant::now();
        assert_eq!(weir.get("/first").await.status, 200);
        let mut all = clients(&weir, 5).await;
        for client in &mut all {
            sent.by(client, "/left").await;
        }
        weir.has_waiting(5).await;
        assert_eq!(weir.get("/refused").await.status, 429);
        all.into_iter().for_each(Client::reset);
        weir.has_waiting(0).await;
        let mut newcomers = clients(&weir, 5).await;
        for client in &mut newcomers {
            client.send(Request::get("/new").bytes()).await;
        }
        let at_once = begun.elapsed() < ms(900);
        weir.has_waiting(if at_once { 5 } else { 4 }).await;
        backend.has_seen(2).await;
        assert_eq!(backend.targets()[..2], ["/first", "/new"], "{sent:?}");
        assert!(backend.arrivals(begun)[1] >= ms(1_000));
    }
}

#[tokio::test]
async fn those_behind_move_up_when_those_before_leave() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"2r/s\"\nburst = 9", &backend)).await;
    let begun = Instant::now();
    assert_eq!(weir.get("/first").await.status, 200);
    let mut all = clients(&weir, 6).await;
    for (index, client) in all.iter_mut().enumerate() {
        client
            .send(Request::get(&format!("/{index}")).bytes())
            .await;
        weir.has_admitted(&backend, index + 2).await;
    }
    // The first four of six leave: the last two take the next two slots.
    all.drain(..4).for_each(Client::reset);
    let served = responses(all).await;
    assert!(served.iter().all(|response| response.status == 200));
    assert_eq!(backend.targets(), ["/first", "/4", "/5"]);
    let arrivals = backend.arrivals(begun);
    assert!(
        arrivals[1] >= ms(500) && arrivals[2] >= ms(1_000),
        "{arrivals:?}"
    );
    assert!(arrivals[2] < ms(1_500), "no slot was lost: {arrivals:?}");
}

#[tokio::test]
async fn a_place_is_free_within_fifty_milliseconds() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/h\"\nburst = 9", &backend)).await;
    assert_eq!(weir.get("/first").await.status, 200);
    for sent in SENT {
        for &way in sent.ways() {
            let mut quickest = Duration::MAX;
            for _ in 0..5 {
                let mut client = weir.client().await;
                sent.by(&mut client, "/left").await;
                weir.has_waiting(1).await;
                let begun = Instant::now();
                let left = way.go(client).await;
                weir.has_waiting(0).await;
                quickest = quickest.min(begun.elapsed());
                drop(left);
            }
            assert!(quickest < ms(50), "{sent:?}, {way:?}: {quickest:?}");
        }
    }
}
