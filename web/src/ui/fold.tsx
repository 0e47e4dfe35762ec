import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { printing } from "./printing";

interface Props {
  summary: ComponentChildren;
  /** Makes what is inside, once that is looked at. */
  children: () => ComponentChildren;
  open?: boolean;
  class?: string;
}

/** Fold is a part that can be unfolded. What is inside does not exist before; on paper everything is unfolded. */
export function Fold({ summary, children, open = false, class: name }: Props) {
  const [opened, setOpened] = useState(open);
  const unfolded = opened || printing.value;
  return (
    <details class={name} open={unfolded} onToggle={(event) => !printing.peek() && setOpened(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {unfolded && children()}
    </details>
  );
}
