// A hundred thousand events of twenty agents: the page loses none. What a step costs is printed and not judged here.
import assert from "node:assert/strict";
import { check, session } from "./harness.mjs";

const agents = Array.from({ length: 20 }, (_, n) => (n === 0 ? "main" : `worker-${n}`));
const total = 100_000;
const pageSize = 5_000;
const begin = Date.UTC(2026, 2, 14, 8) * 1000;
const types = ["modelInput", "reasoning", "modelOutput", "tool", "mcp"];

function entry(n) {
  const type = types[n % 5];
  const agent = agents[Math.floor(n / 5) % 20];
  const at = begin + n * 36_000;
  return {
    id: `run.${agent}.${n}`, agent, type, event: "x", sequence: n + 1, title: type === "tool" || type === "mcp" ? "query_metrics" : "claude-opus-4-5", hidden: false,
    run: { uid: `u${Math.floor(n / 20_000)}`, name: `sweep-${Math.floor(n / 20_000)}` }, turn: 1, capturedAt: at, startedAt: at, endedAt: at + (type === "modelInput" ? 0 : 900_000), status: n % 997 === 3 ? "error" : "completed",
  };
}

function answer(from) {
  const to = Math.min(from + pageSize, total);
  const more = to < total ? { next: String(to) } : {};
  return {
    session: { id: "demo:load", namespace: "demo", name: "load", uid: "u", deleted: false },
    agents: agents.map((id, n) => ({ id, kind: n === 0 ? "main" : "subagent", entries: total / 20, runs: 5, live: false })),
    runs: [], entries: Array.from({ length: to - from }, (_, n) => entry(from + n)), untimed: [], historicalEntries: [], notices: [],
    realTime: { message: "", untimed: 0, adjusted: 0 }, counts: { entries: total, hidden: 0, untimed: 0 }, head: [], cursor: String(to), ...more,
  };
}

check("a hundred thousand events are all there, and can be zoomed and searched", async (page, t) => {
  await page.route("**/api/**/trajectory*", async (route) => {
    const after = Number(new URL(route.request().url()).searchParams.get("after") ?? 0);
    return route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(answer(after)) });
  });
  await t.open(session("load", "/trajectory"));
  await page.getByText("100,000 of 100,000 records").waitFor({ timeout: 60_000 });
  await page.getByText("5,000 events").waitFor();
  assert.ok((await t.rows().count()) < 60);
  for (const agent of [0, 2]) for (const row of ["model", "tools"]) assert.ok((await t.marks(agent, row)).length > 0, `${agent} ${row}`);

  // Processor time of the page's main thread, so that other work on the machine does not count.
  const client = await t.context.newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await client.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "TaskDuration").value * 1000;
  const steps = 40;
  const turn = async () => {
    const before = await spent();
    for (let i = 0; i < steps; i++) {
      await page.mouse.wheel(0, i < steps / 2 ? -60 : 60);
      await t.drawn();
    }
    return ((await spent()) - before) / steps;
  };
  // What turning the wheel costs where nothing happens is the browser's and these checks' own.
  const details = await page.locator("#pane-details").boundingBox();
  await page.mouse.move(details.x + 200, details.y + 200);
  const idle = await turn();
  const tracks = await page.locator(".tl-tracks").boundingBox();
  await page.mouse.move(tracks.x + tracks.width / 2, tracks.y + 30);
  await page.keyboard.down("Control");
  const before = await t.picture();
  const zoom = (await turn()) - idle;
  assert.equal(await t.picture(), before, "as far out as in");
  await page.mouse.wheel(0, -60);
  assert.notEqual(await t.picture(), before, "a turn of the wheel zooms");
  await page.keyboard.up("Control");
  console.error(`zoom step with 100,000 events: ${zoom.toFixed(1)} ms of processor time, beside ${idle.toFixed(1)} ms without a step`);

  const begun = await spent();
  await page.getByLabel("Find in the list").fill("error");
  await page.getByText(/Showing \d+ of 5,000 events/).waitFor();
  const filter = (await spent()) - begun;
  console.error(`filter over 100,000 events: ${filter.toFixed(0)} ms of processor time`);
});
