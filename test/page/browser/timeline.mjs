// The timeline and the list of events.
import assert from "node:assert/strict";
import { check, session, tell } from "./harness.mjs";

const rowsOf = async (t) => (await t.rows().allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim());

check("the list begins with the main agent, grouped by run, and says what it leaves out", async (page, t) => {
  await t.trajectory("checkout-errors");
  const rows = await rowsOf(t);
  assert.match(rows[0], /^#3 08:26:53\.000 Model input claude-opus-4-5$/);
  assert.ok(rows.some((row) => /^#30 .* MCP read_logs · observability error 450 ms$/.test(row)), rows.join("\n"));
  assert.ok(rows.every((row) => !/run\.started|message\.user|state\.committed/.test(row)), "lifecycle records are not listed");
  await page.getByText("19 events · 16 lifecycle records in the export").waitFor();
  const groups = await page.getByRole("group", { name: /^Run / }).evaluateAll((all) => all.map((group) => group.getAttribute("aria-label")));
  assert.deepEqual(groups, ["Run triage-errors", "Run triage-fix"]);
  assert.match(await t.text(".list-sticky"), /Run triage-errors 4 turns · .* · 5,124 → 628 tokens \(3 of 4 reported\)/);
});

check("filters reach the list and never the timeline", async (page, t) => {
  await t.trajectory("checkout-errors");
  const before = await t.picture();
  await page.getByRole("button", { name: "MCP", exact: true }).click();
  await page.getByText("Showing 3 of 19 events").waitFor();
  assert.equal(await t.picture(), before);
  await page.getByLabel("Find in the list").fill("query");
  await page.getByText("Showing 1 of 19 events").waitFor();
  assert.equal(t.address(), session("checkout-errors", "/trajectory?types=mcp&q=query"));
  await page.getByLabel("Find in the list").fill("nothing like it");
  await page.getByText("No events match").waitFor();
  assert.equal(await t.picture(), before);
  await page.locator(".state").getByRole("button", { name: "Clear filters" }).click();
  await page.getByText("19 events").waitFor();
});

check("a mark of another agent selects that agent and finds its event", async (page, t) => {
  await t.trajectory("checkout-errors", "?types=reasoning");
  const [mark] = await t.marks(1, "tools");
  await page.mouse.move((mark.left + mark.right) / 2, mark.y);
  await page.locator(".tip").getByText("read_logs").waitFor();
  assert.match(await t.text(".tip"), /MCP read_logs #7 2026-03-14 08:27:28\.300 UTC 3\.1 s completed/);
  await page.mouse.click((mark.left + mark.right) / 2, mark.y);
  await t.chosen().getByText("read_logs").waitFor();
  assert.equal(t.address(), session("checkout-errors", "/trajectory?agent=log-reader&event=run.log-reader.7"));
  assert.equal(await page.getByLabel("Agent", { exact: true }).inputValue(), "log-reader");
  await page.getByRole("heading", { name: /MCP read_logs/ }).waitFor();
  await page.goBack();
  assert.equal(t.address(), session("checkout-errors", "/trajectory?types=reasoning"));
});

check("every agent has two rows, and its label selects it", async (page, t) => {
  await t.trajectory("checkout-errors");
  const labels = page.locator(".tl-labels button");
  assert.deepEqual((await labels.allInnerTexts()).map((text) => text.split("\n")[0].trim()), ["main", "log-reader"]);
  for (const [agent, row] of [[0, "model"], [0, "tools"], [1, "model"], [1, "tools"]]) assert.ok((await t.marks(agent, row)).length > 0, `${agent} ${row}`);
  await labels.nth(1).click();
  assert.equal(t.param("agent"), "log-reader");
  assert.equal(await t.rows().count(), 5);
});

check("a machine that paints slowly paints less while the view moves, and all of it when that rests", { ratio: 2 }, async (page, t) => {
  await page.addInitScript(() => {
    const put = CanvasRenderingContext2D.prototype.putImageData;
    globalThis.widths = [];
    CanvasRenderingContext2D.prototype.putImageData = function (...args) {
      for (const end = performance.now() + 5; performance.now() < end; );
      globalThis.widths.push(this.canvas.width / this.canvas.clientWidth);
      return put.apply(this, args);
    };
  });
  await t.trajectory("checkout-errors");
  const widths = () => page.evaluate(() => globalThis.widths.splice(0));
  assert.ok((await widths()).every((ratio) => ratio === 2));
  const tracks = await page.locator("#tracks").boundingBox();
  await page.mouse.move(tracks.x + tracks.width / 2, tracks.y + 30);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -60);
  await page.keyboard.up("Control");
  await t.until("the view has come to rest", () => t.param("t") !== null);
  await t.drawn();
  assert.deepEqual(await widths(), [1, 2]);
});

check("Ctrl and wheel zoom around the pointer and leave the rows where they are", async (page, t) => {
  await t.trajectory("checkout-errors");
  const label = page.locator(".tl-labels li").nth(1);
  const place = await label.boundingBox();
  const before = (await t.marks(1, "tools"))[0];
  const x = before.left;
  await page.mouse.move(x, before.y);
  await page.keyboard.down("Control");
  for (let i = 0; i < 8; i++) {
    await page.mouse.wheel(0, -100);
    await t.drawn();
  }
  const [zoomed] = await t.marks(1, "tools");
  const factor = Math.exp(0.3 * 8);
  // Where a mark begins is drawn to the pixel, which is as wide as the factor afterwards.
  assert.ok(Math.abs(zoomed.left - x) <= factor + 1, `the mark's beginning stays under the pointer: ${x}, then ${zoomed.left}`);
  assert.ok(zoomed.right - zoomed.left > 3 * (before.right - before.left), "the mark is wider");
  assert.deepEqual(await label.boundingBox(), place);
  assert.equal(await page.evaluate(() => visualViewport.scale), 1, "the browser itself does not zoom");
  for (let i = 0; i < 8; i++) {
    await page.mouse.wheel(0, 100);
    await t.drawn();
  }
  await page.keyboard.up("Control");
  const after = (await t.marks(1, "tools"))[0];
  assert.ok(Math.abs(after.left - before.left) <= 1 && Math.abs(after.right - before.right) <= 1, "there and back");
  const picture = await t.picture();
  await page.mouse.wheel(0, 120);
  assert.equal(await t.picture(), picture, "a plain wheel does not zoom");
});

check("the scroll bar is always there and moves the view in time", async (page, t) => {
  await t.trajectory("checkout-errors");
  const bar = page.getByRole("scrollbar");
  const tracks = await page.locator(".tl-tracks").boundingBox();
  const box = await bar.boundingBox();
  assert.ok(box.y + box.height <= tracks.y, "it stands above the tracks");
  await page.locator(".tl-tracks").focus();
  for (let i = 0; i < 4; i++) await page.keyboard.press("+");
  const thumb = await page.locator(".tl-thumb").boundingBox();
  assert.ok(thumb.width < box.width / 2);
  const before = await t.picture();
  await page.mouse.move(thumb.x + thumb.width / 2, thumb.y + 3);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width, thumb.y + 3, { steps: 4 });
  await page.mouse.up();
  assert.notEqual(await t.picture(), before);
  await t.until("the bar says that it is at its end", async () => (await bar.getAttribute("aria-valuenow")) === "100");
  await bar.focus();
  await page.keyboard.press("Home");
  await t.until("the bar says that it is at its beginning", async () => (await bar.getAttribute("aria-valuenow")) === "0");
});

check("the keys of the timeline zoom, move and show all", async (page, t) => {
  await t.trajectory("checkout-errors");
  const all = await t.picture();
  await page.locator(".tl-tracks").focus();
  const zoomed = [];
  for (const key of ["+", "+", "ArrowRight", "Shift+ArrowLeft", "-"]) {
    await page.keyboard.press(key);
    zoomed.push(await t.picture());
  }
  assert.equal(new Set([all, ...zoomed]).size, 6, "every key changes what is shown");
  await page.keyboard.press("0");
  assert.equal(await t.picture(), all);
  await page.getByRole("button", { name: "Zoom in" }).click();
  assert.notEqual(await t.picture(), all);
  await page.getByRole("button", { name: "Show all" }).click();
  assert.equal(await t.picture(), all);
});

check("a drag moves the view and selects nothing; a second click fits a mark", async (page, t) => {
  await t.trajectory("checkout-errors");
  await page.locator(".tl-tracks").focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("+");
  const before = await t.picture();
  const tracks = await page.locator(".tl-tracks").boundingBox();
  await page.mouse.move(tracks.x + 500, tracks.y + 20);
  await page.mouse.down();
  await page.mouse.move(tracks.x + 380, tracks.y + 20, { steps: 5 });
  await page.mouse.up();
  assert.notEqual(await t.picture(), before);
  assert.equal(t.param("event"), null);
  await page.keyboard.press("0");
  const [mark] = await t.marks(1, "tools");
  await page.mouse.dblclick((mark.left + mark.right) / 2, mark.y);
  await t.drawn();
  const [wide] = await t.marks(1, "tools");
  assert.ok(wide.right - wide.left > tracks.width / 2);
});

check("everything can be done with the keyboard alone", async (page, t) => {
  await t.trajectory("checkout-errors");
  const selected = () => t.chosen().innerText().then((text) => text.split(/\s/)[0]);
  const press = async (key, want) => {
    await page.keyboard.press(key);
    await t.until(`${key} selects ${want}`, async () => (await t.chosen().count()) === 1 && (await selected()) === want);
  };
  await press("j", "#3");
  await press("j", "#4");
  await press("k", "#3");
  await press("]", "#69");
  await press("[", "#3");
  await press("e", "#30");
  await press(".", "#40");
  await press("i", "#35");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.getByText("You investigate incidents").waitFor();
  await page.keyboard.press("3");
  await page.getByText("The fixed input of the request").waitFor();
  await page.keyboard.press("2");
  await page.getByText("The committed state that this input was assembled from").waitFor();
  await page.keyboard.press("1");
  await page.keyboard.press("l");
  assert.equal(t.param("agent"), "log-reader");
  await page.keyboard.press("h");
  assert.equal(t.param("agent"), null);
  await page.keyboard.press("F6");
  assert.ok(await page.locator(".tl-tracks").evaluate((element) => element === document.activeElement));
  await page.keyboard.press("F6");
  assert.ok(await page.getByRole("listbox", { name: "Events" }).evaluate((element) => element === document.activeElement));
  await press("Home", "#3");
  await press("ArrowDown", "#4");
  await press("End", "#80");
  await page.keyboard.press("Enter");
  await page.locator(".detail-scroll:focus").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("jk1");
  assert.equal(t.param("q"), "jk1", "letters in the search box are text");
  await page.keyboard.press("Escape");
  await t.until("Escape empties the search", () => t.param("q") === null);
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).getByRole("checkbox").uncheck();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("k");
  await t.drawn();
  assert.equal(await selected(), "#80", "letters do nothing when they are switched off");
  await page.keyboard.press("Escape");
  await page.locator(".message").first().waitFor();
});

check("panes are resized with arrow keys and by pointer, and remembered", async (page, t) => {
  await t.trajectory("checkout-errors");
  const height = () => page.locator("#pane-timeline").evaluate((element) => element.clientHeight);
  const width = () => page.locator("#pane-events").evaluate((element) => element.clientWidth);
  const first = [await height(), await width()];
  const upper = page.getByRole("separator", { name: "Height of the timeline" });
  await upper.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  assert.equal(await height(), first[0] + 96);
  assert.equal(Number(await upper.getAttribute("aria-valuenow")), first[0] + 96);
  const side = page.getByRole("separator", { name: "Width of the list of events" });
  const box = await side.boundingBox();
  await page.mouse.move(box.x + 3, box.y + 200);
  await page.mouse.down();
  await page.mouse.move(box.x + 103, box.y + 200, { steps: 3 });
  await page.mouse.up();
  assert.equal(await width(), first[1] + 100);
  await page.getByRole("separator", { name: "Width of the agents' column" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.reload();
  await page.getByRole("listbox", { name: "Events" }).waitFor();
  assert.deepEqual([await height(), await width()], [first[0] + 96, first[1] + 100]);
  assert.equal(await page.locator(".tl-corner").evaluate((element) => Math.round(element.getBoundingClientRect().width)), 196);
  await upper.focus();
  await page.keyboard.press("Home");
  assert.equal(await height(), 96);
});

check("refresh reads what is new, says how much, and keeps the selection", async (page, t) => {
  await t.trajectory("nightly-backup", "?event=run.main.13");
  await page.getByText("Run verify-restore is still executing. Unfinished requests have no final response.").waitFor();
  await page.getByText("No final response is recorded for this request.").waitFor();
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await tell("continue");
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.locator("[aria-live=polite]", { hasText: /new events/ }).first().waitFor({ state: "attached" });
  assert.ok(asked.some((address) => /trajectory\?after=/.test(address)), asked.join("\n"));
  assert.equal(t.param("event"), "run.main.13");
  await t.rows().filter({ hasText: "Model output" }).nth(1).waitFor();
  assert.equal(await page.getByText("is still executing").count(), 0);
  await page.keyboard.press("Shift+R");
  await page.locator("[aria-live=polite]", { hasText: "No new events." }).first().waitFor({ state: "attached" });
});

check("events without a time have no mark, and are found by their number", async (page, t) => {
  await t.trajectory("no-clock");
  assert.equal((await t.marks(0, "model")).length, 2);
  await page.getByRole("button", { name: "7 records without time" }).click();
  await t.chosen().getByText("Time not recorded").waitFor();
  assert.equal(t.param("event"), "run.main.3");
});

check("a long list has the rows in view only, and shows any of them", async (page, t) => {
  await t.trajectory("shard-lag");
  await page.getByText("422 events").waitFor();
  assert.ok((await t.rows().count()) < 60);
  const list = page.getByRole("listbox", { name: "Events" });
  await list.focus();
  await page.keyboard.press("End");
  await t.chosen().getByText("claude-opus-4-5").waitFor();
  assert.equal(await t.chosen().getAttribute("aria-posinset"), "422");
  assert.equal(await list.getAttribute("aria-activedescendant"), await t.chosen().getAttribute("id"));
  assert.ok((await t.rows().count()) < 60);
});
