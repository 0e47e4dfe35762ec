import type { ReadonlySignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Entry } from "../api/schema";
import { date, duration, tokens } from "../model/format";
import { kindLabels, kindOf, purposeLabel } from "../model/kind";
import { durationOf } from "../model/trajectory";
import { Glyph } from "../ui/icons";
import { dayClock } from "../ui/preferences";

export interface TipAt {
  readonly index: number;
  /** How long its row was idle before it, in microseconds; null when it was not. */
  readonly gap?: number | null;
  /** Position of the pointer in the window. */
  readonly x: number;
  readonly y: number;
}

/** Tips shows the tip of the mark under the pointer. The timeline is not rendered for it. */
export function Tips({ at, entryAt }: { at: ReadonlySignal<TipAt | null>; entryAt: (index: number) => Entry | undefined }) {
  return at.value && <Tip at={at.value} entry={entryAt(at.value.index)} />;
}

/** Tip says what a mark stands for. The same is in the list, so that it is for the eye alone. */
function Tip({ at, entry }: { at: TipAt; entry: Entry | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const room = 12;
    const x = Math.min(at.x + room, innerWidth - element.offsetWidth - room);
    const below = at.y + 20;
    const y = below + element.offsetHeight > innerHeight ? at.y - element.offsetHeight - room : below;
    element.style.transform = `translate(${Math.max(x, room)}px, ${Math.max(y, room)}px)`;
  });
  const kind = entry === undefined ? null : kindOf(entry);
  if (entry === undefined || kind === null) return null;
  const took = durationOf(entry);
  const gap = at.gap ?? null;
  const facts = [
    entry.capturedAt === undefined ? "" : date(entry.startedAt ?? entry.capturedAt, dayClock()),
    took === null ? "" : duration(took),
    tokens(entry.usage) === "" ? "" : `${tokens(entry.usage)} tokens`,
    entry.status ?? "",
    gap === null ? "" : `after a gap of ${duration(gap)}`,
  ];
  return (
    <div class="tip" ref={box} aria-hidden="true">
      <p>
        <Glyph kind={kind} /> <b>{kindLabels[kind]}</b> {entry.title} <span class="muted">#{entry.sequence}</span> {purposeLabel(entry) !== "" && <span class="chip purpose">{purposeLabel(entry)}</span>}
      </p>
      {facts
        .filter((fact) => fact !== "")
        .map((fact) => (
          <p key={fact} class="muted">
            {fact}
          </p>
        ))}
    </div>
  );
}
