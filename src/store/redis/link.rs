//! How is Redis reached: one server, a cluster, or whoever the sentinels name?

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue,
    IntoConnectionInfo as _, ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult,
    ScriptInvocation, TlsCertificates, TlsMode, Value,
};

use super::config::{RedisConfig, Topology};

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(1);

/// What comes over a connection unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// An instance says that others of a line can move up.
    Message(String),
    /// The connection is gone.
    Gone,
}

/// Where Redis is.
#[derive(Debug)]
pub(super) struct Link {
    config: RedisConfig,
}

/// A connection on which many calls are under way at once.
#[derive(Clone)]
pub(super) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Link {
    pub(super) fn new(config: RedisConfig) -> Self {
        Self { config }
    }

    /// A new connection that listens on `channel` and tells `hear` what it hears.
    pub(super) async fn connect(
        &self,
        channel: &str,
        hear: impl Fn(News) + Send + Sync + 'static,
    ) -> RedisResult<Connection> {
        let push = move |info: PushInfo| {
            if let Some(news) = news(&info) {
                hear(news);
            }
            Ok::<(), RedisError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(CONNECT));
        let connected = async {
            match self.config.topology {
                Topology::Single => {
                    let client = self.client()?;
                    let config = config.set_push_sender(push);
                    let connection = client.get_multiplexed_async_connection_with_config(&config);
                    let mut connection = connection.await?;
                    connection.subscribe(channel).await?;
                    Ok(Connection::One(connection))
                }
                Topology::Sentinel(ref master) => {
                    let config = config.set_push_sender(push);
                    let mut sentinel = self.sentinel(master)?;
                    let mut connection = sentinel.get_async_connection_with_config(&config).await?;
                    connection.subscribe(channel).await?;
                    Ok(Connection::One(connection))
                }
                Topology::Cluster => {
                    let client = self.cluster()?.push_sender(push).build()?;
                    let mut connection = ClusterClient::get_async_connection(&client).await?;
                    connection.subscribe(channel).await?;
                    Ok(Connection::Cluster(connection))
                }
            }
        };
        let late = |_elapsed| timed_out();
        tokio::time::timeout(CONNECT.saturating_mul(2), connected)
            .await
            .map_err(late)?
    }

    fn client(&self) -> RedisResult<Client> {
        let info = self.infos()?.into_iter().next().ok_or_else(nowhere)?;
        match &self.config.ca {
            None => Client::open(info),
            Some(_) => Client::build_with_tls(info, self.certificates()),
        }
    }

    fn cluster(&self) -> RedisResult<ClusterClientBuilder> {
        let infos = self.infos()?;
        let mut builder = ClusterClient::builder(infos)
            .retries(3)
            .connection_timeout(CONNECT)
            .response_timeout(CONNECT)
            .use_protocol(ProtocolVersion::RESP3)
            .tcp_settings(TcpSettings::default().set_nodelay(true));
        if self.config.ca.is_some() {
            builder = builder.certs(self.certificates());
        }
        Ok(builder)
    }

    /// Users and passwords of the addresses are those of the master.
    fn sentinel(&self, master: &str) -> RedisResult<SentinelClient> {
        let infos = self.infos()?;
        let addresses = infos.iter().map(|info| plain(info.addr()));
        let kind = SentinelServerType::Master;
        let mut builder = SentinelClientBuilder::new(addresses, master, kind)?
            .set_client_to_redis_protocol(ProtocolVersion::RESP3)
            .set_client_to_redis_tcp_settings(TcpSettings::default().set_nodelay(true));
        let first = infos.first().ok_or_else(nowhere)?;
        builder = builder.set_client_to_redis_db(first.redis_settings().db());
        if let Some(user) = first.redis_settings().username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = first.redis_settings().password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if matches!(first.addr(), ConnectionAddr::TcpTls { .. }) {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_sentinel_tls_mode(TlsMode::Secure);
            if self.config.ca.is_some() {
                builder = builder
                    .set_client_to_redis_certificates(self.certificates())
                    .set_client_to_sentinel_certificates(self.certificates());
            }
        }
        builder.build()
    }

    fn infos(&self) -> RedisResult<Vec<ConnectionInfo>> {
        let info = |url: &String| {
            let info = url.as_str().into_connection_info()?;
            let settings = info.redis_settings().clone();
            Ok(info
                .set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3))
                .set_tcp_settings(TcpSettings::default().set_nodelay(true)))
        };
        self.config.urls.reveal().iter().map(info).collect()
    }

    fn certificates(&self) -> TlsCertificates {
        TlsCertificates {
            client_tls: None,
            root_cert: self.config.ca.clone(),
        }
    }
}

impl Connection {
    /// Runs a script, loaded anew where the server doesn't know it.
    pub(super) async fn invoke<T: FromRedisValue>(
        &mut self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        match self {
            Self::One(connection) => script.invoke_async(connection).await,
            Self::Cluster(connection) => script.invoke_async(connection).await,
        }
    }

    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::One(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }

    /// Whether it finds its way to other servers by itself.
    pub(super) const fn heals(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

fn news(info: &PushInfo) -> Option<News> {
    match info.kind {
        PushKind::Disconnection => Some(News::Gone),
        PushKind::Message => match info.data.get(1)? {
            Value::BulkString(text) => String::from_utf8(text.clone()).ok().map(News::Message),
            _ => None,
        },
        _ => None,
    }
}

fn plain(address: &ConnectionAddr) -> ConnectionAddr {
    match address {
        ConnectionAddr::TcpTls { host, port, .. } => ConnectionAddr::Tcp(host.clone(), *port),
        other => other.clone(),
    }
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

fn nowhere() -> RedisError {
    (redis::ErrorKind::InvalidClientConfig, "no address").into()
}
