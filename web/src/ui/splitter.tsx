import { useRef } from "preact/hooks";
import { clamp } from "../timeline/scale";

interface Props {
  /** "horizontal" divides above from below, "vertical" left from right. */
  orientation: "horizontal" | "vertical";
  label: string;
  /** The id of the pane whose size it sets. */
  controls: string;
  value: number;
  min: number;
  max: number;
  onChange: (value: number) => void;
}

const small = 16;
const large = 80;

/** Splitter sets a pane's size in pixels, by pointer or with arrow keys, Home, End and Enter. */
export function Splitter({ orientation, label, controls, value, min, max, onChange }: Props) {
  const drag = useRef<{ at: number; value: number } | null>(null);
  const before = useRef(value);
  const along = (event: PointerEvent) => (orientation === "horizontal" ? event.clientY : event.clientX);
  const set = (next: number) => onChange(Math.round(clamp(next, min, Math.max(max, min))));

  const onKeyDown = (event: KeyboardEvent) => {
    const less = orientation === "horizontal" ? "ArrowUp" : "ArrowLeft";
    const more = orientation === "horizontal" ? "ArrowDown" : "ArrowRight";
    const step = event.shiftKey ? large : small;
    switch (event.key) {
      case less:
        set(value - step);
        break;
      case more:
        set(value + step);
        break;
      case "Home":
        set(min);
        break;
      case "End":
        set(max);
        break;
      case "Enter":
        if (value > min) before.current = value;
        set(value > min ? min : before.current);
        break;
      default:
        return;
    }
    event.preventDefault();
  };

  return (
    <div
      class={`splitter ${orientation}`}
      role="separator"
      tabIndex={0}
      aria-orientation={orientation}
      aria-label={label}
      aria-controls={controls}
      aria-valuenow={Math.round(clamp(value, min, Math.max(max, min)))}
      aria-valuemin={min}
      aria-valuemax={Math.max(max, min)}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = { at: along(event), value };
      }}
      onPointerMove={(event) => {
        if (drag.current) set(drag.current.value + along(event) - drag.current.at);
      }}
      onPointerUp={() => (drag.current = null)}
      onPointerCancel={() => (drag.current = null)}
    />
  );
}
