// The page's states, judged by axe. The dark theme has other colours and the same structure, so that it is judged by its colours.
import { check, session, tokens } from "./harness.mjs";

const states = {
  sessions: ["/", (page) => page.getByRole("row").nth(3).waitFor()],
  conversation: [session("checkout-errors"), (page) => page.locator(".message").nth(5).waitFor()],
  trajectory: [session("checkout-errors", "/trajectory"), (page) => page.locator("[role=option]").first().waitFor()],
  "model input": [session("checkout-errors", "/trajectory?event=run.main.45"), (page) => page.locator("[data-message='8']").waitFor()],
  "model output": [session("checkout-errors", "/trajectory?event=run.main.64"), (page) => page.getByText("The errors come from payments").waitFor()],
  tool: [session("checkout-errors", "/trajectory?event=run.main.30"), (page) => page.getByText("range too large").waitFor()],
  "agent state": [session("checkout-errors", "/trajectory?event=run.main.45&tab=state"), (page) => page.getByText("Covers events up to").waitFor()],
  "raw JSON": [session("checkout-errors", "/trajectory?event=run.main.45&tab=raw"), (page) => page.getByText('"messages"').waitFor()],
  comparison: [session("release-notes", "/trajectory?event=run.main.26&tab=compare"), (page) => page.locator(".diff-line").first().waitFor()],
  "tree of JSON": [session("checkout-errors", "/trajectory?event=run.main.45&tab=raw"), async (page) => {
    await page.getByRole("button", { name: "Tree" }).click();
    await page.getByRole("tree").waitFor();
  }],
  "no match": [session("checkout-errors", "/trajectory?q=zebra"), (page) => page.getByText("No events match").waitFor()],
  "no runs": [session("empty", "/trajectory"), (page) => page.getByText("This session has not run").waitFor()],
  damaged: [session("damaged", "/trajectory?event=run.main.45"), (page) => page.locator(".notices").waitFor()],
};

for (const [scheme, rules] of [["light", "all"], ["dark", "colours"]]) {
  check(`axe finds nothing in the ${scheme} theme`, { scheme, size: [1440, 900] }, async (page, t) => {
    for (const [name, [path, ready]] of Object.entries(states)) {
      await t.open(path);
      await ready(page);
      await t.drawn();
      await t.accessible(name, rules);
      await t.shot(`${name.replaceAll(" ", "-")}-${scheme}`);
    }
    await t.trajectory("release-notes", "?event=run.main.10");
    await page.getByLabel("Rendered").check();
    await page.locator(".md table").waitFor();
    await t.accessible("rendered", rules);
    await t.shot(`rendered-${scheme}`);
    await page.getByLabel("Rendered").uncheck();
    await t.trajectory("checkout-errors");
    await page.getByRole("button", { name: "Export" }).click();
    await t.accessible("export", rules);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await t.accessible("keys", rules);
  });

  check(`axe finds nothing where access is missing, ${scheme} theme`, { scheme, token: null, allow: [401, 403, 404] }, async (page, t) => {
    await t.open(session("checkout-errors"));
    await page.getByRole("heading", { name: "Sign in to continue" }).waitFor();
    await t.accessible("sign-in", rules);
    await page.getByLabel("Token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("did not accept this token").waitFor();
    await t.accessible("sign-in refused", rules);
    await page.getByLabel("Token").fill(tokens.reader);
    await page.keyboard.press("Enter");
    await page.locator(".message").first().waitFor();
    await t.open("/projects/secret/sessions/any/trajectory");
    await page.getByText("You may not read this in namespace secret").waitFor();
    await t.accessible("forbidden", rules);
    await t.open(session("nowhere"));
    await page.getByText("Session not found").waitFor();
    await t.accessible("not found", rules);
  });

  check(`axe finds nothing in a narrow window, ${scheme} theme`, { scheme, size: [390, 844] }, async (page, t) => {
    await t.trajectory("checkout-errors");
    await t.accessible("events", rules);
    await t.rows().first().click();
    await page.locator("[data-message]").first().waitFor();
    await t.accessible("details", rules);
    await page.getByRole("button", { name: "Timeline", exact: true }).click();
    await page.locator(".tl-tracks canvas").waitFor();
    await t.accessible("timeline", rules);
    await t.shot(`narrow-${scheme}`);
  });
}
