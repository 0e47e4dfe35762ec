import { describe, expect, it } from "vitest";
import type { Entry } from "../src/api/schema";
import { approvalLabel, Approvals } from "../src/model/approvals";
import { rowsOf } from "../src/model/rows";
import { join } from "../src/model/trajectory";
import { entry } from "./entries";

const call = (id: string, sequence: number): Entry => entry({ sequence, toolCallId: id, title: "deploy", status: "declared" });
const record = (id: string, sequence: number, title: string): Entry => entry({ sequence, toolCallId: id, title, type: "lifecycle", event: "approval", hidden: true });

describe("what people were asked about calls", () => {
  const entries = [call("a", 1), call("b", 2), record("a", 3, "approval requested: deploy"), record("a", 4, "denied by kim@example.com: deploy"), record("x", 5, "approved: other")];
  const list = entries.map((_, index) => index);
  it("is the last that was recorded about a call", () => {
    const approvals = new Approvals();
    expect(["a", "b", undefined].map((id) => approvals.of(entries, list, id))).toEqual(["denied by kim@example.com: deploy", "", ""]);
  });
  it.each<[string, string, number[]]>([
    ["who decided", "kim@", [0]],
    ["what was asked before", "requested", [0]],
    ["nothing, where the call itself is not recorded", "approved", []],
  ])("finds calls by %s", (_name, word, want) => {
    const found = new Set<number>();
    new Approvals().having(entries, list, word, found);
    expect([...found]).toEqual(want);
  });
  it("is had of a list that grows", () => {
    const approvals = new Approvals();
    const some = list.slice(0, 3);
    expect(approvals.of(entries, some, "a")).toBe("approval requested: deploy");
    some.push(3);
    expect(approvals.of(entries, some, "a")).toBe("denied by kim@example.com: deploy");
  });
  it("is found by the list's search, whose records are not listed", () => {
    const loaded = join(null, {
      session: {}, agents: [], runs: [], entries: entries.map((one, n) => ({ ...one, capturedAt: n })), untimed: [], historicalEntries: [], notices: [], realTime: {}, counts: {}, head: [], cursor: "",
    } as never);
    const rows = (search: string) => [...rowsOf(loaded, { agent: "main", types: null, run: null, search }).events];
    expect(rows("denied")).toEqual([0]);
    expect(rows("")).toEqual([0, 1]);
  });
  it.each([
    ["approval requested: deploy", "asked"],
    ["approval expired: deploy", "expired"],
    ["denied by kim@example.com: deploy", "denied"],
    ["approved", "approved"],
    ["", ""],
  ])("%s is labelled %s", (title, want) => {
    expect(approvalLabel(title)).toBe(want);
  });
});
