// Draws what scenes.py left behind: node shoot.mjs DIR [story,dark|light …]
//
// Needs Debian's chromium, and `npm install` here. The pictures land beside the stories.

import { cpSync, readdirSync } from "node:fs";
import { createServer } from "vite";
import { chromium } from "playwright-core";

const here = new URL(".", import.meta.url).pathname;
const [from, ...wanted] = process.argv.slice(2);
const stories = wanted.length ? wanted
  : readdirSync(`${from}/stories`).map((name) => `${name.slice(0, -5)},dark`);

cpSync(`${here}/node_modules/@grafana/ui/dist/public/img`, `${from}/public/public/build/img`, { recursive: true });
cpSync(`${from}/stories`, `${from}/public/stories`, { recursive: true });
const server = await createServer({
  root: here, publicDir: `${from}/public`, cacheDir: `${from}/vite`, logLevel: "warn", server: { port: 0, host: "127.0.0.1", hmr: false },
  resolve: { alias: { "react-custom-scrollbars-2": `${here}/scrollbars.js` } },
});
await server.listen();
const { port } = server.httpServer.address();
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
let faults = 0;
for (const story of stories) {
  const page = await browser.newPage({ viewport: { width: 1560, height: 900 } });
  page.on("pageerror", (error) => { faults += 1; console.error(`${story}: ${error.stack}`); });
  page.on("console", (line) => { if (line.type() === "error") console.error(`${story}: ${line.text()}`); });
  await page.goto(`http://127.0.0.1:${port}/#${story}`);
  await page.waitForSelector("[data-drawn]", { state: "attached", timeout: 120_000 });
  await page.screenshot({ path: `${from}/${story.replace(",", "-")}.png`, fullPage: true });
  await page.close();
}
await browser.close();
await server.close();
process.exit(faults ? 1 : 0);
