// An input beside the one before it: what was kept, appended, replaced, and what changed within it.
import assert from "node:assert/strict";
import { api, check } from "./harness.mjs";

const clean = (text) => text.replace(/\s+/g, " ").trim();
const region = (page) => page.getByRole("region", { name: "Comparison with the previous input" });
const labels = async (page) => (await region(page).locator(".change-label, .step.kept > details > summary").allInnerTexts()).map(clean);
const detail = async (session, id) => (await api(`/api/sessions/demo:${session}/trajectory/detail?id=${id}`)).json();

/** serve answers for one event with a detail made by hand. */
const serve = (page, id, body) =>
  page.route(
    (at) => at.pathname.endsWith("/detail") && at.searchParams.get("id") === id,
    (route) => route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(body) }),
  );

check("the key d compares an input with the previous one, and the address keeps that", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  await page.locator("[data-message='8']").waitFor();
  await page.keyboard.press("d");
  await region(page).getByText("Compared with input #35, run triage-errors, turn 3.").waitFor();
  assert.equal(t.param("tab"), "compare");
  assert.equal(clean(await region(page).locator(".counts").innerText()), "7 kept 2 appended");
  assert.deepEqual(await labels(page), ["7 messages kept", "Appended", "Appended"]);
  await region(page).getByText("Not changed.", { exact: true }).waitFor();
  await region(page).getByText("3 definitions not changed.").waitFor();
  assert.equal(await region(page).locator(".step.kept [data-message]").count(), 0, "what was kept is folded");
  await region(page).getByText("7 messages kept").click();
  assert.equal(await region(page).locator(".step.kept [data-message]").count(), 7);
  await page.reload();
  await region(page).getByText("Compared with input #35").waitFor();
  await page.keyboard.press("d");
  await page.locator(".input-scroll").waitFor();
  await page.keyboard.press("d");
  await region(page).getByRole("button", { name: "View that input" }).click();
  await t.until("the previous input is selected", () => t.param("event") === "run.main.35" && t.param("tab") === null);
});

check("after a compaction the summary takes the place of what it stands for, and a changed section shows its words", async (page, t) => {
  await t.trajectory("release-notes", "?event=run.main.26&tab=compare");
  await region(page).getByText("Compared with input #15, run draft, turn 1.").waitFor();
  assert.equal(clean(await region(page).locator(".counts").innerText()), "1 kept 1 inserted 3 replaced by a summary");
  assert.deepEqual(await labels(page), ["Section answer: changed", "A summary took the place of 3 messages", "Inserted", "1 message kept"]);
  const section = region(page).locator(".change.changed").first();
  await section.locator(".diff").waitFor();
  assert.deepEqual(await section.locator(".diff b").allInnerTexts(), ["five", "two"]);
  await region(page).getByText("3 messages that it stands for").click();
  await region(page).getByText("expanded skills changelog@r3").waitFor();
  await t.shot("compare-light");
});

check("Skills in front of a message show it changed, a tool repair gives way to the result, and tools are compared", async (page, t) => {
  const [before, after] = [await detail("checkout-errors", "run.main.35"), await detail("checkout-errors", "run.main.45")];
  // The older input had a repair in the place of a result, and its prompt no Skills.
  const result = before.input.messages.at(-1);
  result.source = { type: "tool-repair", messageIndex: 4, toolCallId: result.message.toolCallId };
  result.message.content = "No result was recorded for this call.";
  result.digest = "sha256:repair";
  const prompt = after.input.messages[0];
  prompt.digest = "sha256:with-skills";
  prompt.skillExpansion = { messageIndex: 0, snapshotIndex: 0, skills: [{ id: "triage", revision: "r2" }] };
  prompt.message.content = [{ type: "text", text: "Look before you conclude." }, ...prompt.message.content.slice(0)].filter((block) => typeof block === "object");
  after.input.tools = [after.input.tools[1], { ...after.input.tools[0], description: "Query the time series database." }, { name: "page_someone", description: "Wake somebody up.", parameters: {} }];
  await serve(page, "run.main.35", before);
  await serve(page, "run.main.45", after);
  await t.trajectory("checkout-errors", "?event=run.main.45&tab=compare");
  await region(page).getByText("Compared with input #35").waitFor();
  assert.deepEqual(await labels(page), [
    "Changed: other Skills stand in front of the message", "5 messages kept", "Changed: a repair and a recorded result of the same call", "Appended", "Appended",
    "query_metrics: changed", "page_someone: added", "list_deployments: removed",
  ]);
  await region(page).getByText("They stand in another order.").waitFor();
  await region(page).locator(".diff-line.removed", { hasText: "No result was recorded for this call." }).waitFor();
  await t.accessible("comparison");
});

check("without a previous input the comparison says so, and other events have none", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.3&tab=compare");
  await page.getByText("There is no previous input: this is the first one of the agent.").waitFor();
  await t.trajectory("release-notes", "?event=run.main.23&tab=compare");
  await page.getByText("this is the first one of the agent for a summary.").waitFor();
  await t.trajectory("checkout-errors", "?event=run.main.64&tab=compare");
  await page.getByRole("region", { name: "Event content" }).getByText("The errors come from payments").waitFor();
  assert.equal(await page.getByRole("tab", { name: "Compare" }).count(), 0);
  await t.trajectory("damaged", "?event=run.main.45&tab=compare");
  await page.getByText("cannot be shown, and so not be compared").waitFor();
});

check("a retry of a request has the same bytes", async (page, t) => {
  const index = await (await api("/api/sessions/demo:checkout-errors/trajectory")).json();
  const inputs = index.entries.filter((entry) => entry.type === "modelInput" && entry.run.name === "triage-fix");
  await t.trajectory("checkout-errors", `?event=${inputs[1].id}&tab=compare`);
  await page.getByText("Both inputs have the same bytes.").waitFor();
});
