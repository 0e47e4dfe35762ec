import { describe, expect, it } from "vitest";
import { waitsFor } from "../src/model/waiting";
import { entry } from "./entries";

describe("a run that goes on", () => {
  const run = { uid: "u1", agent: "main" };
  const back = (title: string) => entry({ type: "lifecycle", event: "run.handedback", hidden: true, title });
  it.each([
    ["waits for people", [entry(), back("run.handedback: AwaitingApproval")], "a person’s decision"],
    ["waits for other runs", [back("run.handedback: ToolCall")], "the runs that it delegated to"],
    ["went on since", [back("run.handedback: AwaitingApproval"), entry()], ""],
    ["was handed to another worker", [back("run.handedback")], ""],
    ["waits, whatever another run did since", [back("run.handedback: ToolCall"), entry({ run: { uid: "u2" } })], "the runs that it delegated to"],
    ["has nothing yet", [], ""],
  ])("%s", (_name, entries, want) => {
    expect(waitsFor({ entries, byAgent: new Map([["main", entries.map((_, index) => index)]]) }, run)).toBe(want);
  });
});
