import { mostCharacters } from "../model/limits";
import { Lazy, useLazy } from "./lazy";
import { rendered } from "./preferences";
import { Text } from "./text";

const markdown = new Lazy(() => import("./markdown").then((part) => part.Markdown));

/** Prose is a text that somebody wrote: as it was recorded, or rendered where the reader chose that. */
export function Prose({ text }: { text: string }) {
  if (!rendered.value || text.trim() === "") return <Text text={text} />;
  return <Rendered text={text} />;
}

function Rendered({ text }: { text: string }) {
  const part = useLazy(markdown);
  const Markdown = part.value;
  if (text.length > mostCharacters) return <Unrendered text={text} why="This text is too long to be rendered." />;
  if (part.failed) return <Unrendered text={text} why="What renders this text could not be fetched." />;
  return Markdown ? <Markdown text={text} /> : <Text text={text} />;
}

/** Unrendered shows a text as it was recorded, and why. */
export function Unrendered({ text, why }: { text: string; why: string }) {
  return (
    <>
      <p class="muted small">{why} It is shown as it was recorded.</p>
      <Text text={text} />
    </>
  );
}

/** RenderedToggle chooses between recorded and rendered texts, everywhere and for the next time. */
export function RenderedToggle() {
  return (
    <label class="check">
      <input type="checkbox" checked={rendered.value} onChange={(event) => (rendered.value = event.currentTarget.checked)} /> Rendered
    </label>
  );
}
