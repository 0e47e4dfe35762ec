import { describe, expect, it } from "vitest";
import { format, nothingSelected, parse, type Route } from "../src/route";

describe("addresses", () => {
  it.each<[string, Route, string]>([
    ["all sessions", { page: "sessions", namespace: "" }, ""],
    ["a namespace", { page: "sessions", namespace: "demo" }, "?namespace=demo"],
    ["a conversation", { page: "conversation", namespace: "demo", name: "a.b", agent: null, message: null }, "projects/demo/sessions/a.b"],
    ["a message of an agent", { page: "conversation", namespace: "demo", name: "a", agent: "helper", message: 7 }, "projects/demo/sessions/a?agent=helper&message=7"],
    ["a trajectory", { page: "trajectory", namespace: "demo", name: "a", selection: nothingSelected }, "projects/demo/sessions/a/trajectory"],
    [
      "everything that can be chosen",
      {
        page: "trajectory",
        namespace: "demo",
        name: "a",
        selection: { agent: "helper", types: ["input", "tool"], run: "sweep", search: "a b", event: "run.main.3", tab: "raw", time: { from: 1_000_000, to: 2_500_000 } },
      },
      "projects/demo/sessions/a/trajectory?agent=helper&types=input%2Ctool&run=sweep&q=a+b&event=run.main.3&tab=raw&t=1000000-2500000",
    ],
  ])("name %s, and are read back", (_name, route, want) => {
    expect(format(route)).toBe(want);
    const [path, search] = want.split("?");
    expect(parse(path ?? "", search ?? "")).toEqual({ route, rest: [], notices: [], moved: false });
  });

  it("of the older form become the path", () => {
    const parsed = parse("projects/demo/sessions/a", "?trajectory=open&event=x");
    expect(parsed.moved).toBe(true);
    expect(format(parsed.route, parsed.rest)).toBe("projects/demo/sessions/a/trajectory?event=x");
  });

  it("keep parameters that are not known", () => {
    const parsed = parse("projects/demo/sessions/a/trajectory", "?event=x&later=1&later=2");
    expect(format(parsed.route, parsed.rest)).toBe("projects/demo/sessions/a/trajectory?event=x&later=1&later=2");
  });

  it.each([
    ["an unknown tab", "?tab=secrets", 1],
    ["unknown types", "?types=tool,dreams", 1],
    ["a time that ends before it begins", "?t=20-10", 1],
    ["a time that is none", "?t=yesterday", 1],
    ["an empty value", "?tab=content&types=&event=&run=&t=", 0],
  ])("with %s fall back and say so", (_name, search, notices) => {
    const parsed = parse("projects/demo/sessions/a/trajectory", search);
    expect(parsed.notices).toHaveLength(notices);
    if (parsed.route.page !== "trajectory") throw new Error(parsed.route.page);
    expect(parsed.route.selection.tab).toBe("content");
  });

  it.each([
    ["another path", "namespaces/demo"],
    ["too deep a path", "projects/demo/sessions/a/trajectory/x"],
    ["an escape that is none", "projects/%zz/sessions/a"],
  ])("that are %s are unknown", (_name, path) => {
    expect(parse(path, "").route.page).toBe("unknown");
  });

  it("stand for all types when all are named", () => {
    const parsed = parse("projects/demo/sessions/a/trajectory", "types=input,reasoning,output,tool,mcp,unknown");
    expect(parsed.route.page === "trajectory" && parsed.route.selection.types).toBeNull();
  });
});
