import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Entry } from "../src/api/schema";
import { entry } from "./entries";

// The reader asks as the page does; what would answer is made up.
vi.stubGlobal("document", { baseURI: "http://viewer/" });
const { Reader } = await import("../src/trajectory-reader");

type Answer = { entries: Entry[]; next?: string } | { status: number };
let answers: Map<string, Answer>;
let asked: string[];

function numbered(from: number, to: number): Entry[] {
  return Array.from({ length: to - from + 1 }, (_, n) => entry({ sequence: from + n }));
}

beforeEach(() => {
  answers = new Map();
  asked = [];
  vi.stubGlobal("fetch", (address: string, { signal }: { signal: AbortSignal }) => {
    const after = new URL(address, "http://viewer").searchParams.get("after") ?? "";
    asked.push(after);
    if (signal.aborted) return Promise.reject(new Error("aborted"));
    const answer = answers.get(after) ?? { entries: [] };
    if ("status" in answer) return Promise.resolve(new Response("{}", { status: answer.status, headers: { "Content-Type": "application/problem+json" } }));
    const page = {
      session: { id: "ns:s", namespace: "ns", name: "s", uid: "u", deleted: false }, agents: [], runs: [], entries: answer.entries, untimed: [], historicalEntries: [], notices: [],
      realTime: { message: "", untimed: 0, adjusted: 0 }, counts: { entries: 12, hidden: 0, untimed: 0 }, head: [], cursor: `end${after}`, ...(answer.next === undefined ? {} : { next: answer.next }),
    };
    return Promise.resolve(new Response(JSON.stringify(page), { status: 200 }));
  });
});

const shown = (reader: InstanceType<typeof Reader>) => reader.loaded.value?.entries.map((one) => one.sequence);

describe("a reading", () => {
  it("goes on to the last page, and later reads what was added", async () => {
    answers.set("", { entries: numbered(1, 4), next: "a" }).set("a", { entries: numbered(5, 6) });
    const reader = new Reader("ns", "s");
    await reader.refresh();
    expect([asked, shown(reader), reader.progress.value]).toEqual([["", "a"], [1, 2, 3, 4, 5, 6], null]);
    answers.set("enda", { entries: numbered(6, 8) });
    await reader.refresh();
    expect([asked.at(-1), shown(reader)?.length, reader.news.value]).toEqual(["enda", 8, "2 new events."]);
    answers.set("endenda", { entries: [] });
    await reader.refresh();
    expect(reader.news.value).toBe("No new events.");
  });
  it("shows the newest where there are more than the page holds, and says so", async () => {
    answers.set("", { entries: numbered(1, 6), next: "a" }).set("a", { entries: numbered(7, 12) });
    const reader = new Reader("ns", "s", 5);
    await reader.refresh();
    expect(shown(reader)).toEqual([8, 9, 10, 11, 12]);
    expect(reader.remark.value).toBe("This session has 12 events. The page shows the newest 5 events; the export has all.");
  });
  it("begins anew, once, when its history was replaced", async () => {
    answers.set("", { entries: numbered(1, 2) }).set("end", { status: 410 });
    const reader = new Reader("ns", "s");
    await reader.refresh();
    await reader.refresh();
    expect([asked, shown(reader), reader.error.value]).toEqual([["", "end", ""], [1, 2], null]);
    expect(reader.remark.value).toMatch(/read anew/);
  });
  it("keeps what it has when it fails, and goes on from there", async () => {
    answers.set("", { entries: numbered(1, 4), next: "a" }).set("a", { status: 503 });
    const reader = new Reader("ns", "s");
    await reader.refresh();
    expect([shown(reader), reader.busy.value]).toEqual([[1, 2, 3, 4], false]);
    expect(reader.error.value).toMatchObject({ status: 503 });
    answers.set("a", { entries: numbered(5, 6) });
    await reader.refresh();
    expect([asked, shown(reader)?.length, reader.error.value]).toEqual([["", "a", "a"], 6, null]);
  });
});
