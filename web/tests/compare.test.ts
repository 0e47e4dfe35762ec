import { describe, expect, it } from "vitest";
import type { InputMessage, InputTool, ModelInput, Source, SystemPrompt } from "../src/api/schema";
import { compare, compareMessages, previousInput, type Step } from "../src/model/compare";
import { entry } from "./entries";

const history = (n: number, part: Partial<InputMessage> = {}): InputMessage => of({ type: "history", messageIndex: n }, `h${n}`, part);
const summary = (id: string, before: number): InputMessage => of({ type: "compaction", checkpointId: id, messageIndex: before, summarizedBefore: before }, id);
const repair = (call: string, at: number): InputMessage =>
  of({ type: "tool-repair", messageIndex: at, toolCallId: call }, `repair ${call}`, { role: "toolResult", message: { role: "toolResult", toolCallId: call } });
const snapshot = (n: number, at: number, bytes: string): InputMessage => of({ type: "runtime-context", snapshotIndex: n, messageIndex: at, userTurn: 0 }, bytes);

function of(source: Source, digest: string, part: Partial<InputMessage> = {}): InputMessage {
  return { index: 0, role: "user", digest, source, ...part };
}

/** told writes steps in short. */
function told(steps: readonly Step[]): string[] {
  const name = (message: InputMessage) => message.digest ?? "?";
  return steps.map((step) => {
    switch (step.kind) {
      case "kept":
        return `kept ${step.messages.map(name).join(" ")}`;
      case "added":
        return `${step.appended ? "appended" : "inserted"} ${name(step.message)}`;
      case "removed":
        return `removed ${name(step.message)}`;
      case "changed":
        return `changed ${name(step.before)} to ${name(step.after)} (${step.why})`;
      case "summarised":
        return `${name(step.summary)} for ${step.messages.map(name).join(" ")}`;
    }
  });
}

describe("messages of two inputs", () => {
  const [h0, h1, h2, h3, h4] = [0, 1, 2, 3, 4].map((n) => history(n)) as [InputMessage, InputMessage, InputMessage, InputMessage, InputMessage];
  const skills = history(1, { digest: "h1 with skills", skillExpansion: { messageIndex: 1, snapshotIndex: 0, skills: [{ id: "deploy", revision: "r7" }] } });
  it.each<[string, InputMessage[], InputMessage[], string[]]>([
    ["the next turn appends", [h0, h1], [h0, h1, h2, h3], ["kept h0 h1", "appended h2", "appended h3"]],
    ["a retry has the same", [h0, h1], [h0, h1], ["kept h0 h1"]],
    ["the first messages of all", [], [h0], ["appended h0"]],
    ["a compaction replaces what it covers and keeps the rest", [h0, h1, h2, h3], [summary("cp-1", 2), h2, h3, h4], ["cp-1 for h0 h1", "kept h2 h3", "appended h4"]],
    [
      "a second compaction replaces the first one too",
      [summary("cp-1", 2), h2, h3],
      [summary("cp-2", 3), h3, h4],
      ["cp-2 for cp-1 h2", "kept h3", "appended h4"],
    ],
    [
      "a snapshot in front of a summarised message goes with it",
      [snapshot(0, 0, "ctx"), h0, h1],
      [summary("cp-1", 1), h1],
      ["cp-1 for ctx h0", "kept h1"],
    ],
    ["Skills in front of a message change it", [h0, h1, h2], [h0, skills, h2], ["kept h0", "changed h1 to h1 with skills (history)", "kept h2"]],
    ["a snapshot with other content is changed", [snapshot(0, 0, "ctx"), h0], [snapshot(0, 0, "ctx'"), h0], ["changed ctx to ctx' (runtime-context)", "kept h0"]],
    [
      "a repair gives way to the result that came",
      [h0, h1, repair("c1", 1)],
      [h0, h1, history(2, { role: "toolResult", message: { role: "toolResult", toolCallId: "c1" } }), h3],
      ["kept h0 h1", "changed repair c1 to h2 (repaired)", "appended h3"],
    ],
    ["a repair that is no longer needed is removed", [h0, repair("c1", 0), h1], [h0, h1], ["kept h0", "removed repair c1", "kept h1"]],
    ["a message in between is inserted", [h0, h2], [h0, h1, h2], ["kept h0", "inserted h1", "kept h2"]],
    ["equal bytes twice are two messages", [h0, h0, h1], [h0, h1, h0], ["kept h0", "inserted h1", "kept h0", "removed h1"]],
    [
      "messages without bytes are never the same",
      [{ index: 0, role: "user", unavailable: "lost" }],
      [{ index: 0, role: "user", unavailable: "lost" }],
      ["removed ?", "appended ?"],
    ],
  ])("%s", (_name, before, after, want) => {
    expect(told(compareMessages(before, after))).toEqual(want);
  });

  it("keeps every message of both exactly once, whatever changed", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    for (let round = 0; round < 300; round++) {
      const make = () => Array.from({ length: random(12) }, () => history(random(9), random(4) === 0 ? { digest: `x${random(3)}` } : {}));
      const [before, after] = [make(), make()];
      const steps = compareMessages(before, after);
      const old: InputMessage[] = [];
      const now: InputMessage[] = [];
      for (const step of steps) {
        if (step.kind === "kept") now.push(...step.messages);
        if (step.kind === "added") now.push(step.message);
        if (step.kind === "removed") old.push(step.message);
        if (step.kind === "changed") {
          old.push(step.before);
          now.push(step.after);
        }
      }
      expect(now).toEqual(after);
      const kept = steps.flatMap((step) => (step.kind === "kept" ? step.messages : []));
      const digests = (list: readonly InputMessage[]) => list.map((message) => message.digest).sort();
      expect(digests([...old, ...kept])).toEqual(digests(before));
    }
  });

  it("of ten thousand messages take no time to speak of", () => {
    const many = Array.from({ length: 10_000 }, (_, n) => history(n));
    const steps = compareMessages(many, [summary("cp", 9_000), ...many.slice(9_000), history(10_000)]);
    expect(steps.map((step) => step.kind)).toEqual(["summarised", "kept", "added"]);
  });
});

const prompt = (sections: Record<string, string>, provenance: SystemPrompt["provenance"] = "verified"): SystemPrompt => ({
  text: Object.values(sections).join("\n"),
  sections: provenance === "verified" ? Object.entries(sections).map(([id, text]) => ({ id, text, digest: `sha256:${text}` })) : [],
  provenance,
});
const tool = (name: string, description = "does", parameters: unknown = {}): InputTool => ({ name, description, parameters });

function input(part: Partial<ModelInput> = {}): ModelInput {
  return {
    purpose: "main",
    model: { provider: "p", id: "m" },
    parameters: { maxTokens: 100 },
    contextRef: { digest: "sha256:c", size: 1, mediaType: "x" },
    inputDigest: JSON.stringify(part),
    inputSize: 1,
    verified: true,
    messages: [],
    tools: [],
    ...part,
  } as ModelInput;
}

describe("the rest of two inputs", () => {
  it("with the same digest is the same", () => {
    expect(compare(input(), input()).same).toBe(true);
    expect(compare(input(), input({ messages: [history(0)] })).same).toBe(false);
  });
  it("counts what happened to messages", () => {
    const counts = compare(input({ messages: [history(0), history(1), history(2)] }), input({ messages: [summary("cp", 2), history(2), history(3)] })).counts;
    expect(counts).toEqual({ kept: 1, appended: 1, inserted: 0, removed: 0, changed: 0, summarised: 2 });
  });
  it("tells sections of the system prompt apart when both were verified", () => {
    const change = compare(
      input({ system: prompt({ "": "hi", project: "shop", old: "x" }) }),
      input({ system: prompt({ "": "hi", project: "store", answer: "brief" }) }),
    ).system;
    expect([change.kind, ...(change.sections ?? []).map((step) => `${step.kind} ${step.id}`)]).toEqual(["changed", "kept ", "changed project", "added answer", "removed old"]);
  });
  it.each<[string, SystemPrompt | undefined, SystemPrompt | undefined, string]>([
    ["unknown sources are compared as texts", prompt({ a: "1" }, "unavailable"), prompt({ a: "2" }), "changed"],
    ["the same prompt is kept", prompt({ a: "1" }), prompt({ a: "1" }), "kept"],
    ["a prompt can come", undefined, prompt({ a: "1" }), "added"],
    ["a prompt can go", prompt({ a: "1" }), undefined, "removed"],
    ["there can be none", undefined, undefined, "none"],
  ])("%s", (_name, before, after, kind) => {
    const change = compare(input(before ? { system: before } : {}), input(after ? { system: after } : {})).system;
    expect(change.kind).toBe(kind);
    if (_name.startsWith("unknown")) expect(change.sections).toBeNull();
  });
  it("names tools that were added, removed and changed, and a new order", () => {
    const tools = compare(
      input({ tools: [tool("a"), tool("b"), tool("c"), tool("d")] }),
      input({ tools: [tool("b"), tool("a"), tool("c", "does more"), tool("e"), tool("f", "x", { type: "object" })] }),
    ).tools;
    expect(tools.changes.map((change) => `${change.kind} ${change.name}`)).toEqual(["changed c", "added e", "added f", "removed d"]);
    expect([tools.kept, tools.reordered]).toEqual([2, true]);
  });
  it("names parameters that are not the same", () => {
    expect(compare(input(), input({ model: { provider: "p", id: "n" }, parameters: { maxTokens: 200 } })).facts).toEqual([
      { name: "model", before: "p / m", after: "p / n" },
      { name: "maxTokens", before: "100", after: "200" },
    ]);
  });
});

describe("the previous input", () => {
  const model = (sequence: number, part = {}) => entry({ sequence, type: "modelInput", purpose: "main", ...part });
  const entries = [
    model(1),
    model(3, { purpose: "summary" }),
    entry({ sequence: 4 }),
    model(5, { agent: "helper" }),
    model(6),
    model(9),
    model(7, { id: "untimed", capturedAt: undefined }),
  ];
  it.each<[string, string, string | null]>([
    ["is of the same agent and purpose", "e6", "e1"],
    ["is not there for the first one", "e1", null],
    ["of the first one of an agent is not another agent's", "e5", null],
    ["counts by number where a time is missing", "e9", "untimed"],
  ])("%s", (_name, id, want) => {
    const found = previousInput(entries, entries.find((one) => one.id === id) ?? entry());
    expect(found?.id ?? null).toBe(want);
  });
});
