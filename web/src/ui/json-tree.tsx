import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { rowsOf, unfolded, type Row } from "../model/json-tree";
import { count } from "../model/format";
import { scrollFor, windowOf } from "../model/window";
import { Text } from "./text";

/** So many rows are unfolded at first. */
const first = 200;
/** Above so many rows only those in view exist, and all have one height. */
const most = 500;
const rowHeight = 20;
const spare = 10;

let trees = 0;

/** JsonTree shows a value of any size, one level at a time. */
export function JsonTree({ value }: { value: unknown }) {
  const [id] = useState(() => `tree-${++trees}`);
  const [open, setOpen] = useState<ReadonlySet<string>>(() => unfolded(value, first));
  const [current, setCurrent] = useState(0);
  const [reading, setReading] = useState<Row | null>(null);
  const rows = useMemo(() => rowsOf(value, open), [value, open]);
  const box = useRef<HTMLDivElement>(null);
  const windowed = rows.length > most;
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = box.current;
    if (!element || !windowed) return;
    const measure = () => setScroll({ top: element.scrollTop, height: element.clientHeight });
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    return () => element.removeEventListener("scroll", measure);
  }, [windowed]);
  const moved = useRef(false);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !moved.current) return;
    moved.current = false;
    if (windowed) element.scrollTop = scrollFor(element.scrollTop, element.clientHeight, rowHeight, current, 0);
    else element.querySelector(`#${id}-${current}`)?.scrollIntoView({ block: "nearest" });
  }, [current]);

  const toggle = (at: number) => {
    const row = rows[at];
    if (!row) return;
    if (row.long !== "") setReading(reading?.path === row.path ? null : row);
    if (row.fold === "none") return;
    const next = new Set(open);
    if (row.fold === "open") next.delete(row.path);
    else next.add(row.path);
    setOpen(next);
    setCurrent(at);
  };
  const go = (to: number) => {
    moved.current = true;
    setCurrent(Math.max(0, Math.min(to, rows.length - 1)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== box.current) return;
    const row = rows[current];
    const page = Math.max(Math.floor(scroll.height / rowHeight) - 1, 1);
    if (event.key === "ArrowDown") go(current + 1);
    else if (event.key === "ArrowUp") go(current - 1);
    else if (event.key === "PageDown" && windowed) go(current + page);
    else if (event.key === "PageUp" && windowed) go(current - page);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(rows.length - 1);
    else if (event.key === "ArrowRight" && row) row.fold === "closed" ? toggle(current) : go(current + 1);
    else if (event.key === "ArrowLeft" && row) row.fold === "open" ? toggle(current) : go(parentOf(rows, current));
    else if (event.key === "Enter" || event.key === " ") toggle(current);
    else return;
    event.preventDefault();
  };

  const shown = windowed ? windowOf(scroll.top, scroll.height, rowHeight, rows.length, spare) : { first: 0, last: rows.length };
  const there = current >= shown.first && current < shown.last;
  return (
    <div class="json">
      <div
        class={windowed ? "json-rows windowed" : "json-rows"}
        ref={box}
        role="tree"
        tabIndex={0}
        aria-label="JSON"
        aria-activedescendant={there ? `${id}-${current}` : undefined}
        onKeyDown={onKeyDown}
      >
        <div role="presentation" style={windowed ? { height: `${rows.length * rowHeight}px` } : {}}>
          {rows.slice(shown.first, shown.last).map((row, i) => (
            <RowView
              key={row.path}
              id={`${id}-${shown.first + i}`}
              row={row}
              top={windowed ? (shown.first + i) * rowHeight : null}
              current={shown.first + i === current}
              onToggle={() => toggle(shown.first + i)}
            />
          ))}
        </div>
      </div>
      {reading !== null && (
        <div class="json-text">
          <p class="json-text-head">
            <code>{reading.key || "text"}</code>
            <button type="button" class="quiet" onClick={() => setReading(null)}>
              Fold
            </button>
          </p>
          <Text text={reading.long} mono />
        </div>
      )}
    </div>
  );
}

interface RowProps {
  id: string;
  row: Row;
  /** Where it stands when only some rows exist. */
  top: number | null;
  current: boolean;
  onToggle: () => void;
}

function RowView({ id, row, top, current, onToggle }: RowProps) {
  const folds = row.fold !== "none" || row.long !== "";
  return (
    <div
      id={id}
      class={`json-row${current ? " current" : ""}${folds ? " folds" : ""}`}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-posinset={row.position}
      aria-setsize={row.siblings}
      aria-expanded={row.fold === "none" ? undefined : row.fold === "open"}
      aria-selected={current}
      style={{ paddingLeft: `${Math.min(row.depth, 40) * 14 + 16}px`, ...(top === null ? {} : { transform: `translateY(${top}px)` }) }}
      onClick={folds ? onToggle : undefined}
    >
      {row.fold !== "none" && (
        <span class="json-mark" aria-hidden="true">
          {row.fold === "open" ? "▾" : "▸"}
        </span>
      )}
      {row.key !== "" && <span class="json-key">{row.key}: </span>}
      <span class={`json-${row.type}`}>{row.text}</span>
      {row.comma && ","}
      {row.note !== "" && <span class="json-note"> {row.long === "" ? row.note : `${count(row.long.length)} characters · show`}</span>}
    </div>
  );
}

function parentOf(rows: readonly Row[], at: number): number {
  const depth = rows[at]?.depth ?? 0;
  const ends = rows[at]?.path.endsWith("/end") ?? false;
  for (let i = at - 1; i >= 0; i--) {
    const row = rows[i];
    if (row && (ends ? row.depth <= depth : row.depth < depth)) return i;
  }
  return 0;
}
