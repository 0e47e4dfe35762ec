// The details of events: what the model got, what it said, what tools did, and what is stored of it.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { api, check, session } from "./harness.mjs";

const clean = (text) => text.replace(/\s+/g, " ").trim();

check("a model input begins at its newest message and jumps to prompt, first and newest", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  const inView = (selector) =>
    page.locator(selector).evaluate((element) => {
      const box = element.getBoundingClientRect();
      const pane = element.closest(".input-scroll").getBoundingClientRect();
      return box.top >= pane.top - 1 && box.top < pane.bottom;
    });
  await page.locator("[data-message='8']").waitFor();
  await t.until("the newest message is in view", () => inView("[data-message='8']"));
  await page.getByRole("button", { name: "System prompt" }).click();
  await t.until("the system prompt is in view", () => inView("[data-part=system]"));
  await page.getByRole("button", { name: "First message" }).click();
  await t.until("the first message is in view", () => inView("[data-message='0']"));
  await page.getByRole("button", { name: "Newest message" }).click();
  await t.until("the newest message is in view again", () => inView("[data-message='8']"));
});

check("every message of a model input has its recorded source, and leads to it", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  await page.locator("[data-message='8']").waitFor();
  const sources = (await page.locator(".input-messages .origin").allInnerTexts()).map(clean);
  assert.deepEqual(sources, ["history #0", "runtime context 0", ...[1, 2, 3, 4, 5, 6, 7].map((n) => `history #${n}`)]);
  const served = await (await api("/api/sessions/demo:checkout-errors/trajectory/detail?id=run.main.45")).json();
  assert.equal(served.input.messages.length, sources.length);
  await page.locator("[data-message='8']").getByRole("link", { name: "history #7" }).click();
  await page.locator(".message.wanted").getByText("Tool result: read_logs").waitFor();
  assert.equal(t.address(), session("checkout-errors", "?message=7"));
});

check("the system prompt has its sections and says whether they were verified", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  const prompt = page.locator("[data-part=system]");
  await prompt.getByText("source verified").waitFor();
  assert.deepEqual((await prompt.locator(".section-head .label").allInnerTexts()).map(clean), ["preamble", "project", "answer"]);
  await prompt.getByText("Services: cart, checkout, payments.").waitFor();
});

check("estimate and provider's count stand apart, and tools in a list of their own", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  assert.match(await t.text(".sizes"), /^[\d,]+ tokens estimated · 2,304 tokens by the provider$/);
  assert.match(await t.text(".budget-counts"), /Input estimate [\d,]+ of [\d,]+ tokens Input provider 2,304 tokens Window 200,000/);
  const tools = page.locator(".tool-list");
  await tools.getByText("3 tool definitions").click();
  assert.deepEqual((await tools.locator(".tool-item > summary b").allInnerTexts()).map(clean), ["query_metrics", "read_logs", "list_deployments"]);
  await tools.getByText("query_metrics").click();
  await tools.getByText('"A PromQL expression"').waitFor();
  await t.trajectory("checkout-errors", "?event=run.main.35");
  await page.getByText("Not recorded by the provider").waitFor();
});

check("a response shows reasoning, text, calls and usage, and leads to its exact input and back", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.15");
  const content = page.getByRole("region", { name: "Event content" });
  await content.getByText("A deployment near that time is the first suspect").waitFor();
  await content.getByText("I will look at the error rate").waitFor();
  assert.deepEqual((await content.locator(".call-head b").allInnerTexts()).map(clean), ["query_metrics", "list_deployments"]);
  assert.match(clean(await content.locator(".facts-list").innerText()), /Input 1,204 tokens of it read from cache 0 tokens Output 188 tokens/);
  await page.getByRole("button", { name: "View this input" }).click();
  await page.getByRole("heading", { name: /Model input/ }).waitFor();
  assert.equal(t.param("event"), "run.main.3");
  await page.getByRole("button", { name: "View the response" }).click();
  await t.until("the response is selected", () => t.param("event") === "run.main.15");
});

check("what was not reported is said to be not recorded", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.39");
  await page.getByRole("region", { name: "Event content" }).getByText("Not recorded").waitFor();
});

check("a failed request says why there is no response and shows none", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.69");
  await page.getByRole("button", { name: "View why there is no response" }).click();
  await page.getByText("Why there is no response").waitFor();
  await page.getByText("overloaded_error").waitFor();
  await page.getByRole("button", { name: "View this input" }).count();
  const outputs = (await t.rows().allInnerTexts()).filter((row) => /Model output/.test(row));
  assert.equal(outputs.length, 5, "the failed request has no node of its own");
});

check("a tool shows parameters and result, terminal escapes left out, and the response that called it", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.40");
  const content = page.getByRole("region", { name: "Event content" });
  await content.getByText('"pattern": "timeout"').waitFor();
  const text = await content.innerText();
  assert.ok(text.includes("ERROR payments: timed out") && !text.includes("[31m"));
  await content.getByText("Exchange with observability").click();
  await content.getByText('"tools/call"').waitFor();
  await content.getByRole("button", { name: "Show the response that called it" }).click();
  await t.until("the response is selected", () => t.param("event") === "run.main.39");
});

check("text that spells markup stays text, and long numbers keep their digits", async (page, t) => {
  const index = await (await api("/api/sessions/demo:shard-lag/trajectory")).json();
  const tool = index.entries.find((entry) => entry.type === "mcp");
  const output = index.entries.find((entry) => entry.type === "modelOutput");
  await t.trajectory("shard-lag", `?event=${tool.id}`);
  const content = page.getByRole("region", { name: "Event content" });
  await content.getByText("<script>alert(0)</script> lag 0 ms").waitFor();
  await content.getByText('"at": 12345678901234567890').waitFor();
  await t.trajectory("shard-lag", `?event=${output.id}`);
  await content.getByText("<img src=x onerror=alert(1)> Looking at shard 0.").waitFor();
  assert.equal(await page.locator("#app img, #app script, #app iframe").count(), 0);
});

check("the state of the agent is the committed one", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45&tab=state");
  const state = clean(await page.locator(".facts-list").innerText());
  assert.match(state, /Agent main Run triage-errors Turn 3 .* History 8 messages, 2 of them added by the turn Covers events up to #43/);
  assert.match(state, /Tokens of earlier runs none/);
  await t.trajectory("checkout-errors", "?event=run.main.3&tab=state");
  await page.getByText("No state had been committed when this was recorded.").waitFor();
});

check("an export is announced as sensitive, read, verified and saved", async (page, t) => {
  await t.trajectory("checkout-errors", "?types=tool");
  await page.getByRole("button", { name: "Export" }).click();
  const dialog = page.getByRole("dialog", { name: "Export the trajectory" });
  await dialog.getByText("free text can hold sensitive content").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Export" }).click()]);
  await dialog.getByText("The export is complete:").waitFor();
  await dialog.getByText("Its checksum was verified.").waitFor();
  assert.equal(download.suggestedFilename(), "demo-checkout-errors-trajectory.ndjson");
  const lines = (await readFile(await download.path(), "utf8")).trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.equal(lines[0].type, "trajectory");
  assert.deepEqual([lines.at(-1).type, lines.at(-1).records], ["complete", 47]);
  assert.equal(lines.filter((line) => line.type === "entry").length, 47, "filters do not reach the export");
});

check("an export that breaks off, or was changed, is not called complete", async (page, t) => {
  await t.trajectory("checkout-errors");
  const whole = await (await api("/api/sessions/demo:checkout-errors/trajectory/export")).text();
  const spoiled = { "ended before its completion record": whole.slice(0, whole.lastIndexOf('{"type":"complete"')), "checksum is not that of what arrived": whole.replace("payments", "paymentz") };
  for (const [message, body] of Object.entries(spoiled)) {
    await page.route("**/trajectory/export", (route) => route.fulfill({ status: 200, contentType: "application/x-ndjson", body }));
    await page.getByRole("button", { name: "Export" }).click();
    const dialog = page.getByRole("dialog", { name: "Export the trajectory" });
    await dialog.getByRole("button", { name: "Export" }).click();
    await dialog.getByText(message).waitFor();
    const [download] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Save the incomplete file" }).click()]);
    assert.match(download.suggestedFilename(), /\.incomplete\.ndjson$/);
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await page.unroute("**/trajectory/export");
  }
});

/** toolOf is the entry of a tool's call in the session whose agent writes code. */
async function toolOf(title) {
  const index = await (await api("/api/sessions/demo:coded/trajectory")).json();
  return { index, entry: index.entries.find((entry) => entry.type === "tool" && entry.title === title) };
}

check("calls that code made stand under the call that ran it, each with what it was given and how it ended", async (page, t) => {
  const { entry } = await toolOf("codemode");
  await t.trajectory("coded", `?event=${entry.id}`);
  assert.equal((await t.rows().allInnerTexts()).filter((row) => /query_metrics|read_logs/.test(row)).length, 0, "they are no events of the list");
  const calls = page.locator(".nested");
  await calls.getByText("3 calls").waitFor();
  assert.deepEqual((await calls.locator("summary").allInnerTexts()).map(clean), [
    "1. query_metrics · observability · 300 ms",
    "2. query_metrics · observability · 450 ms toolError",
    "3. read_logs · observability end not recorded",
  ]);
  await calls.getByText("2. query_metrics").click();
  await calls.getByText('"shard": 2').waitFor();
  await calls.getByText('"durationNanos": 450000000').waitFor();
  await calls.getByText("3. read_logs").click();
  await calls.getByText("It may have taken effect.").waitFor();
  await calls.getByText('"service": "shard-3"').waitFor();
  await t.accessible("calls that code made");
});

check("what a tool printed while it ran stands at its call, whose cut result says how much there was", async (page, t) => {
  const { index, entry } = await toolOf("collect");
  await t.trajectory("coded", `?event=${entry.id}`);
  const content = page.getByRole("region", { name: "Event content" });
  await content.getByText("Output while it ran").waitFor();
  const printed = content.locator(".block").filter({ hasText: "Output while it ran" });
  assert.equal((await printed.locator(".text").innerText()).trimEnd(), "asking shard 1\nasking shard 2 <b>\nasking shard 3");
  assert.deepEqual(await page.locator(".tl-labels button").count(), 1, "what is printed has a stream of its own, and is no agent");
  await content.getByText("All of its text, 87.9 KiB, was kept apart").waitFor();
  const result = content.locator(".block").filter({ has: page.getByRole("heading", { name: "Result" }) });
  assert.equal((await result.locator(".text").first().innerText()).trimEnd(), "shard 1: 12 ms\n[cut]", "what the model got");
  await content.getByRole("button", { name: "Show all of it" }).click();
  await result.locator(".text").nth(1).waitFor();
  await t.until("all of its text is there", async () => (await result.locator(".text").nth(1).evaluate((element) => element.textContent)).split("shard 1: 12 ms").length === 6001);
  await t.accessible("a result and all of its text");
  const stream = index.entries.find((one) => one.event === "tool.output");
  assert.match(stream.id, /^out\./);
  await t.trajectory("coded", `?event=${stream.id}`);
  await page.getByRole("heading", { name: "Lifecycle collect" }).waitFor();
  await content.getByText("asking shard 3").waitFor();
});
