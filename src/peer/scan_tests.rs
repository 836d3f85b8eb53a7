//! Are odd requests found, wherever they stand and however their bytes are cut?

use proptest::prelude::*;

use super::*;

/// What the scan says of these bytes, cut where `cuts` say.
fn scanned(bytes: &[u8], cuts: &[usize]) -> (Option<(u32, Oddity)>, usize) {
    let mut scan = Scan::default();
    let mut sound = 0;
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        let to = to.clamp(from, bytes.len());
        let passed = scan.read(&bytes[from..to]);
        sound += passed.sound;
        if passed.sound < to - from {
            return (scan.odd(), sound);
        }
        from = to;
    }
    (scan.odd(), sound)
}

fn odd(request: &str) -> Option<(u32, Oddity)> {
    scanned(request.as_bytes(), &[]).0
}

const SOUND: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\nX: #\r\nContent-Length: 0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH:  3 \r\n\r\n\n\n#",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tChunked\r\n\r\n3;x\r\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nContent-Length: 73\r\nHost: a\r\n\r\n\
     GET /#x HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
];

const ODD: &[(&str, Oddity)] = &[
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        Oddity::Length,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:chunked\r\ncontent-LENGTH: 3\r\n\r\n",
        Oddity::Length,
    ),
    (
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        Oddity::Length,
    ),
    (
        "POST / HTTP/1.1\r\nContent-Length: 3                                        \r\n\r\n",
        Oddity::Length,
    ),
    (
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        Oddity::Coding,
    ),
    (
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        Oddity::Coding,
    ),
    ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Oddity::Fragment),
    ("GET /a HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", Oddity::LineEnd),
    ("GET /a HTTP/1.1\nHost: a\n\n", Oddity::LineEnd),
    ("GET /a HTTP/1.1\r\nHost: a\r\n\n", Oddity::LineEnd),
];

#[test]
fn sound_requests_are_not_odd_alone_and_one_behind_the_other() {
    let all = SOUND.concat();
    assert_eq!(odd(&all), None);
    for cut in 0..all.len() {
        assert_eq!(
            scanned(all.as_bytes(), &[cut]),
            (None, all.len()),
            "cut at {cut}"
        );
    }
}

#[test]
fn an_odd_request_is_found_behind_any_other() {
    for (request, why) in ODD {
        assert_eq!(odd(request), Some((1, *why)), "{request:?}");
        for before in SOUND {
            let both = format!("{before}{request}");
            for cut in 0..both.len() {
                let found = scanned(both.as_bytes(), &[cut]).0;
                assert_eq!(found, Some((2, *why)), "{both:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn what_comes_before_an_upgrade_is_answered_is_odd_if_it_is_a_request() {
    let upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n";
    let next = b"GET /#x HTTP/1.1\r\n\r\n";
    let mut scan = Scan::default();
    scan.read(upgrade);
    scan.read(b"a frame of another protocol\r\n\r\n");
    assert_eq!(scan.odd(), Some((2, Oddity::Early)));
    let mut scan = Scan::default();
    scan.read(upgrade);
    scan.all_answered();
    scan.read(next);
    assert_eq!(scan.odd(), Some((2, Oddity::Fragment)));
}

#[test]
fn http_2_is_not_looked_at() {
    let mut scan = Scan::default();
    scan.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /#x HTTP/1.1\r\n\r\n");
    assert_eq!(scan.odd(), None);
}

/// Bytes that look like requests, but for some that were put in or taken out.
fn nearly_requests() -> impl Strategy<Value = Vec<u8>> {
    let whole = SOUND.iter().copied().chain(ODD.iter().map(|(odd, _)| *odd));
    let whole: Vec<&str> = whole.collect();
    let bytes = prop::sample::select(b"\r\n\t ;:#0aA,\0\xff".to_vec());
    let edit = (any::<prop::sample::Index>(), bytes, any::<bool>());
    (
        prop::collection::vec(prop::sample::select(whole), 1..4),
        prop::collection::vec(edit, 0..4),
    )
        .prop_map(|(requests, edits)| {
            let mut all = requests.concat().into_bytes();
            for (at, byte, put_in) in edits {
                let at = at.index(all.len());
                if put_in {
                    all.insert(at, byte);
                } else {
                    all[at] = byte;
                }
            }
            all
        })
}

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_how_bytes_are_cut(
        bytes in nearly_requests(),
        mut cuts in prop::collection::vec(0..400_usize, 0..8),
    ) {
        cuts.sort_unstable();
        prop_assert_eq!(scanned(&bytes, &[]), scanned(&bytes, &cuts));
    }

    #[test]
    fn no_bytes_make_the_scan_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let all: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(scanned(&bytes, &[]), scanned(&bytes, &all));
    }
}
