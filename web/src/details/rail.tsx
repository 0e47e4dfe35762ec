import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { InputMessage } from "../api/schema";
import { estimateMessage } from "../model/estimate";
import { count } from "../model/format";
import { scrollFor, windowOf } from "../model/window";
import { roleLabel } from "../ui/message";

const rowHeight = 26;
const spare = 8;

interface Props {
  messages: readonly InputMessage[];
  /** The message that was gone to last. */
  current: number;
  onGo: (index: number) => void;
}

/** Rail lists the messages of an input by their recorded roles, with about how many tokens each of them takes. */
export function Rail({ messages, current, onGo }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 400 });
  const sizes = useMemo(() => messages.map(estimateMessage), [messages]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setScroll({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (element) element.scrollTop = scrollFor(element.scrollTop, element.clientHeight, rowHeight, current, 0);
  }, [current]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = messages.length - 1;
    const page = Math.max(Math.floor(scroll.height / rowHeight) - 1, 1);
    const to = { ArrowDown: current + 1, ArrowUp: current - 1, PageDown: current + page, PageUp: current - page, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    onGo(Math.max(0, Math.min(to, last)));
  };
  const shown = windowOf(scroll.top, scroll.height, rowHeight, messages.length, spare);
  const there = current >= shown.first && current < shown.last;
  return (
    <div class="rail">
      <p class="rail-head muted">
        Messages{" "}
        <span title="Estimated from the length of each message. What was measured before the request stands in the budget.">estimated tokens</span>
      </p>
      <div
        class="rail-rows"
        ref={box}
        role="listbox"
        tabIndex={0}
        aria-label="Messages of the input"
        aria-activedescendant={there ? `rail-${current}` : undefined}
        onKeyDown={onKeyDown}
      >
        <div role="presentation" style={{ height: `${messages.length * rowHeight}px` }}>
          {messages.slice(shown.first, shown.last).map((item) => {
            const size = sizes[item.index] ?? null;
            return (
              <div
                key={item.index}
                id={`rail-${item.index}`}
                class={`rail-row ${item.role}`}
                role="option"
                aria-selected={item.index === current}
                aria-posinset={item.index + 1}
                aria-setsize={messages.length}
                style={{ transform: `translateY(${item.index * rowHeight}px)` }}
                onClick={() => onGo(item.index)}
              >
                <span class="muted">{item.index + 1}</span>
                <span class="rail-label">{item.message?.toolName || roleLabel(item.role)}</span>
                <span class="muted">{size === null ? "–" : `≈ ${count(size)}`}</span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
