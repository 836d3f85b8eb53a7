//! Who takes part, for how many rounds, and what did each round give?

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::backend::Backend;
use crate::ground::find_weir;
use crate::length::Length;
use crate::proxy::{Limit, Product, Proxy, find_haproxy, find_nginx};

/// What all parts of the benchmark share.
#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) backend: Backend,
    pub(crate) length: Length,
    pub(crate) nginx: PathBuf,
    /// `None`: it takes no part.
    pub(crate) haproxy: Option<PathBuf>,
    /// `None`: the others run without it.
    pub(crate) weir: Option<PathBuf>,
}

impl Contest {
    pub(crate) fn new(length: Length) -> Result<Self> {
        Ok(Self {
            nginx: find_nginx()?,
            haproxy: find_haproxy(),
            weir: find_weir()?,
            backend: Backend::start()?,
            length,
        })
    }

    /// Those that have a line which drains at a rate, in the order of their turns.
    pub(crate) fn products(&self) -> Vec<Product> {
        let weir = self.weir.as_ref().map(|_| Product::Weir);
        weir.into_iter().chain([Product::Nginx]).collect()
    }

    /// All that forward.
    fn forwarders(&self) -> Vec<Product> {
        let haproxy = self.haproxy.as_ref().map(|_| Product::HaProxy);
        self.products().into_iter().chain(haproxy).collect()
    }

    pub(crate) async fn start(&self, product: Product, limit: &Limit) -> Result<Proxy> {
        let binary = match product {
            Product::Weir => self.weir.as_deref().context("weir takes no part")?,
            Product::Nginx => &self.nginx,
            Product::HaProxy => self.haproxy.as_deref().context("haproxy takes no part")?,
        };
        Proxy::start(product, binary, limit, self.backend.address).await
    }

    /// Starts all that forward.
    pub(crate) async fn start_all(&self, limit: &Limit) -> Result<Vec<Proxy>> {
        let mut proxies = Vec::new();
        for product in self.forwarders() {
            proxies.push(self.start(product, limit).await?);
        }
        Ok(proxies)
    }

    /// Each round's number, told on standard error as it begins.
    pub(crate) fn rounds(&self, what: &str) -> impl Iterator<Item = usize> {
        let rounds = how_many_rounds(self.length);
        (1..=rounds).inspect(move |round| {
            // Progress only: the table stands without it.
            drop(writeln!(
                std::io::stderr(),
                "… {what}, round {round} of {rounds}"
            ));
        })
    }
}

/// How often a part is measured.
pub(crate) fn how_many_rounds(length: Length) -> usize {
    length.pick(7, 3)
}

/// What stood between the clients and the backend when a figure was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Between {
    Nothing,
    Proxy(Product),
}

impl From<Product> for Between {
    fn from(product: Product) -> Self {
        Self::Proxy(product)
    }
}

/// One figure of each round, in the order of the rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) weir: Vec<f64>,
    pub(crate) nginx: Vec<f64>,
    pub(crate) haproxy: Vec<f64>,
    /// Without a proxy: what the machine and the measuring do by themselves.
    pub(crate) bare: Vec<f64>,
}

impl Rounds {
    pub(crate) fn add(&mut self, between: impl Into<Between>, figure: f64) {
        match between.into() {
            Between::Nothing => self.bare.push(figure),
            Between::Proxy(Product::Weir) => self.weir.push(figure),
            Between::Proxy(Product::Nginx) => self.nginx.push(figure),
            Between::Proxy(Product::HaProxy) => self.haproxy.push(figure),
        }
    }
}
