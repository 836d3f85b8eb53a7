// A real weir with traffic, and a browser before its page.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A key that would run, were it taken for anything but text. */
export const EVIL = "<img src=x onerror=alert(1)>";

const config = ({ listen, admin, backend, nobody, server }) => `
[server]
listen = "127.0.0.1:${listen}"
admin = "127.0.0.1:${admin}"
threads = 1
shutdown_grace = "200ms"
${server}

[limits.per_client]
key = "{header.x-user-id|ip}"
rate = "5r/s"
burst = 20
delay = 2

[limits.payment_provider_in_all]
key = "all"
rate = "20r/s"
burst = 100

[limits.signups]
key = "{ip}"
algorithm = "token_bucket"
rate = "10r/m"
capacity = 5

[limits.per_api_key]
key = "{header.x-api-key}"
on_missing_key = "skip"
rate = "1r/s"
burst = 10

[upstreams.payments]
url = "http://127.0.0.1:${backend}"
max_in_flight = 12

[upstreams.site]
respond = { status = 200, body = "ok" }

[upstreams.nobody_there]
url = "http://127.0.0.1:${nobody}"

[[routes]]
path = "/v1/"
upstream = "payments"
limits = ["per_client", "per_api_key", "payment_provider_in_all"]

[[routes]]
path = "/signup"
upstream = "site"
limits = ["signups"]

[[routes]]
path = "/old/"
upstream = "nobody_there"
`;

function freePort() {
  return new Promise((resolve) => {
    const socket = createServer().listen(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });
}

/** Starts weir; `server` is more to say in `[server]`. */
export async function start(server = "") {
  const backend = http.createServer((_request, answer) => setTimeout(() => answer.end("ok"), 120 + Math.random() * 80));
  await new Promise((up) => backend.listen(0, "127.0.0.1", up));
  const [listen, admin, nobody] = [await freePort(), await freePort(), await freePort()];
  const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
  const file = join(folder, "weir.toml");
  writeFileSync(file, config({ listen, admin, nobody, backend: backend.address().port, server }));
  const child = spawn(process.env.WEIR, ["serve", "-c", file], { stdio: ["ignore", "ignore", "inherit"] });
  // Whatever ends this, weir ends with it.
  process.on("exit", () => child.kill("SIGKILL"));
  const url = `http://127.0.0.1:${admin}/`;
  const deadline = Date.now() + 20_000;
  while (!await fetch(`${url}readyz`).then((answer) => answer.ok, () => false)) {
    if (Date.now() > deadline) throw new Error("weir does not begin");
    await new Promise((later) => setTimeout(later, 50));
  }
  const agent = new http.Agent({ maxSockets: Infinity });
  const send = (path, headers = {}) => {
    const request = http.get({ host: "127.0.0.1", port: listen, path, headers, agent }, (answer) => answer.resume());
    request.on("error", () => undefined);
    return request;
  };
  return {
    url, send,
    edit: (from, to) => writeFileSync(file, readFileSync(file, "utf8").replace(from, to)),
    async stop() {
      child.kill("SIGKILL");
      agent.destroy();
      backend.closeAllConnections();
      backend.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** More than may go, from several users; stops when told. */
export function load(weir) {
  const users = [["alice", 9], ["bob", 6], ["tenant-0042/checkout/eu-central-1/" + "x".repeat(60), 5.4], [EVIL, 7]];
  const timers = users.map(([user, perSecond]) =>
    setInterval(() => weir.send("/v1/charges", { "x-user-id": user }), 1000 / perSecond));
  timers.push(setInterval(() => weir.send("/v1/keyed", { "x-user-id": `u${Math.random()}`, "x-api-key": "k3y-0f-s0me0ne" }), 700));
  timers.push(setInterval(() => weir.send("/signup"), 2500), setInterval(() => weir.send("/old/"), 4000));
  return () => timers.forEach(clearInterval);
}
