import { signal, type Signal } from "@preact/signals";
import type { Clock } from "../model/format";

// Sizes and habits, kept in local storage. Contents, names and tokens never are.

const key = "agentloop.layout";

interface Stored {
  timelineHeight: number;
  listWidth: number;
  labelWidth: number;
  clock: Clock | "elapsed";
  shortcuts: boolean;
  rendered: boolean;
}

const defaults: Stored = { timelineHeight: 240, listWidth: Math.round(innerWidth * 0.42), labelWidth: 180, clock: "utc", shortcuts: true, rendered: false };

const stored = read();

export const timelineHeight = preference("timelineHeight");
export const listWidth = preference("listWidth");
export const labelWidth = preference("labelWidth");
/** How the axis and the list write times. */
export const clock = preference("clock");
/** Whether single letters are commands. */
export const shortcuts = preference("shortcuts");

/** Whether texts are shown as the Markdown that they may be, and not as they were recorded. */
export const rendered = preference("rendered");

/** dayClock is the clock for places where a time of day is needed. */
export function dayClock(): Clock {
  return clock.value === "local" ? "local" : "utc";
}

function preference<K extends keyof Stored>(name: K): Signal<Stored[K]> {
  const out = signal(stored[name]);
  let first = true;
  out.subscribe((value) => {
    if (first) {
      first = false;
      return;
    }
    stored[name] = value;
    try {
      localStorage.setItem(key, JSON.stringify(stored));
    } catch {
      // Storage is switched off: the layout then lasts as long as the page.
    }
  });
  return out;
}

function read(): Stored {
  const out = { ...defaults };
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(key) ?? "{}");
    if (typeof kept !== "object" || kept === null) return out;
    const have = kept as Partial<Record<keyof Stored, unknown>>;
    for (const name of ["timelineHeight", "listWidth", "labelWidth"] as const) {
      const value = have[name];
      if (typeof value === "number" && Number.isFinite(value) && value > 0) out[name] = value;
    }
    if (have.clock === "utc" || have.clock === "local" || have.clock === "elapsed") out.clock = have.clock;
    for (const name of ["shortcuts", "rendered"] as const) {
      const value = have[name];
      if (typeof value === "boolean") out[name] = value;
    }
  } catch {
    // What cannot be read is as good as nothing kept.
  }
  return out;
}
