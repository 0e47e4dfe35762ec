// Runs checks of the page in a headless Chromium, one browser context each, and prints one line of JSON per check for the
// Go test that started it. A check fails on an error in the console, an exception of the page and a violation of its
// security policy, whatever else it looks at.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const env = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run hack/test.sh page`);
  return value;
};

// The packages are those that the page is built with.
const require = createRequire(`${env("PAGE_WEB")}/package.json`);
const { chromium } = require("playwright-core");
const axe = require("axe-core");

export const url = env("PAGE_URL");
export const tokens = { reader: env("PAGE_READER"), admin: env("PAGE_ADMIN") };
const control = env("PAGE_CONTROL");
const shots = process.env.PAGE_SHOTS;

/** tell makes the server do something: continue, busy, well. */
export async function tell(what) {
  const response = await fetch(`${control}/${what}`, { method: "POST" });
  assert.equal(response.status, 204, `control ${what}`);
}

/** api asks the server as the page does. */
export async function api(path, token = tokens.admin) {
  const response = await fetch(url + path, { headers: { Authorization: `Bearer ${token}` } });
  assert.equal(response.status, 200, path);
  return response;
}

/** How long something may take to come, in milliseconds: far longer than it does, on a machine with much else to do as well. */
const patience = 30_000;

const checks = [];

/**
 * check registers one. Options: token (admin unless said; null for none), size, scheme, forced (colours of the system), ratio (device pixels to a CSS pixel), allow (HTTP statuses of failed
 * requests that belong to the check).
 */
export function check(name, options, run) {
  checks.push({ name, options: run ? options : {}, run: run ?? options });
}

/** session is the address of a session's page. */
export const session = (name, rest = "") => `/projects/demo/sessions/${name}${rest}`;

export async function runAll() {
  // The flags keep Chromium from looking for updates and services that a test machine does not have.
  const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  const browser = await chromium.launch({ executablePath: env("CHROMIUM"), args });
  const only = new RegExp(process.env.PAGE_ONLY ?? "");
  let done = 0;
  try {
    for (const one of checks) {
      if (!only.test(one.name)) continue;
      const begun = Date.now();
      let error = "";
      try {
        await runOne(browser, one);
      } catch (err) {
        error = err instanceof Error ? (err.stack ?? err.message) : String(err);
      }
      done++;
      console.log(JSON.stringify({ name: one.name, error, milliseconds: Date.now() - begun }));
    }
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify({ done }));
}

async function runOne(browser, { name, options, run }) {
  const { token = tokens.admin, size = [1280, 800], scheme = "light", forced = false, ratio = 1, allow = [] } = options;
  const context = await browser.newContext({
    viewport: { width: size[0], height: size[1] },
    deviceScaleFactor: ratio,
    colorScheme: scheme,
    forcedColors: forced ? "active" : "none",
    reducedMotion: "reduce",
    timezoneId: "Europe/Berlin",
    locale: "en-GB",
    acceptDownloads: true,
  });
  try {
    if (token) await context.addInitScript((value) => sessionStorage.setItem("agentloop.token", value), token);
    const page = await context.newPage();
    page.setDefaultTimeout(patience);
    const problems = [];
    page.on("pageerror", (err) => problems.push(`exception: ${err.message}`));
    page.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("console", (message) => {
      if (message.type() !== "error" && message.type() !== "warning") return;
      // That is what these checks do, not the page.
      if (message.text().startsWith("Canvas2D: Multiple readback operations")) return;
      const status = /status of (\d+)/.exec(message.text())?.[1];
      if (status && allow.includes(Number(status))) return;
      if (allow.includes("network") && /Failed to load resource|net::/.test(message.text())) return;
      problems.push(`console: ${message.text()}`);
    });
    const tools = new Tools(page, context, name);
    await run(page, tools);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
}

/** Tools are what checks have in common. */
class Tools {
  constructor(page, context, name) {
    this.page = page;
    this.context = context;
    this.name = name;
  }

  async open(path) {
    await this.page.goto(url + path);
  }

  /** trajectory opens a session's trajectory and waits until it is there. */
  async trajectory(name, query = "") {
    await this.open(session(name, `/trajectory${query}`));
    await this.page.getByRole("listbox", { name: "Events" }).waitFor();
    await this.drawn();
  }

  /** drawn waits for the frame after this one. */
  async drawn() {
    await this.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }

  /** rows are the events of the list that are rendered, chosen the selected one. Other lists have options as well. */
  rows() {
    return this.page.locator("#event-list [role=option]");
  }

  chosen() {
    return this.page.locator("#event-list [role=option][aria-selected=true]");
  }

  /** address is the path and query of the page. */
  address() {
    const at = new URL(this.page.url());
    return at.pathname + at.search;
  }

  param(name) {
    return new URL(this.page.url()).searchParams.get(name);
  }

  /** until waits for something to become true. */
  async until(what, test) {
    const deadline = Date.now() + patience;
    for (;;) {
      if (await test()) return;
      if (Date.now() > deadline) assert.fail(`did not happen: ${what}`);
      await this.drawn();
    }
  }

  /** text is the visible text of what a selector finds. */
  async text(selector) {
    return (await this.page.locator(selector).first().innerText()).replace(/\s+/g, " ").trim();
  }

  /** marks are the stretches of drawn pixels near the upper edge of a row, in window coordinates: above its words, where points are. */
  async marks(agent, row) {
    return this.page.evaluate(
      ([agentIndex, rowIndex]) => {
        const canvas = document.querySelector(".tl-tracks canvas");
        const box = canvas.getBoundingClientRect();
        const ratio = canvas.width / box.width;
        const y = agentIndex * 48 + 4 + (rowIndex === 0 ? 4 : 23);
        const ctx = canvas.getContext("2d");
        const line = ctx.getImageData(0, Math.round(y * ratio), canvas.width, 1).data;
        // Marks are the only saturated pixels: bands, lines and the ground are nearly grey.
        const coloured = (x) => {
          const [r, g, b, a] = line.slice(x * 4, x * 4 + 4);
          return a > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 45;
        };
        const out = [];
        for (let x = 0; x < canvas.width; x++) {
          if (!coloured(x)) continue;
          let end = x;
          while (end < canvas.width && coloured(end)) end++;
          out.push({ left: box.left + x / ratio, right: box.left + end / ratio, y: box.top + y });
          x = end;
        }
        return out;
      },
      [agent, row === "model" ? 0 : 1],
    );
  }

  /** picture is what the timeline shows. */
  async picture() {
    await this.drawn();
    return this.page.evaluate(() => document.querySelector(".tl-tracks canvas").toDataURL());
  }

  /** accessible runs axe on the page as it is: all of its rules, or those about colours. */
  async accessible(what, only = "all") {
    const rules = {
      all: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] },
      colours: { type: "rule", values: ["color-contrast", "link-in-text-block"] },
    };
    if (!(await this.page.evaluate(() => "axe" in globalThis))) await this.page.evaluate(axe.source);
    const violations = await this.page.evaluate(async (runOnly) => {
      const { violations: found } = await globalThis.axe.run(document, { runOnly, resultTypes: ["violations"] });
      return found.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((node) => node.target.join(" ")).slice(0, 4).join(" | ")}`);
    }, rules[only]);
    assert.deepEqual(violations, [], what);
  }

  /** shot keeps a picture of the page where somebody asked for them. */
  async shot(name) {
    if (shots) await this.page.screenshot({ path: `${shots}/${name}.png` });
  }
}
