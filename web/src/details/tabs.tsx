import { useRef } from "preact/hooks";
import { tabs, type Tab } from "../route";

const labels: Readonly<Record<Tab, string>> = { content: "Event content", compare: "Compare", state: "Agent state", raw: "Raw JSON" };

interface Props {
  tab: Tab;
  /** Whether the event is a model input: there is nothing to compare in another one. */
  input: boolean;
  onTab: (tab: Tab) => void;
}

/** Tabs choose what of an event is shown. */
export function Tabs({ tab, input, onTab }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const shown = tabs.filter((item) => item !== "compare" || input || item === tab);
  const onKeyDown = (event: KeyboardEvent) => {
    const at = shown.indexOf(tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: shown.length - 1 }[event.key];
    const next = to === undefined ? undefined : shown[(to + shown.length) % shown.length];
    if (next === undefined) return;
    event.preventDefault();
    onTab(next);
    list.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Details" ref={list} onKeyDown={onKeyDown}>
      {shown.map((item) => (
        <button
          key={item}
          type="button"
          role="tab"
          id={`tab-${item}`}
          aria-selected={item === tab}
          aria-controls="detail-panel"
          tabIndex={item === tab ? 0 : -1}
          onClick={() => onTab(item)}
        >
          {labels[item]}
        </button>
      ))}
    </div>
  );
}
