import { useEffect, useRef } from "preact/hooks";
import type { Jump } from "../details/model-input";
import { kindOf } from "../model/kind";
import { step, stepRun, stepTo, type Rows } from "../model/rows";
import { severityOf, type Loaded } from "../model/trajectory";
import { replace } from "../navigation";
import type { Route, Selection } from "../route";
import { lanes, neighbour, rowOf, type Placed } from "../timeline/lanes";
import { useKeys } from "./keys";

/** What the keys of the trajectory act on. */
interface Commands {
  loaded: Loaded;
  rows: Rows;
  selected: number;
  selection: Selection;
  agent: string;
  select: (index: number) => void;
  change: (part: Partial<Selection>, how?: (route: Route) => void) => void;
  onAgent: (agent: string) => void;
  onEntry: (id: string) => void;
  onRefresh: () => void;
  onClose: () => void;
  onHelp: () => void;
  /** The search box, and what leads to it also from another pane. */
  search: { current: HTMLInputElement | null };
  onFind: () => void;
  /** Brings the selected mark to the middle of the timeline; a second time makes it fill the width. */
  centre: { current: (() => void) | null };
  jump: { current: ((to: Jump) => void) | null };
}

/** usePageKeys gives the trajectory the keys that its help lists. */
export function usePageKeys(c: Commands): void {
  const from = c.selected < 0 ? null : c.selected;
  const to = (index: number | null) => {
    if (index !== null) c.select(index);
  };
  const failed = (index: number) => {
    const entry = c.loaded.entries[index];
    return entry !== undefined && severityOf(entry) === "error";
  };
  const byAgent = (by: 1 | -1) => {
    const at = c.loaded.agents.findIndex((agent) => agent.id === c.agent);
    const next = c.loaded.agents[at + by];
    if (next) c.onAgent(next.id);
  };
  useKeys({
    j: () => to(step(c.rows, from, 1)),
    k: () => to(step(c.rows, from, -1)),
    "]": () => to(stepRun(c.rows, from, 1)),
    "[": () => to(stepRun(c.rows, from, -1)),
    l: () => byAgent(1),
    h: () => byAgent(-1),
    ".": () => to(alongRow(c.loaded, c.selected, 1)),
    ",": () => to(alongRow(c.loaded, c.selected, -1)),
    e: () => to(stepTo(c.rows, from, 1, failed)),
    E: () => to(stepTo(c.rows, from, -1, failed)),
    "1": () => c.change({ tab: "content" }, replace),
    "2": () => c.change({ tab: "state" }, replace),
    "3": () => c.change({ tab: "raw" }, replace),
    i: () => {
      const input = c.loaded.entries[c.selected]?.inputId;
      if (input !== undefined) c.onEntry(input);
    },
    d: () => {
      const input = c.loaded.entries[c.selected]?.type === "modelInput";
      if (input) c.change({ tab: c.selection.tab === "compare" ? "content" : "compare" }, replace);
    },
    "g s": () => c.jump.current?.("system"),
    "g f": () => c.jump.current?.("first"),
    "g n": () => c.jump.current?.("newest"),
    f: () => c.centre.current?.(),
    "/": c.onFind,
    R: c.onRefresh,
    "?": c.onHelp,
    F6: () => cyclePane(1),
    "Shift+F6": () => cyclePane(-1),
    Escape: () => {
      // The innermost thing first: what is being searched for, then the search box, then the page.
      if (document.activeElement === c.search.current && c.search.current) {
        if (c.selection.search !== "") c.change({ search: "" }, replace);
        else c.search.current.blur();
        return;
      }
      c.onClose();
    },
  });
}

/** useFindKey makes the browser's key for finding lead to the search box; pressed there, it is the browser's. */
export function useFindKey(search: { current: HTMLInputElement | null }, onFind: () => void): void {
  const latest = useRef(onFind);
  latest.current = onFind;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "f" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      if (document.activeElement === search.current || document.querySelector("dialog[open], .sign-in") !== null) return;
      event.preventDefault();
      latest.current();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}

/** alongRow is the mark before or after one in its row of the timeline. */
function alongRow(loaded: Loaded, selected: number, by: 1 | -1): number | null {
  const entry = loaded.entries[selected];
  const kind = entry && kindOf(entry);
  if (!entry || !kind) return null;
  const row: Placed[] = [];
  loaded.entries.forEach((other, index) => {
    const otherKind = other.agent === entry.agent ? kindOf(other) : null;
    if (otherKind === null || other.capturedAt === undefined || rowOf(otherKind) !== rowOf(kind)) return;
    const start = other.startedAt ?? other.capturedAt;
    row.push({ index, agent: other.agent, kind: otherKind, severity: "normal", start, end: start });
  });
  const lane = lanes([entry.agent], row).find((candidate) => candidate.events.includes(selected));
  return lane ? neighbour(lane, selected, by) : null;
}

function cyclePane(by: 1 | -1): void {
  const panes = [...document.querySelectorAll<HTMLElement>("[data-pane]")];
  const at = panes.findIndex((pane) => pane.contains(document.activeElement));
  const next = panes[(at + by + panes.length) % panes.length];
  const targets = [".tl-tracks", ".list", ".detail-scroll", ".input-scroll", "select"].map((selector) => next?.querySelector<HTMLElement>(selector));
  targets.find((target) => target)?.focus();
}
