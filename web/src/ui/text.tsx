import { useState } from "preact/hooks";
import { print } from "../api/json";
import { count } from "../model/format";

/** How many characters of one text are put on the page at a time. */
const portion = 100_000;

interface Props {
  text: string;
  /** Set in the fonts of code. */
  mono?: boolean;
}

/** Text shows a text as it was recorded: as characters, whatever they spell. A long one is shown in portions. */
export function Text({ text, mono = false }: Props) {
  const [shown, setShown] = useState(portion);
  const left = text.length - shown;
  return (
    <div class={mono ? "text mono" : "text"}>
      {left > 0 ? text.slice(0, shown) : text}
      {left > 0 && (
        <p>
          <button type="button" onClick={() => setShown(shown + portion)}>
            Show the next {count(Math.min(portion, left))} of {count(left)} characters
          </button>
        </p>
      )}
    </div>
  );
}

/** Json shows a value of any structure. */
export function Json({ value }: { value: unknown }) {
  return <Text text={print(value)} mono />;
}
