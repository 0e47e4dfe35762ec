import type { ReadonlySignal } from "@preact/signals";
import { duration, plural, type Clock } from "../model/format";
import { kindLabels, kinds } from "../model/kind";
import { Glyph, Icon } from "../ui/icons";
import { clock } from "../ui/preferences";
import type { View } from "./scale";

interface Props {
  view: ReadonlySignal<View>;
  extent: View;
  untimed: number;
  onZoom: (factor: number) => void;
  onFit: () => void;
  onUntimed: () => void;
}

const clocks: Readonly<Record<Clock | "elapsed", string>> = { utc: "UTC", local: "Local time", elapsed: "Elapsed" };

/** Toolbar names the marks and holds what the keys of the timeline do, for pointers. */
export function Toolbar({ view, extent, untimed, onZoom, onFit, onUntimed }: Props) {
  return (
    <div class="tl-toolbar">
      <h2>Timeline</h2>
      <Shown view={view} />
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
        <button type="button" class="icon-button" aria-label="Zoom out" title="Zoom out (−)" onClick={() => onZoom(1 / 0.7)}>
          <Icon name="minus" />
        </button>
        <button type="button" class="icon-button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => onZoom(0.7)}>
          <Icon name="plus" />
        </button>
        <Fit view={view} extent={extent} onFit={onFit} />
      </div>
    </div>
  );
}

/** What depends on the view is rendered by itself: a step of the wheel changes no more than that. */
function Shown({ view }: { view: ReadonlySignal<View> }) {
  return (
    <div class="muted tl-shown">
      <span>{duration(view.value.to - view.value.from)} shown</span>
    </div>
  );
}

function Fit({ view, extent, onFit }: { view: ReadonlySignal<View>; extent: View; onFit: () => void }) {
  return (
    <button type="button" class="icon-button" aria-label="Show all" title="Show all (0)" onClick={onFit} disabled={view.value === extent}>
      <Icon name="fit" />
    </button>
  );
}
