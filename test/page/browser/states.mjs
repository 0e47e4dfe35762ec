// What is shown when there is nothing to show, or no leave, or something is broken.
import assert from "node:assert/strict";
import { check, session, tell, tokens } from "./harness.mjs";
import { indexOf } from "./made-up.mjs";

check("a session without runs says what will come", async (page, t) => {
  await t.open(session("empty", "/trajectory"));
  await page.getByText("This session has not run").waitFor();
  await page.getByText("Events appear here after its first run.").waitFor();
  await t.open(session("empty"));
  await page.getByText("This session has no messages yet").waitFor();
});

check("a session that is not there is not found", { allow: [404] }, async (page, t) => {
  for (const path of [session("nowhere", "/trajectory"), session("nowhere")]) {
    await t.open(path);
    await page.getByText("Session not found").waitFor();
  }
});

check("an event that is not there leaves the rest as it is", { allow: [404] }, async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.9999");
  await page.getByText("This event is not part of this session").waitFor();
  assert.equal(t.param("event"), "run.main.9999");
  assert.ok((await t.rows().count()) > 10);
});

check("a session that may not be read names what is needed", { token: tokens.reader, allow: [403] }, async (page, t) => {
  await t.open("/projects/secret/sessions/any/trajectory");
  await page.getByText("You may not read this in namespace secret").waitFor();
  await page.getByText("get agentsessions/trajectory").waitFor();
  await page.getByText("kubectl auth can-i get agentsessions.agentloop.dev --subresource=trajectory --namespace secret").waitFor();
});

check("a busy store is asked again by itself", { allow: [503] }, async (page, t) => {
  await page.clock.install();
  await tell("busy");
  try {
    await t.open(session("checkout-errors", "/trajectory"));
    await page.getByText("The store is busy").waitFor();
    await page.getByText(/Retrying in \d+ s/).waitFor();
  } finally {
    await tell("well");
  }
  await page.clock.runFor(5000);
  await page.getByRole("listbox", { name: "Events" }).waitFor();
});

check("a reader who asks too much is asked to wait as long as the server says, and then gets an answer", { allow: [429] }, async (page, t) => {
  await page.clock.install();
  let refused = 0;
  await page.route(indexOf("checkout-errors"), (route) => {
    if (refused++ > 0) return route.fallback();
    return route.fulfill({ status: 429, headers: { "Retry-After": "7" }, contentType: "application/problem+json", body: '{"type":"x","title":"Too many requests","status":429,"code":"tooManyRequests"}' });
  });
  await t.open(session("checkout-errors", "/trajectory"));
  await page.getByText("Retrying in 7 s").waitFor();
  await t.accessible("a reader who has to wait");
  await page.clock.runFor(3000);
  await page.getByText("Retrying in 4 s").waitFor();
  assert.equal(refused, 1);
  await page.clock.runFor(5000);
  await page.getByRole("listbox", { name: "Events" }).waitFor();
});

check("of more events than the page holds it shows the newest, and says so", async (page, t) => {
  const [most, over, size] = [500_000, 60_000, 100_000];
  await page.route(indexOf("vast"), (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("after") ?? 0);
    const to = Math.min(from + size, most + over);
    const entries = Array.from({ length: to - from }, (_, n) => ({ id: `run.main.${from + n + 1}`, agent: "main", type: "tool", event: "tool", sequence: from + n + 1, hidden: false, title: "look", capturedAt: 1_773_484_013_000_000 + (from + n) * 1000 }));
    return route.fulfill({
      status: 200, contentType: "application/json",
      body: JSON.stringify({
        session: { id: "demo:vast", namespace: "demo", name: "vast", uid: "u", deleted: false }, agents: [{ id: "main", kind: "main", entries: most + over, runs: 0, live: false }], runs: [], entries, untimed: [], historicalEntries: [], notices: [],
        realTime: { message: "", untimed: 0, adjusted: 0 }, counts: { entries: most + over, hidden: 0, untimed: 0 }, head: [], cursor: String(to), ...(to < most + over ? { next: String(to) } : {}),
      }),
    });
  });
  await t.open(session("vast", "/trajectory"));
  await page.getByText("This session has 560,000 events. The page shows the newest 500,000 events; the export has all.").waitFor({ timeout: 120_000 });
  await page.getByText("500,000 of 560,000 records").waitFor();
  await t.until("the oldest that is held is the first one listed", async () => /^#60001 /.test((await t.rows().first().innerText()).replace(/\s+/g, " ")));
  await t.accessible("more events than the page holds");
});

check("without a connection, what was read stays and is called old", { allow: ["network"] }, async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.64");
  await page.getByText("The errors come from payments").waitFor();
  await t.context.setOffline(true);
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText("What is shown was read before it.").waitFor();
  await page.getByText("The server cannot be reached").waitFor();
  assert.ok(await page.getByText("The errors come from payments").isVisible());
  await t.context.setOffline(false);
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByText("What is shown was read before it.").waitFor({ state: "detached" });
});

check("a lost object is reported where it is missed, and the record stays readable", async (page, t) => {
  await t.trajectory("damaged", "?event=run.main.64");
  const details = page.getByRole("region", { name: "Details" });
  const missing = details.getByText(/is missing\. The record that names it is intact\./);
  await missing.waitFor();
  await details.getByText("2,304 tokens").waitFor();
  await t.rows().filter({ hasText: "#15" }).click();
  await details.getByText("1,204 tokens").waitFor();
  await missing.waitFor();
  await page.getByRole("button", { name: "View this input" }).click();
  await details.getByText("What this record names cannot be shown.").waitFor();
  await missing.waitFor();
});

check("a history that was replaced is read anew, once, and said so", { allow: [410] }, async (page, t) => {
  await t.trajectory("checkout-errors");
  await page.route("**/trajectory?after=*", (route) => route.fulfill({ status: 410, contentType: "application/problem+json", body: '{"type":"x","title":"gone","status":410,"code":"cursorExpired"}' }));
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText("It was read anew.").waitFor();
  await t.rows().nth(10).waitFor();
});

check("a narrow window has one pane at a time and never scrolls sideways", { size: [390, 844] }, async (page, t) => {
  await t.trajectory("checkout-errors");
  const sideways = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(await sideways(), false);
  await t.rows().first().click();
  await page.getByRole("heading", { name: /Model input/ }).waitFor();
  assert.equal(await page.getByRole("listbox", { name: "Events" }).count(), 0);
  assert.equal(await sideways(), false);
  await page.getByRole("button", { name: "Timeline", exact: true }).click();
  await t.until("the timeline is drawn", async () => (await t.marks(0, "model")).length > 0);
  assert.equal(await sideways(), false);
  for (const path of ["/", session("checkout-errors")]) {
    await t.open(path);
    await page.locator("table, .message").first().waitFor();
    assert.equal(await sideways(), false, path);
  }
});

check("a window of 320 pixels has all there is", { size: [320, 640] }, async (page, t) => {
  await t.trajectory("checkout-errors");
  await page.getByRole("button", { name: "Timeline", exact: true }).click();
  await t.until("the timeline is drawn", async () => (await t.marks(0, "model")).length > 0);
  const inside = async (locator) => {
    const box = await locator.boundingBox();
    return box.x >= 0 && box.x + box.width <= 320;
  };
  for (const name of ["Zoom out", "Zoom in", "Show all", "Refresh", "Export", "Keys", "Close the trajectory", "Sign out"]) {
    assert.ok(await inside(page.getByRole("button", { name, exact: true })), name);
  }
  assert.ok((await page.locator(".tl-tracks").boundingBox()).width > 160, "more room for marks than for names");
  await t.shot("timeline-320");
  for (const path of [session("checkout-errors", "/trajectory?event=run.main.45"), session("checkout-errors")]) {
    await t.open(path);
    await page.locator(".message").first().waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, path);
  }
});

for (const [scheme, name] of [["light", "viewer"], ["dark", "viewer-dark"]]) {
  check(`the ${scheme} picture of the documentation shows an input beside all agents' work`, { size: [1440, 900], scheme }, async (page, t) => {
    await page.clock.setFixedTime("2026-03-14T08:30:00Z");
    await t.trajectory("checkout-errors", "?event=run.main.45");
    await page.locator("[data-message='8']").getByText("history #7").waitFor();
    await t.chosen().getByText("#45").waitFor();
    assert.ok((await t.marks(1, "tools")).length > 0);
    await t.shot(name);
  });
}
