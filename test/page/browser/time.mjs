// The axis of the timeline: sessions of every length, idle time, parts of the time in the address, tips, and other colours.
import assert from "node:assert/strict";
import { api, check, session } from "./harness.mjs";
import { serveSession } from "./made-up.mjs";
import { synthetic } from "./synthetic.mjs";

const second = 1_000_000;
const open = async (page, t, made, query = "") => {
  await serveSession(page, made);
  await t.open(session(made.name, `/trajectory${query}`));
  await page.locator("#tracks canvas").waitFor();
  await page.getByText(new RegExp(`Read .* records`)).waitFor();
  await t.drawn();
};
const shown = (t) => t.param("t")?.split("-").map(Number) ?? null;

for (const [name, made] of [["a second", "made-second"], ["an hour", "made-hour"], ["three days", "made-days"]]) {
  check(`a session of ${name} is there from its first to its last event`, async (page, t) => {
    const { entries } = await (await api(`/api/sessions/demo:${made}/trajectory`)).json();
    const placed = entries.filter((entry) => !entry.hidden);
    const [begin, end] = [Math.min(...placed.map((entry) => entry.startedAt ?? entry.capturedAt)), Math.max(...placed.map((entry) => entry.endedAt ?? entry.capturedAt))];
    await t.trajectory(made);
    assert.ok((await t.marks(0, "model")).length > 0);
    assert.match(await t.text(".tl-shown"), /shown$/);
    const bar = page.getByRole("scrollbar");
    await page.locator("#tracks").focus();
    for (let i = 0; i < 60; i++) await page.keyboard.press("+");
    await t.until("the narrowest view is a millisecond", () => shown(t) !== null && Math.abs(shown(t)[1] - shown(t)[0] - 1000) <= 1);
    await bar.focus();
    await page.keyboard.press("End");
    await t.until("the end of the session is in view", () => shown(t)[1] >= end);
    await page.keyboard.press("Home");
    await t.until("the beginning of the session is in view", () => shown(t)[0] <= begin);
    await page.getByRole("button", { name: "Show all" }).click();
    await t.until("everything is shown again", () => shown(t) === null);
  });
}

check("idle time can be left out where it is most of a session, and stands as a break", async (page, t) => {
  const made = synthetic({ name: "gaps", seconds: 72 * 3600, events: 800, agents: 2, gaps: 0.97 });
  await open(page, t, made);
  const toggle = page.getByRole("button", { name: "Skip idle" });
  assert.equal(await toggle.getAttribute("aria-pressed"), "false", "it is off until somebody wants it");
  const covered = (marks) => marks.reduce((sum, mark) => sum + mark.right - mark.left, 0);
  const before = await t.marks(0, "model");
  await toggle.click();
  await t.drawn();
  const after = await t.marks(0, "model");
  assert.ok(covered(after) > 3 * covered(before), `${covered(before)} pixels, then ${covered(after)}`);
  await t.shot("skip-idle");
  assert.match(await t.text(".tl-shown"), /^7\d h/, "what is left out is said to be there");
  await page.locator("#tracks").focus();
  for (let i = 0; i < 12; i++) await page.keyboard.press("+");
  await t.until("the address has times, not places on the axis", () => shown(t) !== null);
  const [from, to] = shown(t);
  assert.ok(from >= made.begin - second && to <= made.end + second && to - from < 20 * 3600 * second);
  await toggle.click();
  await t.until("the same part of the time is shown with its idle time", () => Math.abs(shown(t)[0] - from) < 3 && Math.abs(shown(t)[1] - to) < 3);
  const busy = synthetic({ name: "busy", seconds: 60, events: 200, agents: 1 });
  await open(page, t, busy);
  assert.equal(await toggle.count(), 0, "it is not offered where little is idle");
});

check("the part of the time that is shown is in the address, and is there again", async (page, t) => {
  await t.trajectory("checkout-errors");
  const all = await t.picture();
  await page.locator("#tracks").focus();
  await page.keyboard.press("+");
  await page.keyboard.press("ArrowRight");
  const zoomed = await t.picture();
  await t.until("the address has the part", () => shown(t) !== null);
  const part = shown(t);
  await page.reload();
  await page.getByRole("listbox", { name: "Events" }).waitFor();
  assert.equal(await t.picture(), zoomed);
  assert.deepEqual(shown(t), part);
  await page.locator("#tracks").focus();
  await page.keyboard.press("0");
  await t.until("the whole needs no part in the address", () => shown(t) === null);
  assert.equal(await t.picture(), all);
});

check("the time under the pointer stays there, step by step and after a hundred steps in and out", async (page, t) => {
  const made = synthetic({ name: "drift", seconds: 3600, events: 2_000, agents: 2 });
  const half = made.begin + 1800 * second;
  await open(page, t, made, `?t=${half}-${half + 600 * second}`);
  const canvas = await page.locator("#tracks canvas").boundingBox();
  const x = Math.round(canvas.x + canvas.width * 0.37);
  const at = (x - canvas.x) / canvas.width;
  const under = ([from, to]) => from + at * (to - from);
  const moved = async (before) => {
    let last = "";
    // On a busy machine a turn of the wheel can come to rest before the next one.
    await t.until("the address follows and rests", async () => {
      const now = shown(t).join();
      if (now === last && now !== before.join()) return true;
      last = now;
      await new Promise((done) => setTimeout(done, 600));
      return false;
    });
    return shown(t);
  };
  await page.mouse.move(x, canvas.y + 20);
  await page.keyboard.down("Control");
  const begun = shown(t);
  let now = begun;
  for (let i = 0; i < 5; i++) {
    await page.mouse.wheel(0, -40);
    const next = await moved(now);
    const pixels = (Math.abs(under(next) - under(now)) / (next[1] - next[0])) * canvas.width;
    assert.ok(pixels <= 0.5, `step ${i}: ${pixels} px`);
    now = next;
  }
  for (let i = 0; i < 95; i++) await page.mouse.wheel(0, -5), await t.drawn();
  now = await moved(now);
  for (let i = 0; i < 100; i++) await page.mouse.wheel(0, i < 5 ? 40 : 5), await t.drawn();
  now = await moved(now);
  await page.keyboard.up("Control");
  for (const edge of [0, 1]) assert.ok((Math.abs(now[edge] - begun[edge]) / (begun[1] - begun[0])) * canvas.width <= 1, `${begun} then ${now}`);
});

check("a wheel that was scrolling does not zoom when Ctrl is pressed; with Shift it moves in time", async (page, t) => {
  await t.trajectory("checkout-errors");
  const canvas = await page.locator("#tracks canvas").boundingBox();
  await page.mouse.move(canvas.x + 300, canvas.y + 20);
  const before = await t.picture();
  const wheel = (init) =>
    page.evaluate((event) => {
      const target = document.querySelector("#tracks canvas");
      const box = target.getBoundingClientRect();
      return target.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, clientX: box.left + 300, clientY: box.top + 20, ...event }));
    }, init);
  // Both within one task: what a wheel sends while it comes to rest.
  const taken = await page.evaluate(() => {
    const target = document.querySelector("#tracks canvas");
    const send = (init) => target.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY: -100, ...init }));
    return [send({}), send({ ctrlKey: true })];
  });
  assert.deepEqual(taken, [true, false], "the page scrolls, and the browser does not zoom");
  assert.equal(await t.picture(), before);
  await page.locator("#tracks").focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("+");
  const zoomed = await t.picture();
  assert.equal(await wheel({ deltaY: 120, shiftKey: true }), false);
  assert.notEqual(await t.picture(), zoomed);
});

check("a mark says what it is with the focus as under the pointer, with duration, tokens, status and the gap before it", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.15");
  await page.locator("#tracks").focus();
  await page.locator(".tip").waitFor();
  assert.match(await t.text(".tip"), /Model output claude-opus-4-5 #15 2026-03-14 08:26:56\.026 UTC 1\.39 s 1,204 → 188 tokens completed/);
  await page.keyboard.press(".");
  await page.locator(".tip").getByText("Model input").waitFor();
  assert.match(await t.text(".tip"), /after a gap of 1\.\d+ s/);
  await page.getByLabel("Find in the list").focus();
  await page.locator(".tip").waitFor({ state: "detached" });
});

check("times are those of UTC, of this place, or since the beginning", async (page, t) => {
  await t.trajectory("checkout-errors");
  const first = () => t.rows().first().locator(".event-time").innerText();
  assert.equal(await first(), "08:26:53.000");
  const axis = () => page.locator(".tl-axis").evaluate((canvas) => canvas.toDataURL());
  const pictures = [await axis()];
  for (const [clock, time] of [["local", "09:26:53.000"], ["elapsed", "08:26:53.000"]]) {
    await page.getByLabel("Times as").selectOption(clock);
    await t.drawn();
    assert.equal(await first(), time);
    pictures.push(await axis());
  }
  assert.equal(new Set(pictures).size, 3);
  await page.reload();
  await page.getByRole("listbox", { name: "Events" }).waitFor();
  assert.equal(await page.getByLabel("Times as").inputValue(), "elapsed", "it is remembered");
});

check("with the system's own colours marks are still told apart", { forced: true }, async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  const colours = await page.locator("#tracks canvas").evaluate((canvas) => {
    const data = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, 48).data.buffer);
    const counts = new Map();
    for (const pixel of data) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    return [...counts].filter(([, n]) => n > 20).length;
  });
  assert.ok(colours >= 3, `${colours} colours: ground, marks and errors`);
  await t.shot("forced-colors");
});
