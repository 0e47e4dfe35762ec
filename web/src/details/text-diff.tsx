import { diffText, type DiffLine } from "../model/text-diff";

const signs = { same: " ", added: "+", removed: "−" } as const;
const words = { same: "", added: "added: ", removed: "removed: " } as const;

/** TextDiff shows what changed within one text. Texts that differ in too much stand one after the other. */
export function TextDiff({ before, after }: { before: string; after: string }) {
  const lines = diffText(before, after) ?? whole(before, after);
  return (
    <div class="diff text mono">
      {lines.map((line, i) =>
        line.kind === "fold" ? (
          <p key={i} class="diff-fold muted">
            {line.lines} equal {line.lines === 1 ? "line" : "lines"}
          </p>
        ) : (
          <p key={i} class={`diff-line ${line.kind}`}>
            <span aria-hidden="true">{signs[line.kind]}</span>
            <span>
              {line.kind !== "same" && <span class="visually-hidden">{words[line.kind]}</span>}
              {line.parts.map((part, at) => (part.changed ? <b key={at}>{part.text}</b> : part.text))}
            </span>
          </p>
        ),
      )}
    </div>
  );
}

/** The most of a text that is put on the page where no comparison could be made. */
const most = 100_000;

function whole(before: string, after: string): DiffLine[] {
  const line = (kind: "removed" | "added", text: string): DiffLine => ({
    kind,
    parts: [{ text: text.length > most ? `${text.slice(0, most)}… and ${text.length - most} characters more, which the Raw JSON of the input has` : text, changed: false }],
  });
  return [line("removed", before), line("added", after)];
}
