import type { ReadonlySignal } from "@preact/signals";
import { duration, plural, type Clock } from "../model/format";
import { kindLabels, kinds } from "../model/kind";
import { Glyph, Icon } from "../ui/icons";
import { clock } from "../ui/preferences";
import type { View } from "./scale";

interface Props {
  /** The view when it has come to rest. */
  view: ReadonlySignal<View>;
  extent: View;
  /** How long a view is, idle time that is left out included. */
  lengthOf: (view: View) => number;
  untimed: number;
  /** Whether there is anything on the axis. */
  empty: boolean;
  /** Whether idle time is left out; null where there is too little of it. */
  skips: boolean | null;
  onSkip: (skip: boolean) => void;
  onZoom: (factor: number) => void;
  onFit: () => void;
  onUntimed: () => void;
}

const clocks: Readonly<Record<Clock | "elapsed", string>> = { utc: "UTC", local: "Local time", elapsed: "Elapsed" };

/** Toolbar names the marks and holds what the keys of the timeline do, for pointers. */
export function Toolbar({ view, extent, lengthOf, untimed, empty, skips, onSkip, onZoom, onFit, onUntimed }: Props) {
  return (
    <div class="tl-toolbar">
      <h2>Timeline</h2>
      {!empty && <Shown view={view} lengthOf={lengthOf} />}
      {skips !== null && (
        <button type="button" class="toggle" aria-pressed={skips} title="Most of this time nothing happened. Idle time then stands as a hatched break." onClick={() => onSkip(!skips)}>
          Skip idle
        </button>
      )}
      {untimed > 0 && (
        <button type="button" class="chip-button" onClick={onUntimed}>
          {plural(untimed, "record")} without time
        </button>
      )}
      <ul class="legend" aria-label="Marks">
        {kinds
          .filter((kind) => kind !== "unknown")
          .map((kind) => (
            <li key={kind}>
              <Glyph kind={kind} /> {kindLabels[kind]}
            </li>
          ))}
      </ul>
      <label class="visually-hidden" for="clock">
        Times as
      </label>
      <select id="clock" value={clock.value} onChange={(event) => (clock.value = event.currentTarget.value as Clock | "elapsed")}>
        {Object.entries(clocks).map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
      <div class="button-row">
        <button type="button" class="icon-button" aria-label="Zoom out" title="Zoom out (−)" disabled={empty} onClick={() => onZoom(1 / 0.7)}>
          <Icon name="minus" />
        </button>
        <button type="button" class="icon-button" aria-label="Zoom in" title="Zoom in (+)" disabled={empty} onClick={() => onZoom(0.7)}>
          <Icon name="plus" />
        </button>
        <Fit view={view} extent={extent} onFit={onFit} />
      </div>
    </div>
  );
}

/** What depends on the view is rendered by itself. */
function Shown({ view, lengthOf }: { view: ReadonlySignal<View>; lengthOf: (view: View) => number }) {
  return <span class="muted tl-shown">{duration(lengthOf(view.value))} shown</span>;
}

function Fit({ view, extent, onFit }: { view: ReadonlySignal<View>; extent: View; onFit: () => void }) {
  return (
    <button type="button" class="icon-button" aria-label="Show all" title="Show all (0)" onClick={onFit} disabled={view.value === extent}>
      <Icon name="fit" />
    </button>
  );
}
