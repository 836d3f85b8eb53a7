// Does the status page show what is so, and do what its buttons say?
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { EVIL, load, start } from "./scene.mjs";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/** A page that may not complain, but of answers that a test wants. */
async function look(weir, options = {}, wanted = []) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => { faults.push(`a dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("console", (line) => {
    if (["error", "warning"].includes(line.type()) && !wanted.some((text) => line.text().includes(text))) faults.push(line.text());
  });
  page.setDefaultTimeout(15_000);
  if (process.env.FRESH) {
    // While one works on them: the files as they are now, not as they were built in.
    for (const [name, type] of [["weir.js", "text/javascript"], ["weir.css", "text/css"]]) {
      await page.route(`**/${name}`, (route) => route.fulfill({ contentType: type, body: readFileSync(`src/admin/page/${name}`) }));
    }
  }
  await page.goto(weir.url);
  return { page, context, faults };
}

const limit = (page, name) => page.locator(`[data-limit="${name}"]`);
const says = (where, text) => where.filter({ hasText: text }).first().waitFor();

/** Requests of one key that wait for a long time: more than may go soon. */
async function crowd(weir, page) {
  for (let n = 0; n < 12; n += 1) weir.send("/v1/x", { "x-user-id": EVIL });
  await limit(page, "per_client").locator("tbody tr").first().waitFor();
}

const tests = {
  async "what requests bring stays text"() {
    const weir = await start();
    const { page, faults } = await look(weir);
    const stop = load(weir);
    await crowd(weir, page);
    await says(limit(page, "per_client").locator("td.name"), EVIL);
    assert.equal(await page.locator("img[src=x]").count(), 0);
    const plain = await look(weir, { javaScriptEnabled: false });
    await says(plain.page.locator("td"), EVIL);
    assert.equal(await plain.page.locator("img").count(), 0);
    stop();
    assert.deepEqual([...faults, ...plain.faults], []);
    return weir;
  },

  async "a limit is paused, resumed and purged by its buttons"() {
    const weir = await start();
    const { page, faults } = await look(weir);
    const client = limit(page, "per_client");
    await client.getByRole("button", { name: "Pause", exact: true }).first().click();
    await page.getByRole("dialog").getByLabel("1 hour").check();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await says(page.locator("#told"), "per_client is paused for 1 h");
    await says(client.locator(".chip"), "paused, 59 min");
    await crowd(weir, page);
    await says(client.locator(".plot.wait b"), "12");
    await says(page.locator(".tile").first(), "12");
    await client.locator(".title").getByRole("button", { name: "Purge" }).click();
    await says(page.getByRole("dialog"), "12 requests waiting now");
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await says(client.locator(".plot.wait b"), "12");
    await client.locator(".title").getByRole("button", { name: "Purge" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
    await says(page.locator("#told"), "12 requests of per_client sent away");
    await says(client.locator(".total"), "purged 12");
    await client.locator(".title").getByRole("button", { name: "Resume" }).click();
    await says(client.locator(".chip"), "open");
    assert.deepEqual(faults, []);
    return weir;
  },

  async "a key is paused, resumed and purged by its buttons"() {
    const weir = await start();
    const { page, faults } = await look(weir);
    const stop = load(weir);
    await crowd(weir, page);
    const row = limit(page, "per_client").locator("tbody tr").filter({ hasText: "<img" });
    await row.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await says(row, "paused");
    await says(limit(page, "per_client").locator(".chip"), /1 key paused|full/);
    await row.getByRole("button", { name: "Purge" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
    await says(page.locator("#told"), "of one key of per_client sent away");
    const held = limit(page, "per_client").locator("tbody tr").filter({ hasText: "paused" });
    await held.getByRole("button", { name: "Resume" }).click();
    await says(page.locator("#told"), "one key of per_client goes on");
    stop();
    assert.deepEqual(faults, []);
    return weir;
  },

  async "a reload says what it changed, and what is wrong"() {
    const weir = await start();
    const { page, faults } = await look(weir, {}, ["422"]);
    const reload = page.getByRole("button", { name: "Reload config" });
    await reload.click();
    await says(page.locator("#told"), "nothing had changed");
    weir.edit('rate = "5r/s"', 'rate = "fast"');
    await reload.click();
    await says(page.locator("#told .bad"), "limits.per_client.rate");
    await says(page.locator(".about"), "failed reload");
    weir.edit('rate = "fast"', 'rate = "7r/s"');
    await says(limit(page, "per_client").locator(".facts"), "7r/s");
    assert.deepEqual(faults, []);
    return weir;
  },

  async "the token is asked for once, and a session ends"() {
    const weir = await start('admin_token = "t0ken-of-the-page"');
    const { page, context, faults } = await look(weir, {}, ["401"]);
    weir.send("/v1/x");
    const client = limit(page, "per_client");
    await client.getByRole("button", { name: "Pause", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await dialog.getByLabel("Admin token").fill("wrong");
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await says(dialog, "That is not the token.");
    await dialog.getByLabel("Admin token").fill("t0ken-of-the-page");
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await says(client.locator(".chip"), "paused");
    const [cookie] = await context.cookies();
    assert.equal(cookie.httpOnly && cookie.sameSite, "Strict");
    assert.equal(await page.evaluate(() => document.cookie), "");
    await page.reload();
    await client.getByRole("button", { name: "Resume" }).click();
    await says(client.locator(".chip"), "open");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assert.deepEqual(await context.cookies(), []);
    assert.deepEqual(faults, []);
    return weir;
  },

  async "a listener without changes shows no buttons for them"() {
    const weir = await start("admin_read_only = true");
    const { page, faults } = await look(weir);
    await says(page.locator(".notice"), "takes no changes");
    assert.equal(await page.locator("button.act:visible").count(), 0);
    assert.deepEqual(faults, []);
    return weir;
  },

  async "a phone needs no pushing aside"() {
    const weir = await start();
    const { page, faults } = await look(weir, { viewport: { width: 375, height: 800 } });
    const stop = load(weir);
    await crowd(weir, page);
    const [wide, has] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= has, `${wide} px on a screen of ${has}`);
    stop();
    assert.deepEqual(faults, []);
    return weir;
  },

  async "whoever hears nothing says so"() {
    const weir = await start();
    const { page } = await look(weir);
    await says(page.locator("#state"), "ready");
    await weir.stop();
    await says(page.locator("#state"), "no contact");
    await says(page.locator(".notice"), "Nothing heard for");
  },
};

async function shots(folder) {
  mkdirSync(folder, { recursive: true });
  const weir = await start();
  const stop = load(weir);
  const views = [["light", { colorScheme: "light", viewport: { width: 1280, height: 900 } }],
    ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 900 } }],
    ["phone", { colorScheme: "light", viewport: { width: 375, height: 812 }, deviceScaleFactor: 2 }]];
  const pages = await Promise.all(views.map(async ([name, options]) => [name, (await look(weir, options)).page]));
  pages.push(["plain", (await look(weir, { javaScriptEnabled: false, viewport: { width: 1280, height: 900 } })).page]);
  await new Promise((later) => setTimeout(later, Number(process.env.SECONDS ?? 60) * 1000));
  await pages[3][1].reload();
  for (const [name, page] of pages) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
  const devtools = await pages[0][1].context().newCDPSession(pages[0][1]);
  const { data } = await devtools.send("Page.captureScreenshot", { format: "webp", quality: 82 });
  writeFileSync(`${folder}/page.webp`, Buffer.from(data, "base64"));
  await limit(pages[1][1], "per_client").locator(".title").getByRole("button", { name: "Purge" }).click();
  await pages[1][1].screenshot({ path: `${folder}/dialog.png` });
  stop();
  await weir.stop();
}

let failed = 0;
process.on("SIGTERM", () => process.exit(1));
const at = process.argv.indexOf("--shots");
if (at > 0) {
  await shots(process.argv[at + 1]);
} else {
  for (const [name, test] of Object.entries(tests)) {
    if (process.argv[2] && !name.includes(process.argv[2])) continue;
    try {
      await (await test())?.stop();
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack}`);
    }
    for (const context of browser.contexts()) await context.close();
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
