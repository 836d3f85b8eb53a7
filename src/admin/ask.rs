//! How is it read what a request asks for?

use std::ops::Deref;

use axum::extract::{FromRequestParts, Path, Query};
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::error::AdminError;

/// Which limit.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct Named {
    /// The limit's name.
    pub(super) limit: String,
}

/// Which key of which limit.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OneKey {
    /// The limit's name.
    pub(super) limit: String,
    /// The hash of the key, or its text.
    pub(super) id: String,
}

/// What the path says.
pub(super) struct Which<T>(T);

/// What the query says.
pub(super) struct Queried<T>(pub(super) T);

impl<T> Deref for Which<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Which<T> {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AdminError> {
        let path = Path::from_request_parts(parts, state).await;
        let Path(named) = path.map_err(|odd| AdminError::BadRequest(odd.body_text()))?;
        Ok(Self(named))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Queried<T> {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AdminError> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(said) = query.map_err(|odd| AdminError::BadRequest(odd.body_text()))?;
        Ok(Self(said))
    }
}
