// What is stored of an event, byte by byte and level by level, and what is large.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { api, check } from "./harness.mjs";

const raw = (page) => page.getByRole("region", { name: "Raw JSON" });
const rawURL = (id) => `/api/sessions/demo:checkout-errors/trajectory/detail?id=${id}&raw=true`;
const textOf = (locator) => locator.evaluate((element) => element.textContent);

/** answer replaces what the API says of one event. */
const answer = (page, id, { detail, stored }) =>
  page.route(
    (at) => at.pathname.endsWith("/detail") && at.searchParams.get("id") === id,
    (route) => {
      const body = new URL(route.request().url()).searchParams.has("raw") ? stored : detail;
      return route.fulfill({ status: 200, contentType: "application/json", body });
    },
  );

check("Raw JSON has the bytes as they are served, to be seen, copied and saved", async (page, t) => {
  await t.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  for (const id of ["run.main.45", "run.main.64", "run.main.30"]) {
    await t.trajectory("checkout-errors", `?event=${id}&tab=raw`);
    await raw(page).getByRole("button", { name: "As served" }).click();
    const want = await (await api(rawURL(id))).text();
    await t.until("the bytes are there", async () => (await textOf(raw(page).locator(".text.mono"))) === want);
    const [download] = await Promise.all([page.waitForEvent("download"), raw(page).getByRole("button", { name: "Download" }).click()]);
    assert.equal(await readFile(await download.path(), "utf8"), want, id);
    assert.equal(download.suggestedFilename(), `demo-checkout-errors-${id}.json`);
    await raw(page).getByRole("button", { name: "Copy" }).click();
    await raw(page).getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), want, id);
    await raw(page).getByRole("button", { name: "Line breaks" }).click();
    await raw(page).locator(".text.mono", { hasText: '": ' }).waitFor();
    assert.equal((await textOf(raw(page).locator(".text.mono"))).replace(/\n */g, "").replace(/": /g, '":'), want.replace(/": /g, '":'), id);
  }
});

check("the tree of a JSON is folded and unfolded by pointer and by keys", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45&tab=raw");
  await raw(page).getByRole("button", { name: "Tree" }).click();
  const tree = raw(page).getByRole("tree");
  await tree.getByText('"messages": [').waitFor();
  const rows = tree.getByRole("treeitem");
  const before = await rows.count();
  await tree.getByText('"messages": [').click();
  await tree.getByText("9 items").waitFor();
  assert.ok((await rows.count()) < before);
  await tree.focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await rows.count(), before);
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await rows.count(), 1);
  assert.equal(await rows.first().getAttribute("aria-expanded"), "false");
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowDown");
  const active = await tree.getAttribute("aria-activedescendant");
  assert.match(await page.locator(`#${active}`).innerText(), /"system"/);
  await t.accessible("tree");
});

check("the link of what is shown is copied", async (page, t) => {
  await t.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await t.trajectory("checkout-errors", "?event=run.main.45&tab=compare");
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.getByText("Link copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
});

/** Tasks of the page's main thread: how long each of them had the processor, in milliseconds. */
async function longestTask(page, t, run) {
  const browser = t.context.browser();
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] });
  await run();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  // The page's own thread is the one that ran its scripts.
  const threads = traceEvents.filter((event) => event.ph === "M" && event.name === "thread_name" && event.args.name === "CrRendererMain");
  const ran = new Set(traceEvents.filter((event) => event.name === "FunctionCall").map((event) => `${event.pid}/${event.tid}`));
  const main = threads.map((event) => `${event.pid}/${event.tid}`).filter((id) => ran.has(id));
  assert.ok(main.length > 0, "the page's thread is in the trace");
  const tasks = traceEvents.filter((event) => event.ph === "X" && event.tdur !== undefined && main.includes(`${event.pid}/${event.tid}`) && /RunTask$/.test(event.name));
  assert.ok(tasks.length > 0, "its tasks are in the trace");
  return Math.max(...tasks.map((event) => event.tdur / 1000));
}

// Twenty megabytes in many parts and in one: a result that is one text, arguments that are a hundred and fifty thousand members.
const members = () => Array.from({ length: 150_000 }, (_, n) => ({ shard: n, state: "behind", lag: n * 7, note: "\u001b[31mwaiting\u001b[0m for the pool of connections" }));

check("twenty megabytes leave the page responsive", async (page, t) => {
  const real = await (await api("/api/sessions/demo:checkout-errors/trajectory/detail?id=run.main.40")).json();
  real.tool.parameters = { shards: members() };
  real.tool.result.content = "\u001b[31mERROR\u001b[0m timed out waiting for a connection\n".repeat(120_000);
  const detail = JSON.stringify(real);
  assert.ok(detail.length > 20e6);
  await answer(page, "run.main.40", { detail, stored: JSON.stringify(real.tool.parameters) });
  await t.trajectory("checkout-errors", "?event=run.main.39");
  await page.getByText("I will ask for less.").waitFor();
  const content = page.getByRole("region", { name: "Event content" });
  const longest = await longestTask(page, t, async () => {
    await t.rows().getByText("#40", { exact: true }).click();
    await content.getByRole("tree").waitFor();
    await content.getByText('"shards": [').waitFor();
    await content.getByText("1000 … 1999").click();
    await content.getByRole("button", { name: /Show the next 250,000 of/ }).click();
    await page.getByRole("tab", { name: "Raw JSON" }).click();
    await raw(page).getByText("Show the next").click();
    await raw(page).getByRole("button", { name: "Tree" }).click();
    await raw(page).getByText('"shards": [').waitFor();
  });
  console.error(`detail of ${(detail.length / 1e6).toFixed(0)} MB: the longest task had ${longest.toFixed(0)} ms of processor time`);
  assert.ok(longest < 100, `${longest} ms`);
});

check("what is long is folded, windowed and shown in portions", async (page, t) => {
  const real = await (await api("/api/sessions/demo:checkout-errors/trajectory/detail?id=run.main.40")).json();
  real.tool.parameters = { long: "y".repeat(300_000), list: members().slice(0, 3000) };
  await answer(page, "run.main.40", { detail: JSON.stringify(real), stored: "{}" });
  await t.trajectory("checkout-errors", "?event=run.main.40");
  const content = page.getByRole("region", { name: "Event content" });
  await content.getByText("300,000 characters · show").click();
  const text = content.locator(".json-text .text");
  await text.getByRole("button", { name: "Show the next 50,000 of 50,000 characters" }).click();
  assert.equal(await textOf(text), "y".repeat(300_000));
  await content.getByRole("button", { name: "Fold" }).click();
  await content.getByText("1000 … 1999").click();
  await t.until("only rows in view exist", async () => (await content.getByRole("treeitem").count()) < 100);
  await content.getByRole("tree").focus();
  for (const key of ["End", "ArrowUp", "ArrowUp", "ArrowRight"]) await page.keyboard.press(key);
  await page.keyboard.press("End");
  await t.until("the last row is in view", async () => (await content.getByRole("treeitem").last().innerText()) === "}");
  await t.accessible("large tree");
});

check("a text is shown without the escapes of a terminal, in the raw view with them", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.40");
  const content = page.getByRole("region", { name: "Event content" });
  await content.getByText("ERROR payments: timed out").waitFor();
  assert.ok(!(await textOf(content)).includes("\u001b"));
  await page.getByRole("tab", { name: "Raw JSON" }).click();
  await raw(page).locator(".text.mono", { hasText: "\\u001b[31mERROR" }).waitFor();
});
