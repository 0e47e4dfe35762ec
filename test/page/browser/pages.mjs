// Signing in, the list of sessions, the conversation, and the ways between the pages.
import assert from "node:assert/strict";
import { check, session, tokens } from "./harness.mjs";

check("a token is asked for in place, kept in this tab only, and forgotten on sign-out", { token: null, allow: [401] }, async (page, t) => {
  await t.open(session("checkout-errors", "/trajectory?event=run.main.15"));
  await page.getByRole("heading", { name: "Sign in to continue" }).waitFor();
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("did not accept this token").waitFor();
  await page.getByLabel("Token").fill(`Bearer ${tokens.admin}`);
  await page.keyboard.press("Enter");
  await page.getByRole("listbox", { name: "Events" }).waitFor();
  assert.equal(t.param("event"), "run.main.15", "the address is as it was");
  const stored = await page.evaluate(() => ({ session: Object.values(sessionStorage), local: JSON.stringify({ ...localStorage }), cookies: document.cookie }));
  assert.deepEqual(stored.session, [tokens.admin]);
  assert.ok(!stored.local.includes(tokens.admin) && stored.cookies === "");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to continue" }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.equal(await page.getByRole("listbox", { name: "Events" }).count(), 0, "nothing that was read is left");
});

check("a token that expires later is asked for over the data that is there", { allow: [401] }, async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.64");
  await page.route("**/trajectory?*", (route) => route.fulfill({ status: 401, contentType: "application/problem+json", body: '{"type":"x","title":"x","status":401,"code":"unauthenticated"}' }));
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByRole("heading", { name: "Sign in to continue" }).waitFor();
  await page.unroute("**/trajectory?*");
  await page.getByLabel("Token").fill(tokens.reader);
  await page.keyboard.press("Enter");
  await page.getByText("The errors come from payments").waitFor();
  assert.equal(t.param("event"), "run.main.64");
});

check("sessions are listed with model, runs, context and status", async (page, t) => {
  await t.open("/");
  await page.getByRole("row").nth(15).waitFor();
  const rows = (await page.getByRole("row").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim());
  assert.equal(rows.length, 16);
  assert.match(rows[1], /^Checkout errors after 08:00 demo \/ checkout-errors claude-opus-4-5 anthropic 2 9 2 % Ready 2026-03-14 08:26:56 UTC$/);
  assert.match(rows[2], /Running/);
  assert.match(rows[4], /97 % ModelUnavailable/);
  assert.match(rows[6], /not measured Ready none/);
  await t.shot("sessions");
});

check("the list of sessions is filtered by namespace, and says what is missing to see all", { token: tokens.reader, allow: [403] }, async (page, t) => {
  await t.open("/");
  await page.getByText("You may not read sessions of all namespaces").waitFor();
  await page.getByText("kubectl auth can-i list agentsessions.agentloop.dev --all-namespaces").waitFor();
  await page.getByLabel("Namespace").fill("demo");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Checkout errors after 08:00" }).waitFor();
  assert.equal(t.address(), "/?namespace=demo");
  await page.reload();
  await page.getByRole("link", { name: "Checkout errors after 08:00" }).click();
  await page.getByRole("heading", { name: "Checkout errors after 08:00" }).waitFor();
  assert.equal(t.address(), session("checkout-errors"));
});

check("the conversation shows the history in order, and the context in per cent", async (page, t) => {
  await t.open(session("checkout-errors"));
  await page.locator(".message").nth(10).waitFor();
  const heads = (await page.locator(".message-head b").allInnerTexts()).map((text) => text.trim());
  const result = (name) => `Tool result: ${name}`;
  assert.deepEqual(heads.slice(0, 9), ["User", "Assistant", result("query_metrics"), result("list_deployments"), "Assistant", result("read_logs"), "Assistant", result("read_logs"), "Assistant"]);
  assert.match(await page.getByRole("img", { name: /Context 2 %/ }).getAttribute("aria-label"), /3,100 of 200,000 tokens, an estimate/);
  assert.ok(await page.locator(".message").last().isVisible(), "it begins at its end");
  await t.shot("conversation");
  await t.open(session("checkout-errors", "?message=1"));
  await page.locator(".message.wanted").getByText("I will look at the error rate").waitFor();
  await page.locator(".message.wanted").getByRole("link", { name: "Show in trajectory" }).click();
  await page.getByRole("listbox", { name: "Events" }).waitFor();
  assert.equal(t.param("event"), "run.main.15");
});

check("entry, close button, Escape and the browser's back lead from the trajectory to the conversation", async (page, t) => {
  const conversation = session("checkout-errors");
  const leave = {
    entry: () => page.getByRole("link", { name: "Conversation" }).click(),
    close: () => page.getByRole("button", { name: "Close the trajectory" }).click(),
    escape: () => page.keyboard.press("Escape"),
    back: () => page.goBack(),
  };
  await t.open(conversation);
  for (const [name, act] of Object.entries(leave)) {
    await page.getByRole("link", { name: "Trajectory", exact: true }).click();
    await page.getByRole("listbox", { name: "Events" }).waitFor();
    assert.equal(t.address(), `${conversation}/trajectory`, name);
    await act();
    await page.locator(".message").first().waitFor();
    assert.equal(t.address(), conversation, name);
  }
});

check("the older address of the trajectory becomes its path", async (page, t) => {
  await t.open(session("checkout-errors", "?trajectory=open&event=run.main.24"));
  await t.chosen().waitFor();
  assert.equal(t.address(), session("checkout-errors", "/trajectory?event=run.main.24"));
});

check("the address alone brings back agent, types, search, event and tab", async (page, t) => {
  await t.trajectory("checkout-errors", "?agent=log-reader&types=mcp%2Cinput&q=read_logs&event=run.log-reader.7&tab=state&later=kept");
  assert.equal(await page.getByLabel("Agent", { exact: true }).inputValue(), "log-reader");
  assert.equal(await page.getByLabel("Find in the list").inputValue(), "read_logs");
  assert.deepEqual(await page.locator(".toggle[aria-pressed=true]").allInnerTexts(), ["Model input", "MCP"]);
  assert.equal(await t.rows().count(), 1);
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Agent state");
  await page.getByRole("button", { name: "Clear filters" }).click();
  assert.equal(t.address(), session("checkout-errors", "/trajectory?agent=log-reader&event=run.log-reader.7&tab=state&later=kept"));
});

check("an address with unknown values says so and shows the rest", async (page, t) => {
  await t.trajectory("checkout-errors", "?types=dreams&tab=secrets&agent=nobody");
  await page.getByText("types of events that there are not: dreams").waitFor();
  await page.getByText("no tab of the details: “secrets”").waitFor();
  assert.equal(await page.getByLabel("Agent", { exact: true }).inputValue(), "main");
});
