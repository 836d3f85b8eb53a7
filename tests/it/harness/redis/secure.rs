//! How does weir reach a Redis that lets in by TLS and a password only?

use socket2::Socket;
use tempfile::TempDir;

use super::super::certificates::Authority;
use super::super::reserved_port;
use super::{PATIENCE, Redis};

/// Who weir is, and what may be seen nowhere.
const USER: &str = "weir-user";
const PASSWORD: &str = "pa55-w0rd-that-nobody-may-see";

/// Who the test is, on a plain port of its own.
const TESTER: [&str; 2] = ["tester", "tests"];

/// A Redis behind TLS. weir's user may touch weir's keys and channels only, and
/// nobody comes in without a password.
#[derive(Debug)]
pub(crate) struct Secure {
    redis: Redis,
    root: Authority,
    port: u16,
    _reserved: Socket,
    _dir: TempDir,
}

impl Secure {
    pub(crate) async fn start() -> Self {
        let root = Authority::new();
        let own = root.vouch_for("127.0.0.1");
        let dir = TempDir::new().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let [name, password] = TESTER;
        let users = format!(
            "user default off\nuser {name} on >{password} ~* &* +@all\n\
             user {USER} on >{PASSWORD} ~weir:* &weir:* +@all\n"
        );
        let (reserved, address) = reserved_port();
        let args = [
            "--tls-port",
            &address.port().to_string(),
            "--tls-cert-file",
            &file("own.pem", &own.chain),
            "--tls-key-file",
            &file("own.key", &own.key),
            "--tls-ca-cert-file",
            &file("ca.pem", &root.pem),
            "--tls-auth-clients",
            "no",
            "--aclfile",
            &file("users.acl", &users),
        ];
        let redis = Redis::begin(&args).with_user(TESTER);
        redis.is_ready().await;
        Self {
            redis,
            root,
            port: address.port(),
            _reserved: reserved,
            _dir: dir,
        }
    }

    pub(crate) const fn redis(&self) -> &Redis {
        &self.redis
    }

    /// What must appear nowhere.
    pub(crate) const fn password() -> &'static str {
        PASSWORD
    }

    /// What a config says so that buckets live here; `ca.pem` lies beside it.
    pub(crate) fn store(&self) -> String {
        self.store_with(PASSWORD)
    }

    /// The same with this password.
    pub(crate) fn store_with(&self, password: &str) -> String {
        let url = format!("rediss://{USER}:{password}@127.0.0.1:{}", self.port);
        format!("[store]\nkind = \"redis\"\nurl = \"{url}\"\nca = \"ca.pem\"\n{PATIENCE}")
    }

    /// The certificate of who vouches for it, as PEM.
    pub(crate) fn ca(&self) -> &str {
        &self.root.pem
    }
}
