import { print } from "../api/json";
import { smaller } from "../model/json-tree";
import { Lazy, useLazy } from "./lazy";
import { printing } from "./printing";
import { Text } from "./text";

const tree = new Lazy(() => import("./json-tree").then((part) => part.JsonTree));

/** A value of so many characters is read at a glance: it stands there as text. */
const short = 3_000;
/** On paper a value stands as text, up to so many characters. */
const paper = 1_000_000;

/** Json shows a value of any structure. */
export function Json({ value }: { value: unknown }) {
  if (smaller(value, short)) return <Text text={print(value)} mono />;
  if (!printing.value) return <Large value={value} />;
  if (smaller(value, paper)) return <Text text={print(value)} mono />;
  return <p class="muted">This value is too long for paper. The Raw JSON of the event can be downloaded.</p>;
}

function Large({ value }: { value: unknown }) {
  const part = useLazy(tree);
  const Tree = part.value;
  if (Tree) return <Tree value={value} />;
  return <p class="muted">{part.failed ? "What shows this value could not be fetched. The Raw JSON of the event has it." : "Reading…"}</p>;
}
