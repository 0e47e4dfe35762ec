import type { Kind } from "../model/kind";

// Drawings, so that no glyph depends on a font. They say nothing to a screen reader; the words beside them do.

const paths = {
  close: "M4 4l8 8M12 4l-8 8",
  refresh: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  download: "M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.6v.1",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  fit: "M2.5 5.5v-3h3M13.5 5.5v-3h-3M2.5 10.5v3h3M13.5 10.5v3h-3",
  warning: "M8 2.5l6 11H2zM8 6.5v3.2M8 11.6v.1",
  clock: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M8 5v3.2l2 1.3",
  lock: "M4.5 7.5h7v6h-7zM6 7.5V5.5a2 2 0 0 1 4 0v2",
  link: "M6.5 9.5l3-3M7 5l1.5-1.5a2.5 2.5 0 0 1 4 4L11 9M5 7L3.5 8.5a2.5 2.5 0 0 0 4 4L9 11",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.4 10.4l3.1 3.1",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  right: "M6 3.5L10.5 8 6 12.5",
} as const;

export function Icon({ name }: { name: keyof typeof paths }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={paths[name]} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}

interface Shape {
  readonly d: string;
  /** The width of its lines; 0 for a shape that is filled. */
  readonly line: number;
}

/** The shapes are those of the timeline. Each is one path, so that a row of the list can show another kind without a new element. */
const shapes: Readonly<Record<Kind, Shape>> = {
  input: { d: "M6 .8L11.2 6 6 11.2.8 6z", line: 0 },
  reasoning: { d: "M1 4l3-3M1 8l7-7M1 11.5L11 1.5M4.5 11.5L11.5 4.5M8.5 11.5l3-3", line: 1.6 },
  output: { d: "M2.5 1h7A1.5 1.5 0 0 1 11 2.5v7A1.5 1.5 0 0 1 9.5 11h-7A1.5 1.5 0 0 1 1 9.5v-7A1.5 1.5 0 0 1 2.5 1z", line: 0 },
  tool: { d: "M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1z", line: 0 },
  mcp: { d: "M6 1.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4z", line: 1.8 },
  unknown: { d: "M1.5 6h9", line: 2 },
};

/** Glyph marks a kind by shape and colour. */
export function Glyph({ kind }: { kind: Kind }) {
  const { d, line } = shapes[kind];
  return (
    <svg class={`glyph kind-${kind}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={d} fill={line === 0 ? "currentColor" : "none"} stroke={line === 0 ? "none" : "currentColor"} stroke-width={line} />
    </svg>
  );
}
