import { kinds, type Kind } from "./model/kind";

// The address is the state of the page: what is shown can be linked to, reloaded and left with the browser's back button.

export interface Selection {
  /** The agent whose events are listed; null stands for the main agent. */
  agent: string | null;
  /** The types of events that are listed; null stands for all. */
  types: readonly Kind[] | null;
  /** The name or UID of the run whose events are listed; null stands for all. */
  run: string | null;
  /** What the list is searched for. */
  search: string;
  /** The id of the event whose details are shown. */
  event: string | null;
  tab: Tab;
  /** The part of the time that the timeline shows, in microseconds; null stands for all of it. */
  time: { readonly from: number; readonly to: number } | null;
}

export const tabs = ["content", "compare", "state", "raw"] as const;
export type Tab = (typeof tabs)[number];

export type Route =
  | { page: "sessions"; namespace: string }
  | {
      page: "conversation";
      namespace: string;
      name: string;
      /** The agent whose conversation is shown; null stands for the main agent. */
      agent: string | null;
      /** The position of the message that is shown first; null stands for the newest. */
      message: number | null;
    }
  | { page: "trajectory"; namespace: string; name: string; selection: Selection }
  | { page: "unknown"; path: string };

export interface Parsed {
  route: Route;
  /** Parameters that this version does not know: kept in the address. */
  rest: readonly (readonly [string, string])[];
  /** What in the address could not be used, in words. */
  notices: readonly string[];
  /** Whether the address is an older form that is to be replaced by format's. */
  moved: boolean;
}

export const nothingSelected: Selection = { agent: null, types: null, run: null, search: "", event: null, tab: "content", time: null };

/** parse reads an address relative to the page's base: path without a leading slash, search with or without its mark. */
export function parse(path: string, search: string): Parsed {
  const params = new URLSearchParams(search);
  const parts = path.split("/").filter((part) => part !== "");
  const names = decode(parts);
  if (parts.length === 0) {
    const namespace = params.get("namespace") ?? "";
    return { route: { page: "sessions", namespace }, rest: others(params, ["namespace"]), notices: [], moved: false };
  }
  const [projects, namespace, sessions, name, view] = names ?? [];
  const inSession = projects === "projects" && sessions === "sessions" && namespace !== undefined && name !== undefined;
  if (inSession && parts.length === 4) {
    if (params.get("trajectory") === "open") {
      params.delete("trajectory");
      return { ...trajectory(namespace, name, params), moved: true };
    }
    return conversation(namespace, name, params);
  }
  if (inSession && parts.length === 5 && view === "trajectory") return trajectory(namespace, name, params);
  return { route: { page: "unknown", path }, rest: [], notices: [], moved: false };
}

/** format is the address of a route, relative to the page's base. */
export function format(route: Route, rest: Parsed["rest"] = []): string {
  const params = new URLSearchParams();
  let path = "";
  switch (route.page) {
    case "sessions":
      if (route.namespace !== "") params.set("namespace", route.namespace);
      break;
    case "conversation":
      path = sessionPath(route.namespace, route.name);
      if (route.agent !== null) params.set("agent", route.agent);
      if (route.message !== null) params.set("message", String(route.message));
      break;
    case "trajectory":
      path = sessionPath(route.namespace, route.name) + "/trajectory";
      select(params, route.selection);
      break;
    case "unknown":
      path = route.path;
  }
  for (const [key, value] of rest) params.append(key, value);
  const query = params.toString();
  return query === "" ? path : `${path}?${query}`;
}

function conversation(namespace: string, name: string, params: URLSearchParams): Parsed {
  const notices: string[] = [];
  const word = params.get("message");
  const known = word !== null && /^\d{1,9}$/.test(word);
  if (word !== null && !known) notices.push(`The address names no message: “${word}”.`);
  const route: Route = { page: "conversation", namespace, name, agent: params.get("agent") || null, message: known ? Number(word) : null };
  return { route, rest: others(params, ["agent", "message"]), notices, moved: false };
}

function trajectory(namespace: string, name: string, params: URLSearchParams): Parsed {
  const notices: string[] = [];
  const types = parseTypes(params.get("types"), notices);
  const tab = params.get("tab");
  if (tab !== null && !isTab(tab)) notices.push(`The address names no tab of the details: “${tab}”.`);
  const selection: Selection = {
    agent: params.get("agent") || null,
    types,
    run: params.get("run") || null,
    search: params.get("q") ?? "",
    event: params.get("event") || null,
    tab: tab !== null && isTab(tab) ? tab : "content",
    time: parseTime(params.get("t"), notices),
  };
  const rest = others(params, ["agent", "types", "run", "q", "event", "tab", "t"]);
  return { route: { page: "trajectory", namespace, name, selection }, rest, notices, moved: false };
}

function parseTypes(value: string | null, notices: string[]): readonly Kind[] | null {
  if (value === null || value === "") return null;
  const wanted = value.split(",");
  const known = kinds.filter((kind) => wanted.includes(kind));
  const unknown = wanted.filter((word) => !kinds.some((kind) => kind === word));
  if (unknown.length > 0) notices.push(`The address names types of events that there are not: ${unknown.join(", ")}.`);
  return known.length === 0 || known.length === kinds.length ? null : known;
}

function parseTime(value: string | null, notices: string[]): Selection["time"] {
  if (value === null || value === "") return null;
  const [, from, to] = /^(\d{1,16})-(\d{1,16})$/.exec(value) ?? [];
  if (from !== undefined && to !== undefined && Number(from) < Number(to)) return { from: Number(from), to: Number(to) };
  notices.push(`The address names no part of the time: “${value}”.`);
  return null;
}

function select(params: URLSearchParams, selection: Selection): void {
  if (selection.agent !== null) params.set("agent", selection.agent);
  if (selection.types !== null) params.set("types", selection.types.join(","));
  if (selection.run !== null) params.set("run", selection.run);
  if (selection.search !== "") params.set("q", selection.search);
  if (selection.event !== null) params.set("event", selection.event);
  if (selection.tab !== "content") params.set("tab", selection.tab);
  if (selection.time !== null) params.set("t", `${Math.round(selection.time.from)}-${Math.round(selection.time.to)}`);
}

function others(params: URLSearchParams, known: readonly string[]): [string, string][] {
  return [...params].filter(([key]) => !known.includes(key));
}

function sessionPath(namespace: string, name: string): string {
  return `projects/${encodeURIComponent(namespace)}/sessions/${encodeURIComponent(name)}`;
}

function decode(parts: readonly string[]): string[] | null {
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return null;
  }
}

function isTab(word: string): word is Tab {
  return tabs.some((tab) => tab === word);
}
