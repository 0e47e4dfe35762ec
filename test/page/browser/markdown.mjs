// Texts as they were recorded, and rendered where the reader wants that: nothing of them becomes markup.
import assert from "node:assert/strict";
import { api, check } from "./harness.mjs";

const content = (page) => page.getByRole("region", { name: "Event content" });

/** say replaces the text of a response. */
async function say(page, text) {
  const real = await (await api("/api/sessions/demo:checkout-errors/trajectory/detail?id=run.main.64")).json();
  real.output.message.content = [{ type: "text", text }];
  await page.route("**/detail?id=run.main.64*", (route) => route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(real) }));
}

check("a text is shown as it was recorded until rendering is asked for, which is remembered", async (page, t) => {
  await t.trajectory("release-notes", "?event=run.main.10");
  await content(page).getByText("**two** of them visible").waitFor();
  await page.getByLabel("Rendered").check();
  await content(page).locator("strong", { hasText: "two" }).waitFor();
  assert.deepEqual(await content(page).locator(".md li").allInnerTexts(), ["faster checkout", "fewer time-outs"]);
  assert.equal(await content(page).locator(".md td").count(), 2);
  assert.equal((await content(page).locator(".md-link").innerText()).replace(/\s+/g, " "), "the list (https://example.com/list)");
  assert.equal(await content(page).getByRole("link").count(), 0, "nothing leads out");
  await t.accessible("rendered");
  await page.reload();
  await content(page).locator("strong", { hasText: "two" }).waitFor();
  await page.getByLabel("Rendered").uncheck();
  await content(page).getByText("**two** of them visible").waitFor();
});

check("messages of an input and reasoning are rendered, what tools say is not", async (page, t) => {
  await t.trajectory("checkout-errors", "?event=run.main.45");
  await page.getByLabel("Rendered").check();
  await page.locator("[data-message='7'] .md").waitFor();
  assert.equal(await page.locator("[data-message='8'] .md").count(), 0);
  await page.locator("[data-message='3'] .thinking .md, [data-message='2'] .thinking .md").first().waitFor();
});

check("hostile text stays text, rendered or not", async (page, t) => {
  const hostile = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[click](javascript:alert(1))", "![pixel](https://example.com/pixel.png)",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>", "<style>*{display:none}</style>", "[x]: javascript:alert(1)", "<a href=//example.com>out</a>",
  ];
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await say(page, hostile.join("\n\n"));
  await t.trajectory("checkout-errors", "?event=run.main.64");
  await page.getByLabel("Rendered").check();
  await content(page).locator(".md").waitFor();
  const text = await content(page).locator(".md").innerText();
  for (const part of ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "click (javascript:alert(1))", "[image: pixel — https://example.com/pixel.png]", "<style>*{display:none}</style>", "<a href=//example.com>"]) {
    assert.ok(text.includes(part), part);
  }
  assert.equal(await page.locator("#app img, #app script, #app iframe, #app style, .md a").count(), 0);
  assert.deepEqual(asked.filter((at) => at.includes("example.com")), []);
});

check("what is too deep, too long or too wide to be rendered stays text", async (page, t) => {
  for (const [text, why] of [
    [`${"> ".repeat(500)}deep`, "too long or too deep"],
    [`${"- ".repeat(500)}deep`, "too long or too deep"],
    ["long ".repeat(31_000), "too long to be rendered"],
  ]) {
    await say(page, text);
    await t.trajectory("checkout-errors", "?event=run.main.64");
    await page.getByLabel("Rendered").check();
    await content(page).getByText(why).waitFor();
    assert.equal(await content(page).locator(".md").count(), 0);
    await page.unroute("**/detail?id=run.main.64*");
  }
  await say(page, `before\n\n|a|b|\n|-|-|\n${"|1|2|\n".repeat(2_000)}`);
  await t.trajectory("checkout-errors", "?event=run.main.64");
  await content(page).locator(".md", { hasText: "before" }).waitFor();
  assert.equal(await content(page).locator(".md table").count(), 0);
  assert.ok((await content(page).locator(".md .text.mono").innerText()).includes("|1|2|"));
});
