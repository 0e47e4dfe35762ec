import { useState } from "preact/hooks";
import { Icon } from "./icons";

/** Command shows a command that can be copied. It breaks between its words only. */
export function Command({ words }: { words: readonly string[] }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(words.join(" "));
      setCopied(true);
    } catch {
      // Without TLS browsers have no clipboard for pages: a click on the command selects all of it.
    }
  };
  return (
    <div class="command-box">
      <pre class="command">
        {words.map((word, i) => (
          <span key={i}>{i === 0 ? word : ` ${word}`}</span>
        ))}
      </pre>
      <button type="button" class="icon-button" aria-label="Copy the command" title="Copy" onClick={() => void copy()}>
        <Icon name="copy" />
      </button>
      <span class="visually-hidden" role="status">
        {copied ? "Copied" : ""}
      </span>
    </div>
  );
}
