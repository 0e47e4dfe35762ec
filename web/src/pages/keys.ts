import { useLayoutEffect, useRef } from "preact/hooks";
import { shortcuts } from "../ui/preferences";

/** What a key does: by its name, with "Shift+" in front where it is held; "g s" is g, then s. */
export type Keys = Readonly<Record<string, () => void>>;

/** How long the first of two keys is remembered, in milliseconds. */
const chord = 1_000;

/** useKeys runs commands for keys that no field or control wants for itself. Escape, F6 and keys with Shift always count. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  // What is seen has its keys: they are not lost when one is pressed at once.
  useLayoutEffect(() => {
    let first = { key: "", at: -Infinity };
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      // A page that waits behind the question for a token, or behind a dialog, has no keys.
      if (document.querySelector("dialog[open], .sign-in") !== null) return;
      const name = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
      const single = event.key.length === 1;
      if (single && (!shortcuts.value || takesText(event.target))) return;
      const pair = `${first.key} ${name}`;
      const second = event.timeStamp - first.at < chord ? latest.current[pair] : undefined;
      first = { key: name, at: event.timeStamp };
      const run = second ?? latest.current[name];
      if (!run) return;
      event.preventDefault();
      run();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}

function takesText(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
