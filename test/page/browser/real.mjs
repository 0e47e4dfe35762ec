// Opens the trajectory of one session as a person does who has a token: the page asks for it, takes it, and shows what was
// recorded. Prints what is seen as JSON. PAGE_URL is the viewer's address, PAGE_SESSION "namespace/name".
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const { PAGE_URL, PAGE_SESSION, PAGE_TOKEN, CHROMIUM } = process.env;
const [namespace, name] = PAGE_SESSION.split("/");

const args = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
if (process.getuid?.() === 0) args.push("--no-sandbox");
const browser = await chromium.launch({ executablePath: CHROMIUM, args });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (err) => problems.push(err.message));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !/status of 401/.test(message.text())) problems.push(message.text());
  });
  await page.goto(`${PAGE_URL}/projects/${namespace}/sessions/${name}/trajectory`);
  await page.getByRole("heading", { name: "Sign in to continue" }).waitFor();
  await page.getByLabel("Token").fill(PAGE_TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("listbox", { name: "Events" }).waitFor();
  await page.locator("#tracks canvas").waitFor();
  const kinds = await page.locator("[role=option] .event-kind").allInnerTexts();
  const run = await page.locator(".list-sticky b").innerText();
  const marks = await page.evaluate(async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const canvas = document.querySelector("#tracks canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let at = 0; at < data.length; at += 4) if (Math.max(data[at], data[at + 1], data[at + 2]) - Math.min(data[at], data[at + 1], data[at + 2]) > 60) return true;
    return false;
  });
  await page.locator("[role=option]").first().click();
  await page.getByRole("heading", { name: /Model input/ }).waitFor();
  await page.locator("[data-message='0']").waitFor();
  assert.deepEqual(problems, []);
  console.log(JSON.stringify({ title: await page.title(), run: run.trim(), kinds: kinds.map((kind) => kind.trim()), marks, message: (await page.locator("[data-message='0'] .origin").innerText()).trim() }));
} finally {
  await browser.close();
}
