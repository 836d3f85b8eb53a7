//! What do all parts share, and how do several instances come to share a line?

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::backend::Backend;
use crate::ground::find_weir;
use crate::instance::{Instance, Setting};
use crate::length::Length;
use crate::redis::Redis;

/// So many share a line.
pub(crate) const INSTANCES: u32 = 3;

#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) backend: Backend,
    pub(crate) length: Length,
    pub(crate) weir: PathBuf,
}

impl Arena {
    pub(crate) fn new(length: Length) -> Result<Self> {
        Ok(Self {
            weir: find_weir()?.context("no weir: WEIR_BIN names one")?,
            backend: Backend::start()?,
            length,
        })
    }

    pub(crate) async fn one(&self, setting: &Setting) -> Result<Instance> {
        Instance::weir(&self.weir, setting, self.backend.address).await
    }

    /// Instances that reach Redis by these addresses and know of each other.
    pub(crate) async fn several(
        &self,
        setting: Setting,
        ways: &[SocketAddr],
    ) -> Result<Vec<Instance>> {
        let mut instances = Vec::new();
        for way in ways {
            let redis = Some(*way);
            instances.push(self.one(&Setting { redis, ..setting }).await?);
        }
        for instance in &instances {
            let all = u32::try_from(ways.len()).context("count instances")?;
            instance.shows("weir_store_up ", 1.0).await?;
            instance.shows("weir_instances ", all.into()).await?;
        }
        Ok(instances)
    }

    pub(crate) async fn three(&self, setting: Setting, redis: &Redis) -> Result<Vec<Instance>> {
        self.several(setting, &[redis.address; INSTANCES as usize])
            .await
    }
}

/// Tells on standard error what is done now.
pub(crate) fn tell(what: &str) {
    // Progress only: the table stands without it.
    drop(writeln!(std::io::stderr(), "… {what}"));
}
