//! What does an upstream of weir's own say?

use bytes::Bytes;
use http::{Response, header};

use crate::forward::Respond;

/// The answer that the config gives, after the delay that it gives.
pub async fn answer(respond: &Respond) -> Response<Bytes> {
    if !respond.delay.is_zero() {
        tokio::time::sleep(respond.delay).await;
    }
    let mut response = Response::new(respond.body.clone());
    *response.status_mut() = respond.status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, respond.content_type.clone());
    response
}
