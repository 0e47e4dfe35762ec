// Going through details: what stands there while one is read, what is kept, what is listed of an input, and what is put on paper.
import assert from "node:assert/strict";
import { api, check } from "./harness.mjs";

const clean = (text) => text.replace(/\s+/g, " ").trim();
const isDetail = (id) => (at) => at.pathname.endsWith("/detail") && at.searchParams.get("id") === id;

check("a selected event has its place at once, and one that is left is no longer read", { allow: ["network"] }, async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.64");
  await page.getByText("The errors come from payments").waitFor();
  let release;
  const held = new Promise((go) => (release = go));
  await page.route(isDetail("run.main.45"), async (route) => {
    await held;
    await route.continue().catch(() => {});
  });
  const failed = page.waitForEvent("requestfailed", (request) => request.url().includes("run.main.45"));
  const within = await page.evaluate(async () => {
    const row = [...document.querySelectorAll("[role=option]")].find((element) => element.textContent.startsWith("#45"));
    row.click();
    await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
    return { skeleton: document.querySelector(".pane-details .skeleton") !== null, head: document.querySelector(".detail-head").textContent };
  });
  assert.equal(within.skeleton, true);
  assert.match(within.head, /Model input/);
  await page.getByText("Reading the event").waitFor();
  await page.keyboard.press("k");
  await failed;
  release();
  await page.getByRole("region", { name: "Event content" }).waitFor();
});

check("details that were looked at last are kept, as long as the page has them", async (page, t) => {
  const asked = [];
  page.on("request", (request) => isDetail("run.main.64")(new URL(request.url())) && asked.push(request.url()));
  await t.trajectory("checkout-errors", "?event=run.main.64");
  await page.getByText("The errors come from payments").waitFor();
  await page.keyboard.press("i");
  await page.locator("[data-message='8']").waitFor();
  await page.getByRole("button", { name: "View the response" }).click();
  await page.getByText("The errors come from payments").waitFor();
  assert.equal(asked.length, 1);
});

check("the messages of an input are listed by role with an estimate, and lead there by pointer and keys", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  const rail = page.getByRole("listbox", { name: "Messages of the input" });
  await rail.getByRole("option").nth(8).waitFor();
  const rows = (await rail.getByRole("option").allInnerTexts()).map(clean);
  assert.equal(rows.length, 9);
  assert.match(rows[0], /^1 User ≈ \d+$/);
  assert.match(rows[8], /^9 read_logs ≈ \d+$/);
  const inView = (index) =>
    page.locator(`[data-message='${index}']`).evaluate((element) => {
      const box = element.getBoundingClientRect();
      const pane = element.closest(".input-scroll").getBoundingClientRect();
      return box.top >= pane.top - 1 && box.top < pane.bottom;
    });
  await rail.getByRole("option").nth(3).click();
  await t.until("the fourth message is in view", () => inView(3));
  await rail.focus();
  await page.keyboard.press("Home");
  await t.until("the first message is in view", () => inView(0));
  await page.keyboard.press("End");
  await t.until("the newest message is in view", () => inView(8));
});

check("parameters from a legacy segment say so, and such as disagree are both shown", async (page, t) => {
  const index = await (await api("/api/sessions/demo:checkout-errors/trajectory")).json();
  const real = await (await api("/api/sessions/demo:checkout-errors/trajectory/detail?id=run.main.40")).json();
  const of = index.entries.find((entry) => entry.id === "run.main.40");
  const segment = { ...of, id: "segment.7", sequence: 7 };
  index.entries.splice(index.entries.indexOf(of), 0, segment);
  const serve = (at, body) => page.route(at, (route) => (route.request().resourceType() === "document" ? route.continue() : route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(body) })));
  await serve((at) => at.pathname.endsWith("/trajectory"), index);
  await serve(isDetail("run.main.40"), { ...real, tool: { ...real.tool, supplemented: { file: "events/old.jsonl", line: 7, entryId: "segment.7" } } });
  await t.trajectory("checkout-errors", "?event=run.main.40");
  const content = page.getByRole("region", { name: "Event content" });
  await content.getByText("Parameters supplemented from a legacy segment: line 7 of events/old.jsonl.").waitFor();
  await t.accessible("supplemented");

  const notice = { code: "parametersDisagree", message: "Line 7 has other parameters. They are not merged; both are shown.", entryId: "run.main.40" };
  await page.unroute(isDetail("run.main.40"));
  await page.route((at) => at.pathname.endsWith("/detail"), (route) => {
    const other = new URL(route.request().url()).searchParams.get("id") === "segment.7";
    const body = other ? { ...real, entry: segment, tool: { ...real.tool, parameters: { service: "another" } } } : { ...real, notices: [notice] };
    return route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(body) });
  });
  await page.reload();
  await content.getByText("Parameters, as this record has them").waitFor();
  await content.getByText("Parameters, as #7 has them").waitFor();
  await content.getByText('"service": "payments"').waitFor();
  await content.getByText('"service": "another"').waitFor();
  await page.getByText("They are not merged; both are shown.").waitFor();
});

check("a detail on paper is the event alone, unfolded, dark on white", { scheme: "dark" }, async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  await page.locator("[data-message='8']").waitFor();
  const pdf = (await page.pdf({ format: "A4", printBackground: true })).toString("latin1");
  assert.ok(Number(/\/Count (\d+)/.exec(pdf)?.[1]) > 1, "more than the window shows");
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  for (const hidden of [".top", ".pane-timeline", ".pane-events", ".tabs", ".rail", ".input-nav", ".detail-tools"]) {
    assert.equal(await page.locator(hidden).first().isVisible(), false, hidden);
  }
  for (const shown of ["Services: cart, checkout, payments.", "ERROR payments: timed out", '"A PromQL expression"']) {
    assert.ok(await page.getByText(shown).first().isVisible(), shown);
  }
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".message")).backgroundColor), "rgb(255, 255, 255)");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  await t.shot("paper");
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await page.emulateMedia({ media: "screen" });
  assert.equal(await page.getByText('"A PromQL expression"').count(), 0, "folded again");
});
