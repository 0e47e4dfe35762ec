import { useMemo, useState } from "preact/hooks";
import { save } from "../api/export";
import { count, plainText } from "../model/format";
import { pieces, portionEnd } from "../model/pieces";
import { printing } from "./printing";

/** How many characters of one text are put on the page at a time. */
const portion = 250_000;

interface Props {
  text: string;
  /** Set in the fonts of code. */
  mono?: boolean;
  /** Without the escape sequences of terminals. */
  plain?: boolean;
}

/** Text shows a text as it was recorded: as characters, whatever they spell. A long one is shown in portions. */
export function Text({ text, mono = false, plain = false }: Props) {
  const [wanted, setWanted] = useState(portion);
  const end = printing.value ? text.length : portionEnd(text, wanted);
  const shown = useMemo(() => {
    const part = end === text.length ? text : text.slice(0, end);
    return pieces(plain ? plainText(part) : part);
  }, [text, end, plain]);
  const left = text.length - end;
  return (
    <div class={`text${mono ? " mono" : ""}`}>
      <Pieces pieces={shown} />
      {left > 0 && (
        <p class="text-more">
          <button type="button" onClick={() => setWanted(end + portion)}>
            Show the next {count(Math.min(portion, left))} of {count(left)} characters
          </button>
          <button type="button" onClick={() => save(new Blob([text], { type: "text/plain" }), "text.txt")}>
            Download
          </button>
        </p>
      )}
    </div>
  );
}

/** Pieces are the parts of a text, of which a browser lays out those in view only. */
export function Pieces({ pieces: all }: { pieces: readonly string[] }) {
  if (all.length < 2) return <>{all[0] ?? ""}</>;
  return (
    <>
      {all.map((piece, i) => (
        <div key={i} class="piece">
          {piece}
        </div>
      ))}
    </>
  );
}
