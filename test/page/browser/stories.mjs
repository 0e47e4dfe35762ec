// Stories of the engine in which people are asked, tasks are delegated, and messages have images.
import assert from "node:assert/strict";
import { api, check, session, tell } from "./harness.mjs";

const clean = (text) => text.replace(/\s+/g, " ").trim();
const indexOf = async (name) => (await api(`/api/sessions/demo:${name}/trajectory`)).json();
const content = (page) => page.getByRole("region", { name: "Event content" });
const asked = (page) => content(page).locator(".block").filter({ has: page.getByRole("heading", { name: "Approval" }) });
const facts = async (page) => (await asked(page).locator("dl > div").allInnerTexts()).map(clean);

check("a call says in the list and beside its contents what people were asked and what they decided", async (page, t) => {
  const index = await indexOf("asked");
  const call = (id) => index.entries.find((entry) => entry.type === "mcp" && entry.toolCallId === id);
  await t.trajectory("asked");
  await page.getByText("Run roll-back waits for a person’s decision.").waitFor();
  assert.equal(await page.getByText("still executing").count(), 0);
  const rows = async () => (await t.rows().filter({ hasText: "deploy" }).allInnerTexts()).map(clean);
  const before = await rows();
  assert.equal(before.length, 3);
  assert.match(before[0], /deploy · deployments approved/);
  assert.match(before[1], /deploy · deployments denied/);
  assert.match(before[2], /deploy · deployments asked/);
  assert.equal(await t.rows().filter({ hasText: "Unknown" }).count(), 0, "the records themselves are not listed");

  // What was decided, and by whom, finds the call.
  const search = page.getByLabel("Find in the list");
  await search.fill("kim@example.com");
  await page.getByText("Showing 2 of").waitFor();
  await search.fill("denied");
  await page.getByText("Showing 1 of").waitFor();
  await t.rows().first().click();
  await asked(page).getByText("Denied").waitFor();
  const denied = await facts(page);
  assert.match(denied[0], /^Asked .*, until /);
  assert.match(denied[1], /^Denied by kim@example\.com, .* “not on a Friday <b>”$/);
  await t.accessible("a call that was denied");
  await search.fill("");

  // The one that waits is decided while the page is open.
  await t.trajectory("asked", `?event=${call("toolu_32A").id}`);
  await asked(page).getByText("Asked").waitFor();
  assert.equal((await facts(page)).length, 1);
  const marks = (await t.marks(0, "tools")).length;
  assert.ok(marks > 0, "calls that wait have marks");
  await t.shot("approval");
  await tell("approve");
  await page.getByRole("button", { name: "Refresh", exact: true }).click();
  await t.rows().filter({ hasText: "deploy" }).last().getByText("approved").waitFor();
  await asked(page).getByText("Approved").waitFor();
  assert.match((await facts(page))[1], /^Approved by lee@example\.com/);
  await content(page).getByText("payments v2.30.4 is rolled out").waitFor();
  assert.equal(await page.getByText("waits for a person’s decision").count(), 0);
});

check("runs that tasks were delegated to have agents of their own, and what waits says for whom", async (page, t) => {
  const index = await indexOf("delegated");
  const [, reader, deployer] = index.agents;
  assert.deepEqual(index.agents.map((agent) => [agent.kind, agent.parent ?? ""]), [["main", ""], ["subagent", "main"], ["subagent", "main"]]);
  await t.trajectory("delegated");
  await page.getByText("Run review-release waits for the runs that it delegated to.").waitFor();
  const child = index.runs.find((run) => run.agent === deployer.id);
  await page.getByText(`Run ${child.name} waits for a person’s decision.`).waitFor();

  // The main agent lists its own calls, each with its outcome; those of its children are theirs.
  const rows = async () => (await t.rows().allInnerTexts()).map(clean);
  assert.equal((await rows()).filter((row) => row.includes("delegate")).length, 2);
  assert.equal((await rows()).filter((row) => row.includes("read_logs") || row.includes("deploy ·")).length, 0);
  const labels = page.locator(".tl-labels button");
  assert.equal(await labels.count(), 3);
  for (const agent of [0, 1, 2]) assert.ok((await t.marks(agent, "model")).length > 0, `model of agent ${agent}`);
  for (const agent of [0, 1, 2]) assert.ok((await t.marks(agent, "tools")).length > 0, `tools of agent ${agent}`);
  await t.shot("delegated");

  await labels.nth(1).click();
  await page.getByText(/^\d+ events/).first().waitFor();
  assert.equal(t.param("agent"), reader.id);
  assert.equal((await rows()).filter((row) => row.includes("read_logs")).length, 1);
  await t.rows().filter({ hasText: "Model output" }).last().click();
  await content(page).getByText("No errors since 08:00.").waitFor();

  // The child's answer is the result of the call that delegated.
  await labels.nth(0).click();
  await t.rows().filter({ hasText: "delegate" }).first().click();
  await content(page).getByText("Are there errors since 08:00?").waitFor();
  await content(page).getByText("No errors since 08:00.").waitFor();
  await t.rows().filter({ hasText: "delegate" }).last().click();
  await content(page).getByText("Deploy v3 to the test cluster.").waitFor();
  await t.accessible("a task whose run waits");

  // A mark of a child selects its agent.
  await labels.nth(2).click();
  await t.rows().filter({ hasText: "deploy" }).first().click();
  await asked(page).getByText("Asked").waitFor();
});

check("an image of a message is fetched when it is asked for, and shown as an image", async (page, t) => {
  const fetched = [];
  page.on("request", (request) => {
    if (request.url().includes("/trajectory/image")) fetched.push(new URL(request.url()).searchParams.toString());
  });
  const index = await indexOf("pictured");
  const size = (image) => image.evaluate((element) => [element.naturalWidth, element.naturalHeight, new URL(element.src).protocol]);
  const shown = async (where, alt) => {
    await where.getByRole("button", { name: "Show the image" }).first().click();
    const image = where.getByRole("img", { name: alt });
    await t.until("the image is drawn", () => image.evaluate((element) => element.complete && element.naturalWidth > 0));
    return size(image);
  };
  const tool = index.entries.find((entry) => entry.type === "tool");
  await t.trajectory("pictured", `?event=${tool.id}`);
  await content(page).getByText("Image, image/png").waitFor();
  assert.deepEqual(fetched, [], "nothing is fetched by itself");
  assert.deepEqual(await shown(content(page), "Image 2 of the message"), [32, 8, "blob:"]);
  await t.accessible("a result with an image");

  const input = index.entries.filter((entry) => entry.type === "modelInput" && (entry.purpose ?? "main") === "main").at(-1);
  await t.trajectory("pictured", `?event=${input.id}`);
  const message = page.locator("[data-message]").filter({ hasText: "What does this show?" });
  assert.deepEqual(await shown(message, "Image 2 of the message"), [24, 16, "blob:"]);
  assert.match(fetched.at(-1), /message=\d+/);

  await t.open(session("pictured"));
  const said = page.locator(".message.user").filter({ hasText: "What does this show?" });
  assert.deepEqual(await shown(said, "Image 2 of the message"), [24, 16, "blob:"]);
});

check("an image that is lost or is none says so where it stands", { allow: [404] }, async (page, t) => {
  const index = await indexOf("pictured");
  await page.route("**/trajectory/image?*", (route) =>
    route.fulfill({ status: 404, contentType: "application/problem+json", body: JSON.stringify({ type: "/problems/objectMissing", title: "Not found", status: 404, code: "objectMissing", detail: "The stored image is missing." }) }),
  );
  await t.trajectory("pictured", `?event=${index.entries.find((entry) => entry.type === "tool").id}`);
  await content(page).getByRole("button", { name: "Show the image" }).click();
  await content(page).getByText("The stored image is missing.").waitFor();
  await content(page).getByText("the rollouts as a picture").waitFor();
});
