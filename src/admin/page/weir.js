"use strict";
// What an instance tells once a second, as plots, tables and buttons. Whatever comes from
// requests is only ever set as text.

const SPAN = 300; // seconds that plots show, once there are so many
const SHORTEST = 60;
const LATELY = 10; // seconds over which rates are counted
const KEYS = 5; // deepest keys of a limit
const SVG = "http://www.w3.org/2000/svg";

const body = document.body;
let right = body.dataset.right;
const readOnly = body.dataset.readOnly === "true";
const limits = new Map();
let seen = [];
let loaded = null;
let lastHeard = performance.now();
let pointed = null; // how many seconds ago somebody points at
let shown = SHORTEST; // how many seconds plots show now

// ---- numbers, for people

const whole = new Intl.NumberFormat("en");
const number = (value, digits = value < 10 ? 2 : 3) =>
  value >= 1000 ? whole.format(Math.round(value)) : String(+value.toPrecision(digits));
const rate = (perSecond) =>
  perSecond > 0 && perSecond < 0.95 ? `${number(perSecond * 60, 2)}/min` : `${number(perSecond)}/s`;

function span(seconds) {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${number(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  seconds = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  return parts.slice(first, first + 2).map(([size, unit], at) => {
    const count = Math.floor((at ? seconds % parts[first][0] : seconds) / size);
    return count || !at ? `${count} ${unit}` : "";
  }).join(" ").trim();
}

const plural = (count, one, many = `${one}s`) => `${whole.format(count)} ${count === 1 ? one : many}`;
const sum = (counts) => Object.values(counts).reduce((all, one) => all + one, 0);
const reasons = (counts) => Object.entries(counts).filter(([, count]) => count)
  .sort((a, b) => b[1] - a[1]).map(([why, count]) => `${why.replaceAll("_", " ")} ${whole.format(count)}`).join(", ");

// Signs that turn text around would make one key look like another.
const plainly = (text) => text.replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// ---- elements

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "click") made.addEventListener("click", value);
    else if (value !== null && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

const show = (where, is) => { where.hidden = !is; };
const button = (text, click, kind = "") => element("button", { type: "button", class: kind, click }, text);

// ---- the page's parts

const top_ = {
  version: element("span", { class: "quiet" }),
  place: element("span", { class: "place" }, location.host),
  state: element("span", { class: "chip", id: "state" }),
  reload: button("Reload config", () => act("POST", "api/reload", reloaded), "act"),
  enter: button("Sign in", () => void signIn()),
  leave: button("Sign out", signOut),
};
const about = element("p", { class: "about" });
const notice = element("p", { class: "notice", hidden: "" });
const told = element("div", { id: "told", role: "status", "aria-live": "polite" });
const tiles = ["Waiting", "Leaving", "Refused", "In flight"].map((name) => {
  const [value, more] = [element("b"), element("small")];
  return { value, more, box: element("div", { class: "tile" }, element("span", {}, name), value, more) };
});
const cards = element("div", { id: "limits" });
const upstreams = table("upstreams", ["Upstream", "Health", "In flight", "Answers", "Latency", "5xx", "Errors"]);
const routes = table("routes", ["Route", "Limits", "Passed", "Delayed", "Refused", "Left", "Failed", "Shed"]);

const live = element("main", { id: "live" },
  element("header", {},
    element("div", { class: "brand" }, element("img", { src: "weir.svg", alt: "", width: 30, height: 30 }),
      element("h1", {}, "weir"), top_.version, top_.state, top_.place),
    element("div", { class: "buttons" }, top_.reload, top_.enter, top_.leave)),
  about, notice,
  element("div", { class: "tiles" }, ...tiles.map((tile) => tile.box)),
  element("h2", {}, "Limits"), cards,
  element("h2", {}, "Upstreams"), upstreams.box,
  element("h2", {}, "Routes"), routes.box,
  element("footer", {}, element("a", { href: "metrics" }, "Metrics"), element("a", { href: "api/openapi.json" }, "API")),
  told);

function table(id, columns) {
  const rows = element("tbody");
  const head = element("thead", {}, element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name))));
  return { rows, columns, known: new Map(), box: element("div", { class: "wide" }, element("table", { id }, head, rows)) };
}

// Rows stay the same elements while they are about the same thing: a button keeps its focus.
function fill(into, rows) {
  const kept = new Map();
  rows.forEach(({ key, cells, act: last }, place) => {
    let row = into.known.get(key);
    if (!row) {
      row = element("tr", {}, ...into.columns.map((name) => element("td", { "data-name": name })));
      if (last) row.lastChild.append(...last);
    }
    cells.forEach((cell, at) => {
      const { text, kind = "", title = null, part = null } = typeof cell === "object" ? cell : { text: cell };
      const td = row.children[at];
      if (td.className !== kind) td.className = kind;
      if (title !== null && td.title !== title) td.title = title;
      if (part === null) return say(td, text);
      if (!td.firstChild) td.append(element("span"), gauge());
      say(td.firstChild, text);
      level(td.lastChild, part);
    });
    if (into.rows.children[place] !== row) into.rows.insertBefore(row, into.rows.children[place] ?? null);
    kept.set(key, row);
  });
  for (const [key, row] of into.known) if (!kept.has(key)) row.remove();
  into.known = kept;
}

const gauge = () => element("span", { class: "gauge", "aria-hidden": "true" }, element("i"));
function level(bar, part) {
  bar.firstChild.style.width = `${Math.min(1, part) * 100}%`;
  bar.classList.toggle("full", part >= 1);
}

// ---- plots

function plot(name, kind) {
  const picture = drawn("svg", { viewBox: "0 0 300 100", preserveAspectRatio: "none", role: "img", "aria-label": name });
  const [area, line, mark, here] = ["path", "path", "path", "path"].map((part, at) =>
    drawn(part, { class: ["area", "line", "mark", "here"][at] }));
  picture.append(area, line, mark, here);
  const [value, more, most] = [element("b"), element("small"), element("small", { class: "most" })];
  const frame = element("div", { class: "frame" }, picture, most);
  frame.addEventListener("pointermove", (event) => {
    const box = frame.getBoundingClientRect();
    pointed = (1 - (event.clientX - box.left) / box.width) * shown;
    draw();
  });
  frame.addEventListener("pointerleave", () => { pointed = null; draw(); });
  const box = element("figure", { class: `plot ${kind}` },
    element("figcaption", {}, element("span", {}, name), value, more), frame);
  return { area, line, mark, here, value, more, most, box };
}

function trace(into, points, most, mark) {
  const now = seen.at(-1)?.time ?? 0;
  const across = (ago) => (300 * (1 - ago / shown)).toFixed(1);
  const height = (value) => (96 - 90 * value / most).toFixed(1);
  let [line, area, last] = ["", "", null];
  const close = () => { if (last) area += `L${last.x} 100Z`; };
  for (const { time, value } of points) {
    if (time < now - shown) continue;
    const x = across(now - time);
    if (!last || time - last.time > 3.5) {
      close();
      line += `M${x} ${height(value)}h0.01`;
      area += `M${x} 100V${height(value)}`;
    } else {
      line += `L${x} ${height(value)}`;
      area += `L${x} ${height(value)}`;
    }
    last = { x, time };
  }
  close();
  into.line.setAttribute("d", line);
  into.area.setAttribute("d", area);
  into.mark.setAttribute("d", mark ? `M0 ${height(mark)}H300` : "");
  into.here.setAttribute("d", pointed === null ? "" : `M${across(pointed)} 0V100`);
}

// ---- limits

function card(name) {
  const made = {
    name, dialog: null,
    state: element("span", { class: "chip" }),
    facts: element("p", { class: "facts" }),
    pause: button("Pause", () => void askPause(name), "act"),
    resume: button("Resume", () => act("POST", `${path(name)}/resume`, resumed), "act"),
    purge: button("Purge", () => void askPurge(name), "act danger"),
    plots: [plot("Arriving", "in"), plot("Leaving", "out"), plot("Waiting", "wait"), plot("Refused", "no")],
    room: element("span"), gauge: gauge(),
    since: element("span"),
    total: element("p", { class: "quiet total" }),
    keys: table(`keys-${name}`, ["Deepest keys", "Here", "In line", "Next slot", "Oldest wait", ""]),
    nobody: element("p", { class: "quiet nobody" }),
  };
  made.line = element("p", { class: "room" }, made.room, made.gauge);
  made.box = element("section", { class: "card", "data-limit": name },
    element("div", { class: "title" },
      element("h3", {}, name), made.state,
      element("span", { class: "buttons" }, made.resume, made.pause, made.purge)),
    made.facts, element("div", { class: "plots" }, ...made.plots.map((one) => one.box)),
    element("p", { class: "axis" }, made.since, element("span", {}, "now")),
    made.line, made.keys.box, made.nobody, made.total);
  cards.append(made.box);
  return made;
}

function about_(limit) {
  const facts = [limit.rate];
  if (limit.window_seconds !== null) facts.push(limit.algorithm.replaceAll("_", " "));
  else facts.push(limit.algorithm === "token_bucket" ? `${limit.burst} at once` : `burst ${whole.format(limit.burst)}`);
  if (limit.algorithm === "leaky_bucket" && limit.delay) {
    facts.push(limit.delay >= limit.burst ? "nobody waits" : `first ${whole.format(limit.delay)} at once`);
  }
  if (limit.max_wait_seconds !== null) facts.push(`waits up to ${span(limit.max_wait_seconds)}`);
  facts.push(`key ${limit.key}`, plural(limit.buckets, "key") + " known");
  return facts.join(" · ");
}

function state(limit) {
  if (limit.paused) return ["paused", `paused, ${span(limit.paused_for_seconds)} left`];
  const room = limit.burst - limit.delay;
  if (limit.algorithm === "leaky_bucket" && room > 0 && limit.line_length >= room) return ["full", "full"];
  if (limit.paused_buckets) return ["paused", `${plural(limit.paused_buckets, "key")} paused`];
  if (limit.dry_run) return ["quiet", "dry run"];
  return ["ready", "open"];
}

function paint(made, limit) {
  const [kind, words] = state(limit);
  made.state.className = `chip ${kind}`;
  say(made.state, words);
  say(made.facts, about_(limit));
  const room = limit.algorithm === "leaky_bucket" ? limit.burst - limit.delay : 0;
  show(made.line, room > 0);
  say(made.room, `Longest line ${whole.format(limit.line_length)} of ${whole.format(room)}`);
  level(made.gauge, room > 0 ? limit.line_length / room : 0);
  const refused = sum(limit.refused);
  say(made.total, `Since the start: ${whole.format(limit.admitted)} admitted, ${whole.format(refused)} refused`
    + (refused ? ` (${reasons(limit.refused)})` : "")
    + (sum(limit.would_refuse) ? `; a dry run would have refused ${reasons(limit.would_refuse)}` : ""));
  show(made.resume, limit.paused && mayAct());
  show(made.pause, !limit.paused && mayAct());
  show(made.purge, mayAct());
  made.purge.disabled = !limit.waiting && !limit.line_length;
}

// What happened between two looks, by the second. Clients that left are known by route only.
function between(before, after, name) {
  const [was, is] = [before.status.limits, after.status.limits].map((all) => all.find((one) => one.name === name));
  if (!was || !is) return null;
  const time = after.time - before.time;
  const left = (status) => status.routes.filter((route) => route.limits.includes(name))
    .reduce((all, route) => all + route.requests.left, 0);
  const out = is.admitted - was.admitted;
  const no = sum(is.refused) - sum(was.refused);
  const gone = Math.min(left(after.status) - left(before.status), Math.max(0, was.waiting - is.waiting + out));
  return { in: Math.max(0, out + no + gone + is.waiting - was.waiting) / time, out: out / time, no: no / time };
}

function draw() {
  shown = Math.min(SPAN, Math.max(SHORTEST, Math.ceil((seen.at(-1).time - seen[0].time) / 60) * 60));
  const at = pointed === null ? null : seen.at(-1).time - pointed;
  for (const [name, made] of limits) {
    const limit = seen.at(-1).status.limits.find((one) => one.name === name);
    if (!limit) continue;
    const points = { in: [], out: [], no: [], wait: [] };
    // A slow limit lets one go now and then: that is a rate over a longer time only.
    const lately = limit.rate_per_second >= 1 ? 3 : 30;
    seen.forEach((look, index) => {
      const waiting = look.status.limits.find((one) => one.name === name)?.waiting;
      if (waiting !== undefined) points.wait.push({ time: look.time, value: waiting });
      const flow = index && between(seen[Math.max(0, index - lately)], look, name);
      if (flow) for (const kind of ["in", "out", "no"]) points[kind].push({ time: look.time, value: flow[kind] });
    });
    const most = (...lists) => Math.max(...lists.flat().map((point) => point.value), 0);
    const fastest = Math.max(most(points.in, points.out, points.no), limit.rate_per_second) * 1.05;
    const longest = Math.max(most(points.wait), 1) * 1.05;
    const value = (list) => at === null ? list.at(-1)?.value
      : list.findLast((point) => point.time <= at + 0.5 && point.time > at - 3.5)?.value;
    say(made.since, `${shown / 60} min ago`);
    const ago = pointed === null ? null : `${Math.round(pointed)} s ago`;
    const [arriving, leaving, waiting, refused] = made.plots;
    for (const [into, list, mark] of [[arriving, points.in], [leaving, points.out, limit.buckets > 1 ? 0 : limit.rate_per_second], [refused, points.no]]) {
      trace(into, list, fastest, mark);
      const now = value(list);
      say(into.value, now === undefined ? "–" : rate(now));
      say(into.most, rate(fastest / 1.05));
    }
    trace(waiting, points.wait, longest);
    const now = value(points.wait);
    say(waiting.value, now === undefined ? "–" : whole.format(now));
    say(waiting.most, whole.format(Math.round(longest / 1.05)));
    say(arriving.more, ago ?? "");
    say(leaving.more, ago ?? (limit.buckets > 1 ? `${limit.rate} each key` : `of ${limit.rate}`));
    say(waiting.more, ago ?? (limit.waiting ? `oldest ${span(limit.oldest_wait_seconds)}` : ""));
    say(refused.more, ago ?? "");
    refused.box.classList.toggle("calm", !most(points.no));
    waiting.box.classList.toggle("calm", !most(points.wait));
  }
}

// ---- what is told

function hear(status) {
  lastHeard = performance.now();
  if (!live.isConnected) {
    document.getElementById("plain").remove();
    body.append(live);
  }
  const before = seen.at(-1);
  const time = status.uptime_seconds;
  // Another process, or a reload that changed the limits: what was counted is no longer comparable.
  if (before && time < before.time) seen = [];
  seen.push({ time, status });
  while (seen[0].time < time - SPAN - LATELY) seen.shift();
  const lately = seen.find((look) => look.time >= time - LATELY) ?? seen[0];
  head(status);
  for (const limit of status.limits) {
    if (!limits.has(limit.name)) limits.set(limit.name, card(limit.name));
    paint(limits.get(limit.name), limit);
  }
  for (const [name, made] of limits) {
    if (status.limits.some((limit) => limit.name === name)) continue;
    made.box.remove();
    limits.delete(name);
  }
  if (!status.limits.length) say(cards, "No limits are configured: every request passes.");
  summary(status, lately);
  servers(status, lately);
  fill(routes, status.routes.map((route) => ({
    key: route.name,
    cells: [{ text: route.name, kind: "name" }, { text: route.limits.join(", ") || "none", kind: "words" },
      ...["passed", "delayed", "refused", "left", "failed", "shed"].map((how) => whole.format(route.requests[how]))],
  })));
  draw();
}

function head(status) {
  say(top_.version, status.version);
  say(top_.state, status.state);
  top_.state.className = `chip ${status.state}`;
  const { store, config } = status;
  loaded = config.loaded_at ? new Date(config.loaded_at) : null;
  const failed = config.reloads.failure;
  about.replaceChildren(...[
    ["Up", span(status.uptime_seconds)],
    ["Config of", (loaded?.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) ?? "–")
      + (failed ? `, ${plural(failed, "failed reload")} since the start` : ""), failed ? "warn" : ""],
    ["Lines in", store.kind === "redis" ? "Redis" : "memory",
      ""],
    ...(store.kind === "redis" ? [["Redis", store.state === "up" ? "up" : "away: limits go on without it", store.state],
      ["Instances", whole.format(store.instances)]] : []),
  ].map(([name, value, kind = ""]) => element("span", {}, element("i", {}, name), " ", element("b", { class: kind }, value))));
  const draining = status.state === "draining";
  show(notice, draining || readOnly || right === "closed");
  notice.className = `notice ${draining ? "warn" : ""}`;
  say(notice, draining ? "Shutting down: those who wait are served, nobody new is taken."
    : readOnly ? "This listener takes no changes." : `Only to be looked at from here: ${body.dataset.closed}.`);
  show(top_.reload, mayAct());
  show(top_.enter, right === "token");
  show(top_.leave, right === "session");
}

function summary(status, lately) {
  const time = seen.at(-1).time - lately.time;
  const per = (count) => time > 0 ? rate(Math.max(0, count(status) - count(lately.status)) / time) : "–";
  const all = (how) => (one) => one.routes.reduce((sum_, route) => sum_ + how(route.requests), 0);
  const [waiting, leaving, refused, flying] = tiles;
  const oldest = Math.max(0, ...status.limits.map((limit) => limit.oldest_wait_seconds));
  say(waiting.value, whole.format(status.waiting));
  say(waiting.more, status.waiting ? `oldest ${span(oldest)}` : "nobody");
  say(leaving.value, per(all((how) => how.passed + how.delayed)));
  say(leaving.more, "answered by upstreams");
  say(refused.value, per(all((how) => how.refused + how.shed)));
  const gone = per(all((how) => how.left));
  say(refused.more, gone === "–" ? "" : `${gone} left by themselves`);
  const inFlight = status.upstreams.reduce((sum_, one) => sum_ + one.in_flight, 0);
  say(flying.value, whole.format(inFlight));
  const part = (one) => one.in_flight / one.max_in_flight;
  const [fullest] = status.upstreams.filter((one) => one.max_in_flight !== null).sort((a, b) => part(b) - part(a));
  say(flying.more, fullest ? `${fullest.name}: ${fullest.in_flight} of ${whole.format(fullest.max_in_flight)}` : "no bound");
  waiting.box.classList.toggle("wait", status.waiting > 0);
  refused.box.classList.toggle("no", parseFloat(refused.value.textContent) > 0);
  document.title = status.waiting ? `${whole.format(status.waiting)} waiting · weir` : "weir";
}

function servers(status, lately) {
  const time = seen.at(-1).time - lately.time;
  fill(upstreams, status.upstreams.map((one) => {
    const was = lately.status.upstreams.find((other) => other.name === one.name) ?? one;
    const answers = sum(one.answers) - sum(was.answers);
    const latency = answers > 0 ? span((one.answer_seconds - was.answer_seconds) / answers) : "–";
    const errors = sum(one.errors);
    const [bad, newly] = [one.answers["5xx"], (count) => count > 0 ? `, ${whole.format(count)} in ${LATELY} s` : ""];
    const [freshBad, freshErrors] = [bad - was.answers["5xx"], errors - sum(was.errors)];
    return {
      key: one.name,
      cells: [
        { text: one.name, kind: "name", title: one.target },
        { text: { well: "up", down: "down", unknown: "not probed" }[one.state], kind: { well: "good", down: "bad", unknown: "quiet" }[one.state] },
        one.max_in_flight === null ? { text: whole.format(one.in_flight) }
          : { text: `${whole.format(one.in_flight)} of ${whole.format(one.max_in_flight)}`, part: one.in_flight / one.max_in_flight },
        time > 0 ? rate(answers / time) : "–",
        { text: latency, title: "Until an answer begins, on average of the last 10 s" },
        { text: whole.format(bad) + newly(freshBad), kind: freshBad > 0 ? "bad" : "" },
        { text: whole.format(errors) + newly(freshErrors), kind: freshErrors > 0 ? "bad" : "", title: reasons(one.errors) },
      ],
    };
  }));
}

// ---- keys

const path = (limit, key = null) => `api/limits/${encodeURIComponent(limit)}`
  + (key === null ? "" : `/buckets/${encodeURIComponent(key)}`);

async function lookAtKeys() {
  const status = seen.at(-1)?.status;
  if (!status || document.hidden) return;
  for (const limit of status.limits) {
    const made = limits.get(limit.name);
    if (!made) continue;
    const queue = limit.algorithm === "leaky_bucket" && limit.delay < limit.burst;
    const some = limit.waiting > 0 || limit.paused_buckets > 0 || limit.line_length > 0;
    const may = right === "open" || right === "session";
    let buckets = [];
    if (some && may) {
      const answer = await fetch(`${path(limit.name)}/buckets?top=${KEYS}`).catch(() => null);
      if (answer?.status === 401) shut();
      if (answer?.ok) buckets = (await answer.json()).buckets.filter((one) => one.line_length || one.paused);
    }
    show(made.keys.box, buckets.length > 0);
    show(made.nobody, !buckets.length);
    say(made.nobody, some && right === "token" ? "Sign in to see who waits."
      : some && !may ? "Keys are not shown here." : queue ? "Nobody waits." : "Nobody waits in this limit: what is too much is refused.");
    fill(made.keys, buckets.map((one) => row(limit, one)));
  }
}

function row(limit, bucket) {
  const name = bucket.key === null ? bucket.id : plainly(bucket.key);
  const to = `${path(limit.name, bucket.id)}`;
  const key = `${bucket.id} ${bucket.paused} ${mayAct()}`;
  const buttons = [
    bucket.paused ? button("Resume", () => act("POST", `${to}/resume`, resumed), "act")
      : button("Pause", () => void askPause(limit.name, bucket.id, name), "act"),
    button("Purge", () => void askPurge(limit.name, bucket.id, name, bucket.line_length), "act danger"),
  ];
  return {
    key,
    cells: [
      { text: name, kind: bucket.key === null ? "name hash" : "name", title: bucket.key === null ? `Only the hash of this key is shown` : name },
      whole.format(bucket.waiting), whole.format(bucket.line_length),
      bucket.paused ? { text: `paused, ${span(bucket.paused_for_seconds)}`, kind: "held" } : `in ${span(bucket.next_slot_seconds)}`,
      span(bucket.oldest_wait_seconds),
    ],
    act: mayAct() ? buttons : [],
  };
}

// ---- changes

const mayAct = () => right !== "closed" && !readOnly;

function tell(words, kind = "") {
  const line = element("p", { class: kind }, words);
  const close = button("Close", () => line.remove(), "close");
  line.append(close);
  told.replaceChildren(line);
  if (kind !== "bad") setTimeout(() => line.remove(), 6000);
}

async function act(method, where, then) {
  if (right === "token" && !await signIn()) return;
  let answer;
  try {
    answer = await fetch(where, { method });
  } catch {
    return tell("weir does not answer: nothing is known to have changed.", "bad");
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    shut();
    return act(method, where, then);
  }
  if (!answer.ok) {
    const why = [said.detail ?? `weir answered ${answer.status}`, ...(said.faults ?? [])];
    return tell(`Not done: ${why.join("\n")}`, "bad");
  }
  tell(then(said) + (said.shared === false ? " Redis is away: other instances don't know yet." : ""));
  void lookAtKeys();
}

const what = (said) => said.bucket === null ? said.limit : `one key of ${said.limit}`;
const resumed = (said) => said.paused ? `${what(said)} stays paused, with the whole limit.` : `${what(said)} goes on.`;
const paused = (said) => `${what(said)} is paused for ${span(said.paused_for_seconds)}.`;
const purged = (said) => `${plural(said.purged, "request")} of ${what(said)} sent away${said.shared ? ", and those in other instances" : ""}.`;

function reloaded(said) {
  if (!said.changed.length) return "Reloaded: nothing had changed.";
  const later = said.needs_restart.length ? ` From the next start on: ${said.needs_restart.join(", ")}.` : "";
  return `Reloaded: ${said.changed.join(", ")}.${later}`;
}

// Asks in a dialog; what its form holds when it is confirmed, else null.
function ask(title, words, confirm, kind, ...fields) {
  const problem = element("p", { class: "bad", role: "alert" });
  const cancel = button("Cancel", () => dialog.close());
  const form = element("form", { method: "dialog" }, element("h2", {}, title), words ? element("p", {}, words) : null,
    ...fields, problem, element("div", { class: "buttons" }, cancel, element("button", { type: "submit", class: kind }, confirm)));
  const dialog = element("dialog", {}, form);
  body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    let held = null;
    const tried = { problem, form, close: (value) => { held = value; dialog.close(); } };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const read = new FormData(form);
      if (form.check) void form.check(read, tried);
      else tried.close(read);
    });
    dialog.addEventListener("close", () => { dialog.remove(); resolve(held); });
  });
}

async function askPause(limit, id = null, name = null) {
  const spans = [["1m", "1 minute"], ["10m", "10 minutes"], ["1h", "1 hour"], ["1d", "1 day"]].map(([value, words]) =>
    element("label", {}, element("input", { type: "radio", name: "for", value, checked: value === "10m" ? "" : null }), words));
  const title = name === null ? `Pause ${limit}?` : `Pause a key of ${limit}?`;
  const words = `${name === null ? "Nobody" : `Nobody of ${name}`} goes until it is over; those who wait keep their places.`;
  const said = await ask(title, words, "Pause", "go", element("div", { class: "spans" }, ...spans));
  if (said) await act("POST", `${path(limit, id)}/pause?for=${said.get("for")}`, paused);
}

async function askPurge(limit, id = null, name = null, count = null) {
  const waiting = count ?? seen.at(-1).status.limits.find((one) => one.name === limit)?.waiting ?? 0;
  const title = name === null ? `Purge ${limit}?` : `Purge a key of ${limit}?`;
  const whom = name === null ? "" : ` under ${name}`;
  const said = await ask(title, `${plural(waiting, "request")} waiting${whom} now, and on all other instances, get 503. This can't be undone.`,
    "Purge", "stop");
  if (said) await act("DELETE", `${path(limit, id)}/line`, purged);
}

// ---- sessions

function shut() {
  right = "token";
  if (seen.length) head(seen.at(-1).status);
}

async function signIn() {
  const field = element("input", { type: "password", name: "token", autocomplete: "current-password", required: "", "aria-label": "Admin token" });
  const asked = ask("Sign in", "The admin token, as the config of this instance has it.", "Sign in", "go", field);
  const form = field.form;
  form.check = async (read, tried) => {
    const answer = await fetch("session", { method: "POST", headers: { authorization: `Bearer ${encodeToken(read.get("token"))}` } })
      .catch(() => null);
    if (answer?.ok) return tried.close(true);
    say(tried.problem, answer?.status === 401 ? "That is not the token." : answer ? (await answer.json()).detail : "weir does not answer.");
    field.select();
  };
  field.focus();
  if (!await asked) return false;
  right = "session";
  head(seen.at(-1).status);
  for (const limit of seen.at(-1).status.limits) paint(limits.get(limit.name), limit);
  void lookAtKeys();
  return true;
}

// A header's value takes no other signs, and no token has them.
const encodeToken = (token) => token.trim().replace(/[^\x21-\x7e]/g, "?");

async function signOut() {
  await fetch("session", { method: "DELETE" }).catch(() => null);
  shut();
  void lookAtKeys();
}

// ---- the stream

function listen() {
  const events = new EventSource("api/events");
  events.onmessage = (event) => hear(JSON.parse(event.data));
  events.onerror = () => {
    // The browser tries again by itself, but not after an answer that is no stream.
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
}

setInterval(() => {
  const silent = (performance.now() - lastHeard) / 1000;
  if (silent < 4 || !live.isConnected) return;
  top_.state.className = "chip full";
  say(top_.state, "no contact");
  notice.className = "notice bad";
  show(notice, true);
  say(notice, `Nothing heard for ${span(silent)}: what is shown was so then. Trying again.`);
}, 1000);
setInterval(() => void lookAtKeys(), 2000);
setTimeout(() => void lookAtKeys(), 300);
listen();
