//! What does `[upstreams.NAME]` say?

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use super::endpoint::{SERVER_KEYS, server};
use super::field::Field;
use super::section::Section;
use crate::forward::{Respond, Target, TargetKind};

const DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(super) fn target(section: &Section<'_>, name: &str) -> Option<Target> {
    let max_in_flight = section
        .get("max_in_flight")
        .and_then(|field| field.whole(&(1..=1_000_000)));
    Some(Target {
        name: Arc::from(name),
        max_in_flight,
        kind: kind(section)?,
    })
}

fn kind(section: &Section<'_>) -> Option<TargetKind> {
    match (section.get("url"), section.get("respond")) {
        (Some(url), None) => {
            let server = server(section, &url)?;
            Some(TargetKind::Server(Box::new(server)))
        }
        (None, Some(answer)) => {
            section.refuse(&SERVER_KEYS, "belongs to an upstream with a url");
            respond(&answer).map(TargetKind::Respond)
        }
        (Some(url), Some(answer)) => {
            answer.fault("an upstream has either a url or respond, not both");
            server(section, &url);
            respond(&answer);
            None
        }
        (None, None) => {
            section.settle(&SERVER_KEYS);
            section.fault(
                "url",
                "is missing: write where the server is, like \"http://127.0.0.1:8000\", or respond for a built-in answer",
            );
            None
        }
    }
}

fn respond(field: &Field<'_>) -> Option<Respond> {
    let section = field.section()?;
    let body = section.get("body").and_then(|field| field.text());
    let content_type = section.get("content_type").and_then(|field| {
        let value = HeaderValue::from_str(&field.text()?.value).ok();
        if value.is_none() {
            field.refuse("is not a header's value: visible ASCII and spaces only");
        }
        value
    });
    let status = section.whole("status", 200, &(200..=599));
    let respond = Respond {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::OK),
        body: body.map_or_else(Bytes::new, |text| Bytes::from(text.value)),
        content_type: content_type.unwrap_or(CONTENT_TYPE),
        delay: section.duration("delay", Duration::ZERO, &DELAY),
    };
    if matches!(status, 204 | 205 | 304) && !respond.body.is_empty() {
        section.fault("body", format_args!("an answer {status} has no body"));
    }
    section.close();
    Some(respond)
}
