// Measures what the page costs: sizes of what is fetched, processor time of its main thread, memory. Prints one JSON object,
// or with --table the same for people. Processor time is the thread's own, so that other work on the machine counts little.
//
//   CHROMIUM=$(hack/chromium.sh) node test/page/browser/figures.mjs [--table]
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { synthetic } from "./synthetic.mjs";

const web = new URL("../../../web/", import.meta.url).pathname;
const require = createRequire(`${web}package.json`);
const { chromium } = require("playwright-core");
const assets = new Map([["index.html", readFileSync(`${web}dist/index.html`)]]);
for (const file of readdirSync(`${web}dist/assets`)) assets.set(`assets/${file}`, readFileSync(`${web}dist/assets/${file}`));

const rounds = Number(process.env.PAGE_ROUNDS ?? 3);
const figures = [];
const figure = (name, unit, samples, atMost) => figures.push({ name, unit, samples: [samples].flat().map((value) => Math.round(value * 1000) / 1000), atMost });
const say = (text) => process.stderr.write(`figures: ${text}\n`);

/** serve answers as the viewer does, for one session, and remembers what was asked for. */
async function serve(session) {
  const asked = [];
  let held = () => {};
  const state = { hold: false, asked, release: () => held() };
  const kinds = { js: "text/javascript", css: "text/css", svg: "image/svg+xml", html: "text/html" };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://page");
    asked.push(url.pathname);
    if (url.pathname.startsWith("/api/")) {
      const after = url.searchParams.get("after");
      if (after !== null && state.hold) await new Promise((done) => (held = done));
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify(session.page(after)));
      return;
    }
    const file = assets.has(url.pathname.slice(1)) ? url.pathname.slice(1) : "index.html";
    response.writeHead(200, {
      "Content-Type": kinds[file.split(".").at(-1)],
      "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
    });
    response.end(assets.get(file));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { ...state, get hold() { return state.hold; }, set hold(value) { state.hold = value; }, url: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

/** open starts a page with its counters; the timeline is as high as twenty agents' rows. */
async function open(browser, ratio = 1) {
  const context = await browser.newContext({ viewport: { width: 1461, height: 1100 }, deviceScaleFactor: ratio, reducedMotion: "reduce", locale: "en-GB" });
  await context.addInitScript(() => {
    localStorage.setItem("agentloop.layout", JSON.stringify({ timelineHeight: 562, listWidth: 614, labelWidth: 180, clock: "utc", shortcuts: true }));
    sessionStorage.setItem("agentloop.token", "any");
  });
  const page = await context.newPage();
  page.on("pageerror", (err) => say(`exception: ${err.message}`));
  const client = await context.newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await client.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "TaskDuration").value * 1000;
  const drawn = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const heap = async () => {
    for (let i = 0; i < 2; i++) await client.send("HeapProfiler.collectGarbage");
    return (await client.send("Runtime.getHeapUsage")).usedSize / 1e6;
  };
  /** cost is what something costs the main thread, in milliseconds. */
  const cost = async (act) => {
    const before = await spent();
    await act();
    return (await spent()) - before;
  };
  return { page, context, spent, drawn, heap, cost };
}

/** shown waits for a text in an element, without work for the page in between. */
async function shown(page, selector, text, every = 200) {
  for (let i = 0; i < 120_000 / every; i++) {
    if (await page.evaluate(([at, want]) => document.querySelector(at)?.textContent.includes(want) ?? false, [selector, text])) return;
    await new Promise((done) => setTimeout(done, every));
  }
  throw new Error(`${selector} does not say ${text}`);
}

const loaded = (page, events) => shown(page, ".read-at", `${events.toLocaleString("en-US")} of ${events.toLocaleString("en-US")} records`);

async function load(browser, session) {
  const [first, whole, heaps] = [[], [], []];
  let fetched = [];
  for (let round = 0; round < rounds; round++) {
    const server = await serve(session);
    const { page, context, spent, drawn, heap } = await open(browser);
    await page.evaluate(() => 0);
    const begun = await spent();
    server.hold = true;
    await page.goto(`${server.url}/projects/demo/sessions/load/trajectory`);
    await shown(page, "#event-list", "claude", 20);
    await drawn();
    first.push((await spent()) - begun);
    fetched = server.asked.filter((path) => path.startsWith("/assets/"));
    server.hold = false;
    server.release();
    await loaded(page, session.events);
    await drawn();
    whole.push((await spent()) - begun);
    heaps.push(await heap());
    await context.close();
    server.close();
  }
  return { first, whole, heaps, fetched };
}

/** wheel turns a wheel in and out and returns what a step costs, without what it costs where nothing happens. */
async function zoomStep({ page, drawn, cost }) {
  const steps = 40;
  const turn = () =>
    cost(async () => {
      for (let i = 0; i < steps; i++) {
        await page.mouse.wheel(0, i < steps / 2 ? -60 : 60);
        await drawn();
      }
    });
  const details = await page.locator("#pane-details").boundingBox();
  await page.mouse.move(details.x + 200, details.y + 200);
  await turn();
  const idle = await turn();
  const tracks = await page.locator("#tracks").boundingBox();
  await page.mouse.move(tracks.x + tracks.width / 2, tracks.y + 30);
  await page.keyboard.down("Control");
  await turn();
  const out = [];
  for (let round = 0; round < rounds; round++) out.push(((await turn()) - idle) / steps);
  await page.keyboard.up("Control");
  return { out, still: idle / steps };
}

async function scrollStep({ page, drawn, cost }, still) {
  const steps = 40;
  const list = await page.getByRole("listbox", { name: "Events" }).boundingBox();
  await page.mouse.move(list.x + 100, list.y + 100);
  const out = [];
  let most = 0;
  const turn = (by) =>
    cost(async () => {
      for (let i = 0; i < steps; i++) {
        await page.mouse.wheel(0, by);
        await drawn();
      }
    });
  await turn(400);
  for (let round = 0; round < rounds; round++) out.push((await turn(round % 2 === 0 ? -400 : 400)) / steps - still);
  most = Math.max(most, await page.locator("[role=option]").count());
  return { out, most };
}

/** filters types a letter into the search box, and goes to the next agent, without what looking at the page costs. */
async function filters({ page, drawn, cost }) {
  const [search, agent] = [[], []];
  const box = page.getByLabel("Find in the list");
  for (let round = 0; round < rounds; round++) {
    await box.focus();
    await drawn();
    const looking = await cost(drawn);
    search.push((await cost(async () => (await page.keyboard.insertText(["error", "query", "reasoning"][round % 3]), await drawn()))) - looking);
    await shown(page, ".filter-note", "Showing", 20);
    await box.fill("");
    await page.locator("#tracks").focus();
    await drawn();
    agent.push((await cost(async () => (await page.keyboard.press("l"), await drawn()))) - looking);
  }
  return { search, agent };
}

/** drift is how far the time under the pointer moves, in pixels: in one step at most, and after a hundred in and a hundred out. */
async function drift({ page, drawn }, session, url) {
  const half = session.begin + (session.end - session.begin) / 2;
  await page.goto(`${url}/projects/demo/sessions/load/trajectory?t=${half}-${half + 600_000_000}`);
  await loaded(page, session.events);
  await drawn();
  const tracks = await page.locator("#tracks canvas").boundingBox();
  const x = Math.round(tracks.x + tracks.width * 0.37);
  const at = (x - tracks.x) / tracks.width;
  const view = () => new URL(page.url()).searchParams.get("t").split("-").map(Number);
  const under = ([from, to]) => from + at * (to - from);
  /** settled is what is shown when it has changed and then has rested: longer than the address waits. */
  const settled = async (before) => {
    let last = before.join();
    for (let i = 0; i < 100; i++) {
      await new Promise((done) => setTimeout(done, 700));
      await drawn();
      const now = view().join();
      if (now === last && now !== before.join()) return view();
      last = now;
    }
    throw new Error("the address does not follow the timeline");
  };
  await page.mouse.move(x, tracks.y + 30);
  await page.keyboard.down("Control");
  const begun = view();
  let [now, step] = [begun, 0];
  for (let i = 0; i < 10; i++) {
    await page.mouse.wheel(0, -45);
    const next = await settled(now);
    step = Math.max(step, (Math.abs(under(next) - under(now)) / (next[1] - next[0])) * tracks.width);
    now = next;
  }
  for (let i = 0; i < 90; i++) {
    await page.mouse.wheel(0, -8);
    await drawn();
  }
  now = await settled(now);
  for (let i = 0; i < 100; i++) {
    await page.mouse.wheel(0, i < 10 ? 45 : 8);
    await drawn();
  }
  const back = await settled(now);
  await page.keyboard.up("Control");
  const total = Math.max(...back.map((edge, n) => (Math.abs(edge - begun[n]) / (begun[1] - begun[0])) * tracks.width));
  return { step, total };
}

const sizeOf = (paths, ending) => paths.filter((path) => path.endsWith(ending)).reduce((sum, path) => sum + gzipSync(assets.get(path.slice(1)), { level: 9 }).length, 0) / 1024;

/** here are the locked packages of this platform: a lock names the binaries of all others as well. */
function lockedPackages() {
  const { packages } = JSON.parse(readFileSync(`${web}package-lock.json`, "utf8"));
  return Object.entries(packages).filter(([path, { os, cpu }]) => path !== "" && (os ?? ["linux"]).includes("linux") && (cpu ?? ["x64"]).includes("x64")).length;
}

async function main() {
  const args = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--js-flags=--expose-gc"];
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
  try {
    const session = synthetic();
    say("loading a hundred thousand events");
    const all = await load(browser, session);
    figure("JavaScript until timeline and list stand, gzip", "KiB", sizeOf(all.fetched, ".js"), 45);
    figure("style sheets, gzip", "KiB", sizeOf(all.fetched, ".css"), 8);
    figure("everything embedded", "KiB", [...assets.values()].reduce((sum, data) => sum + data.length, 0) / 1024, 250);
    figure("run-time dependencies", "", Object.keys(JSON.parse(readFileSync(`${web}package.json`, "utf8")).dependencies).length, 4);
    figure("locked packages of this platform", "", lockedPackages(), 100);
    figure("first paint of 100,000 events", "ms CPU", all.first, 300);
    figure("reading all 100,000 events", "ms CPU", all.whole, 1500);
    figure("heap with 100,000 events", "MB", all.heaps, 40);

    const server = await serve(session);
    for (const ratio of [1, 2]) {
      say(`zooming at ${ratio} device pixels to a pixel`);
      const opened = await open(browser, ratio);
      await opened.page.goto(`${server.url}/projects/demo/sessions/load/trajectory`);
      await loaded(opened.page, session.events);
      const canvas = await opened.page.locator("#tracks canvas").boundingBox();
      say(`the tracks are ${Math.round(canvas.width)} × ${Math.round(canvas.height)} pixels`);
      const { out, still } = await zoomStep(opened);
      figure(ratio === 1 ? "step of zooming" : "step of zooming, two device pixels to a pixel", "ms CPU", out, ratio === 1 ? 5 : 8);
      if (ratio === 1) {
        const scrolled = await scrollStep(opened, still);
        figure("step of scrolling the list", "ms CPU", scrolled.out, 8);
        figure("rows of the list that exist", "", scrolled.most, 60);
        const { search, agent } = await filters(opened);
        figure("filter, twenty agents", "ms CPU", search, 30);
        figure("another agent", "ms CPU", agent, 30);
        say("zooming in and out a hundred times");
        const { step, total } = await drift(opened, session, server.url);
        figure("drift under the pointer, one step", "px", step, 0.5);
        figure("drift after 100 steps in and 100 out", "px", total, 1);
      }
      await opened.context.close();
    }
    server.close();

    say("one agent with all events");
    const single = synthetic({ agents: 1 });
    const alone = await serve(single);
    const one = await open(browser);
    await one.page.goto(`${alone.url}/projects/demo/sessions/load/trajectory`);
    await loaded(one.page, single.events);
    figure("filter, one agent", "ms CPU", (await filters(one)).search, 30);
    await one.context.close();
    alone.close();

    say("reading half a million events");
    const huge = await serve(synthetic({ events: 500_000 }));
    const most = await open(browser);
    await most.page.goto(`${huge.url}/projects/demo/sessions/load/trajectory`);
    await loaded(most.page, 500_000);
    figure("heap with 500,000 events", "MB", await most.heap(), 150);
    figure("step of zooming, 500,000 events", "ms CPU", (await zoomStep(most)).out, 10);
    await most.context.close();
    huge.close();
  } finally {
    await browser.close();
  }
}

await main();
const median = (samples) => [...samples].sort((a, b) => a - b)[Math.floor(samples.length / 2)];
if (process.argv.includes("--table")) {
  for (const { name, unit, samples, atMost } of figures) {
    const value = median(samples);
    console.log(`${name.padEnd(48)} ${value.toFixed(2).padStart(9)} ${unit.padEnd(7)} ≤ ${String(atMost).padEnd(5)} ${value <= atMost ? "met" : "MISSED"}`);
  }
} else console.log(JSON.stringify({ figures }));
