// The list of events: runs and how they ended, finding, what is left out, reading in parts, and the forms of an export.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { api, check, session, tokens } from "./harness.mjs";
import { indexOf, serveSession } from "./made-up.mjs";
import { synthetic } from "./synthetic.mjs";

check("a run that ended before its first request has its head, with reason and message", async (page, t) => {
  await t.open(session("turned-away", "/trajectory"));
  const list = page.getByRole("listbox", { name: "Events" });
  await list.getByText("Run compact-now").waitFor();
  await list.getByText("Failed: NothingToCompact").waitFor();
  await list.getByText("no complete turn is old enough to be summarised").waitFor();
  assert.match(await page.locator("#list-outcomes").innerText(), /Run compact-now: Failed: NothingToCompact\. no complete turn/);
  await page.getByText("No model request and no tool call was recorded.").waitFor();
  assert.equal((await t.marks(0, "model")).length, 0);
  assert.equal(await page.locator(".tl-shown").count(), 0, "an axis without events has no times");
  await t.accessible("a run without events");
  await t.shot("turned-away");
});

check("a long title leaves room for the session's name and for what can be done", async (page, t) => {
  for (const [width, height] of [[1280, 800], [1024, 700], [640, 900], [320, 640]]) {
    await page.setViewportSize({ width, height });
    for (const path of ["/trajectory", ""]) {
      await t.open(session("turned-away", path));
      await page.getByRole("heading", { name: /A session with a title that is far longer/ }).waitFor();
      await page.getByText("demo / turned-away").waitFor();
      await page.getByText(/Read-only|no messages yet/).first().waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${path} at ${width}`);
    }
  }
});

check("requests for a title or a summary are told apart from those of the conversation", async (page, t) => {
  const made = synthetic({ name: "purposes", events: 30, agents: 1, seconds: 60 });
  await serveSession(page, made, (body) => ({ ...body, entries: body.entries.map((entry, n) => (n < 3 ? { ...entry, purpose: "title" } : n < 5 ? entry : n < 8 ? { ...entry, purpose: "summary" } : { ...entry, purpose: "main" })) }));
  await t.open(session("purposes", "/trajectory"));
  await t.rows().nth(9).waitFor();
  const purposes = await t.rows().evaluateAll((rows) => rows.map((row) => row.querySelector(".purpose")?.textContent ?? ""));
  assert.deepEqual(purposes.slice(0, 10), ["title", "title", "title", "", "", "summary", "summary", "summary", "", ""]);
  const [mark] = await t.marks(0, "model");
  await page.mouse.move(mark.left + 2, mark.y);
  await page.locator(".tip .purpose").getByText("title").waitFor();
});

check("one run can be chosen, and is in the address", async (page, t) => {
  await t.trajectory("checkout-errors");
  await page.getByLabel("Run", { exact: true }).selectOption("triage-fix");
  await page.getByText("Showing 4 of 19 events").waitFor();
  assert.equal(t.address(), session("checkout-errors", "/trajectory?run=triage-fix"));
  const groups = await page.getByRole("group", { name: /^Run / }).evaluateAll((all) => all.map((group) => group.getAttribute("aria-label")));
  assert.deepEqual(groups, ["Run triage-fix"]);
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.getByText("19 events").waitFor();
  assert.equal(t.param("run"), null);
});

check("Enter goes from hit to hit and Shift+Enter back; a second Ctrl+F is the browser's", async (page, t) => {
  await t.trajectory("checkout-errors");
  await page.evaluate(() => addEventListener("keydown", (event) => event.key === "f" && setTimeout(() => (globalThis.taken = event.defaultPrevented)), true));
  const taken = async () => {
    await page.evaluate(() => (globalThis.taken = undefined));
    await page.keyboard.press("Control+f");
    await t.until("the key was heard", () => page.evaluate(() => globalThis.taken !== undefined));
    return page.evaluate(() => globalThis.taken);
  };
  assert.equal(await taken(), true);
  const box = page.getByLabel("Find in the list");
  assert.ok(await box.evaluate((element) => element === document.activeElement));
  await page.keyboard.insertText("read_logs");
  await page.getByText("Showing 2 of 19 events").waitFor();
  const number = async (want) => {
    await t.until(`${want} is selected`, async () => (await t.chosen().count()) === 1 && (await t.chosen().innerText()).startsWith(want));
    assert.ok(await box.evaluate((element) => element === document.activeElement), "the search box keeps the focus");
  };
  await page.keyboard.press("Enter");
  await number("#30");
  await page.getByText("1 of 2 found").waitFor();
  await page.keyboard.press("Enter");
  await number("#40");
  await page.keyboard.press("Enter");
  await number("#30");
  await page.keyboard.press("Shift+Enter");
  await number("#40");
  assert.equal(await taken(), false);
});

check("a refresh adds to the list and leaves selection and scroll as they are", { allow: [404] }, async (page, t) => {
  const made = synthetic({ name: "grows", events: 400, agents: 1, seconds: 600 });
  const more = synthetic({ name: "grows", events: 418, agents: 1, seconds: 627 });
  let grown = false;
  await serveSession(page, made, (body, after) => {
    if (!grown) return body;
    const next = more.page(after);
    return { ...next, entries: next.entries.slice(0, 18) };
  });
  await t.open(session("grows", "/trajectory"));
  const list = page.getByRole("listbox", { name: "Events" });
  await list.focus();
  for (let i = 0; i < 60; i++) await page.keyboard.press("ArrowDown");
  await t.chosen().waitFor();
  const before = [await list.evaluate((element) => element.scrollTop), t.param("event"), (await t.chosen().innerText())];
  grown = true;
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.locator("[aria-live=polite]", { hasText: "18 new events." }).first().waitFor({ state: "attached" });
  await page.getByText("418 events").waitFor();
  assert.deepEqual([await list.evaluate((element) => element.scrollTop), t.param("event"), await t.chosen().innerText()], before);
});

check("a long reading says how far it is, can be stopped, and goes on from there", async (page, t) => {
  const made = synthetic({ name: "parts", events: 15_000, agents: 2 });
  let release = () => {};
  await serveSession(page, made);
  const gate = () => new Promise((done) => (release = done));
  let waiting = gate();
  await page.route(indexOf("parts", "5000"), async (route) => {
    await waiting;
    await route.fallback().catch(() => {});
  });
  await t.open(session("parts", "/trajectory"));
  await page.getByText("Loaded 5,000 of 15,000…").waitFor();
  assert.ok((await t.marks(0, "model")).length > 0, "what is there is drawn");
  assert.ok((await t.rows().count()) > 5);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Continue" }).waitFor();
  release();
  waiting = Promise.resolve();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("15,000 of 15,000 records").waitFor();
  await page.getByText("7,500 events").waitFor();
});

check("integrity notices are counted, listed, and lead to their events", { allow: [404] }, async (page, t) => {
  const made = synthetic({ name: "gaps-in-it", events: 40, agents: 1, seconds: 60 });
  const notices = [
    { code: "sequenceGap", message: "Records are missing.", agent: "main", from: 12, to: 13, entryId: "run.main.14" },
    { code: "incompleteTail", message: "The last record is not whole.", agent: "main", from: 40 },
  ];
  await serveSession(page, made, (body) => ({ ...body, notices }));
  await t.open(session("gaps-in-it", "/trajectory"));
  const banner = page.locator(".panes > .notices");
  await banner.getByText("2 integrity notices").click();
  assert.match(await banner.innerText(), /Records are missing\. sequenceGap · main · #12–#13/);
  await t.accessible("integrity notices");
  const links = banner.getByRole("button", { name: "Show the event" });
  assert.equal(await links.count(), 1, "only the first names its event");
  await links.first().click();
  await t.until("its event is selected", () => t.param("event") === "run.main.14");
  await t.chosen().waitFor();
});

check("what may not be read cannot be exported, and the command that asks for it can be copied", { token: tokens.reader, allow: [403] }, async (page, t) => {
  await t.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await t.open("/projects/secret/sessions/any/trajectory");
  await page.getByText("You may not read this in namespace secret").waitFor();
  assert.ok(await page.getByRole("button", { name: "Export" }).isDisabled());
  await page.getByRole("button", { name: "Copy the command" }).click();
  await page.getByText("Copied", { exact: true }).waitFor({ state: "attached" });
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "kubectl auth can-i get agentsessions.agentloop.dev --subresource=trajectory --namespace secret");
});

check("an export can be had in other forms, and a transfer that breaks off is not called complete", async (page, t) => {
  await t.trajectory("checkout-errors");
  for (const [label, format, ending] of [["OpenTelemetry", "otlp-json", "otlp.json"], ["ATIF", "atif", "atif.json"]]) {
    const body = JSON.stringify({ resourceSpans: [] });
    await page.route(`**/trajectory/export?format=${format}`, (route) => route.fulfill({ status: 200, contentType: "application/json", body }));
    await page.getByRole("button", { name: "Export" }).click();
    const dialog = page.getByRole("dialog", { name: "Export the trajectory" });
    await dialog.getByRole("radio", { name: new RegExp(label) }).check();
    if (format === "atif") await t.shot("export");
    const [download] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Export" }).click()]);
    await dialog.getByText("The transfer came to its proper end.").waitFor();
    assert.equal(download.suggestedFilename(), `demo-checkout-errors-trajectory.${ending}`);
    assert.equal(await readFile(await download.path(), "utf8"), body);
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await dialog.waitFor({ state: "detached" });
  }
});

check("a page at twice its size fits into its window", { size: [640, 400] }, async (page, t) => {
  // A browser's zoom of 200 % halves the window in CSS pixels.
  for (const path of ["/trajectory?event=run.main.64", ""]) {
    await t.open(session("checkout-errors", path));
    await page.locator(".message, .detail-head, [role=option]").first().waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, path);
  }
  await t.open(session("checkout-errors", "/trajectory"));
  for (const name of ["Timeline", "Events", "Details"]) {
    await page.getByRole("button", { name, exact: true }).click();
    await t.drawn();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, name);
  }
  await t.shot("zoom-200");
});

check("the messages of a conversation lead to their events, and its context has a ring", async (page, t) => {
  await t.open(session("checkout-errors"));
  await page.locator(".message").nth(8).waitFor();
  const links = page.locator(".message").getByRole("link", { name: "Show in trajectory" });
  assert.ok((await links.count()) >= 9);
  const messages = (await (await api("/api/sessions/demo:checkout-errors/messages")).json()).messages;
  await links.nth(4).click();
  await page.getByRole("listbox", { name: "Events" }).waitFor();
  const wanted = messages.filter((message) => message.entryId !== undefined)[4].entryId;
  assert.equal(t.param("event"), wanted);
  await t.open(session("nightly-backup"));
  await page.getByRole("img", { name: /^Context 32 %: about 64,000 of 200,000 tokens/ }).waitFor();
});
