import { print } from "../api/json";
import type { Entry, InputMessage, InputTool, Message, ModelInput, SystemPrompt, SystemSection } from "../api/schema";

// What changed between two fixed inputs. Messages are the same when their bytes are (their digests), and belong together when
// the records say so: by source and by call ID. Likeness of texts plays no part.

/** One step of a list of messages, in the order of the newer input; what was removed stands where it was. */
export type Step =
  | { readonly kind: "kept"; readonly messages: readonly InputMessage[] }
  | { readonly kind: "added"; readonly message: InputMessage; /** Behind all that was kept. */ readonly appended: boolean }
  | { readonly kind: "removed"; readonly message: InputMessage }
  | { readonly kind: "changed"; readonly before: InputMessage; readonly after: InputMessage; readonly why: Why }
  | { readonly kind: "summarised"; readonly summary: InputMessage; readonly messages: readonly InputMessage[] };

/** What makes two messages with different bytes the same one. */
export type Why = "history" | "runtime-context" | "compaction" | "repaired";

export interface SectionStep {
  readonly kind: "kept" | "added" | "removed" | "changed";
  readonly id: string;
  readonly before: string;
  readonly after: string;
}

export interface SystemChange {
  readonly kind: "kept" | "added" | "removed" | "changed" | "none";
  readonly before: string;
  readonly after: string;
  /** By section, where the sources of both prompts were verified. */
  readonly sections: readonly SectionStep[] | null;
}

export interface ToolChange {
  readonly kind: "added" | "removed" | "changed";
  readonly name: string;
  readonly before: InputTool | null;
  readonly after: InputTool | null;
}

export interface Comparison {
  /** Both inputs have the same bytes. */
  readonly same: boolean;
  readonly steps: readonly Step[];
  readonly counts: Readonly<Record<"kept" | "appended" | "inserted" | "removed" | "changed" | "summarised", number>>;
  readonly system: SystemChange;
  readonly tools: { readonly kept: number; readonly changes: readonly ToolChange[]; readonly reordered: boolean };
  /** The model and the parameters of the request that are not the same. */
  readonly facts: readonly { readonly name: string; readonly before: string; readonly after: string }[];
}

/** previousInput is the input of the same agent and purpose before one: by time of capture, else by number; null when it is the first. */
export function previousInput(entries: readonly Entry[], of: Entry): Entry | null {
  let found: Entry | null = null;
  for (const entry of entries) {
    if (entry.type !== "modelInput" || entry.agent !== of.agent || (entry.purpose ?? "main") !== (of.purpose ?? "main")) continue;
    if (precedes(entry, of) && (found === null || precedes(found, entry))) found = entry;
  }
  return found;
}

function precedes(a: Entry, b: Entry): boolean {
  if (a.id === b.id) return false;
  if (a.capturedAt !== undefined && b.capturedAt !== undefined && a.capturedAt !== b.capturedAt) return a.capturedAt < b.capturedAt;
  return a.sequence < b.sequence;
}

/** compare says what the newer of two inputs has that the older had not, and what became of the rest. */
export function compare(before: ModelInput, after: ModelInput): Comparison {
  const steps = compareMessages(before.messages, after.messages);
  const tally = { kept: 0, appended: 0, inserted: 0, removed: 0, changed: 0, summarised: 0 };
  for (const step of steps) {
    if (step.kind === "kept" || step.kind === "summarised") tally[step.kind] += step.messages.length;
    else if (step.kind === "added") tally[step.appended ? "appended" : "inserted"]++;
    else tally[step.kind]++;
  }
  return {
    same: before.inputDigest === after.inputDigest,
    steps,
    counts: tally,
    system: compareSystem(before.system, after.system),
    tools: compareTools(before.tools, after.tools),
    facts: compareFacts(before, after),
  };
}

/** compareMessages lists what happened to the messages. It takes time in proportion to their number. */
export function compareMessages(before: readonly InputMessage[], after: readonly InputMessage[]): Step[] {
  const kept = anchors(before, after);
  const lost = new Set(before.keys());
  const come = new Set(after.keys());
  for (const [b, a] of kept) {
    lost.delete(b);
    come.delete(a);
  }
  const changed = pairs(before, after, lost, come);
  const summaries = summarised(before, after, lost, come);
  const lastKept = kept.at(-1)?.[1] ?? -1;
  const steps: Step[] = [];
  let b = 0;
  let a = 0;
  const gap = (toB: number, toA: number) => {
    for (; b < toB; b++) {
      const message = before[b];
      if (message && lost.has(b)) steps.push({ kind: "removed", message });
    }
    for (; a < toA; a++) {
      const message = after[a];
      if (!message) continue;
      const pair = changed.get(a);
      const covered = summaries.get(a);
      if (pair) steps.push({ kind: "changed", before: pair.before, after: message, why: pair.why });
      else if (covered) steps.push({ kind: "summarised", summary: message, messages: covered });
      else steps.push({ kind: "added", message, appended: a > lastKept });
    }
  };
  for (const [keptB, keptA] of kept) {
    gap(keptB, keptA);
    const last = steps.at(-1);
    const message = after[keptA];
    if (message && last?.kind === "kept") (last.messages as InputMessage[]).push(message);
    else if (message) steps.push({ kind: "kept", messages: [message] });
    b = keptB + 1;
    a = keptA + 1;
  }
  gap(before.length, after.length);
  return steps;
}

/** anchors are the pairs of equal messages that stand in the same order in both: all of the common beginning, then as many as can be. */
function anchors(before: readonly InputMessage[], after: readonly InputMessage[]): [number, number][] {
  const out: [number, number][] = [];
  let at = 0;
  while (at < before.length && at < after.length && equal(before[at], after[at])) {
    out.push([at, at]);
    at++;
  }
  // Equal messages are matched first with first, second with second.
  const places = new Map<string, number[]>();
  for (let b = before.length - 1; b >= at; b--) {
    const digest = before[b]?.digest;
    if (digest === undefined) continue;
    const list = places.get(digest);
    if (list) list.push(b);
    else places.set(digest, [b]);
  }
  const matches: [number, number][] = [];
  for (let a = at; a < after.length; a++) {
    const b = places.get(after[a]?.digest ?? "")?.pop();
    if (b !== undefined) matches.push([b, a]);
  }
  return out.concat(ascending(matches));
}

function equal(a: InputMessage | undefined, b: InputMessage | undefined): boolean {
  return a?.digest !== undefined && a.digest === b?.digest;
}

/** ascending is a longest part of the pairs whose first numbers rise; the second ones do so already. */
function ascending(pairs: readonly [number, number][]): [number, number][] {
  const tails: number[] = []; // index into pairs of the least end of a rising run, by its length less one
  const link: number[] = [];
  pairs.forEach(([b], i) => {
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((pairs[tails[middle] ?? 0]?.[0] ?? 0) < b) low = middle + 1;
      else high = middle;
    }
    link[i] = low > 0 ? (tails[low - 1] ?? -1) : -1;
    tails[low] = i;
  });
  const out: [number, number][] = [];
  for (let i = tails.at(-1) ?? -1; i >= 0; i = link[i] ?? -1) out.push(pairs[i] as [number, number]);
  return out.reverse();
}

/** identities are the records by which a message is known whatever its bytes are. */
function identities(message: InputMessage): [string, Why][] {
  const source = message.source;
  const out: [string, Why][] = [];
  if (source?.type === "history") out.push([`history ${source.messageIndex}`, "history"]);
  if (source?.type === "runtime-context") out.push([`snapshot ${source.snapshotIndex ?? ""} ${source.messageIndex}`, "runtime-context"]);
  if (source?.type === "compaction" && source.checkpointId !== undefined) out.push([`checkpoint ${source.checkpointId}`, "compaction"]);
  const call = source?.type === "tool-repair" ? source.toolCallId : message.message?.toolCallId;
  if (call !== undefined && call !== "") out.push([`call ${call}`, "repaired"]);
  return out;
}

/** pairs finds what was removed and added under one identity, and takes it out of both sets. */
function pairs(before: readonly InputMessage[], after: readonly InputMessage[], lost: Set<number>, come: Set<number>) {
  const known = new Map<string, number>();
  for (const b of lost) {
    const message = before[b];
    for (const [key] of message ? identities(message) : []) if (!known.has(key)) known.set(key, b);
  }
  const out = new Map<number, { before: InputMessage; why: Why }>();
  for (const a of come) {
    const message = after[a];
    const found = (message ? identities(message) : []).find(([key]) => lost.has(known.get(key) ?? -1));
    const b = found && known.get(found[0]);
    const earlier = b === undefined ? undefined : before[b];
    // The same bytes in another place are no change of the message.
    if (!found || b === undefined || !earlier || earlier.digest === message?.digest) continue;
    out.set(a, { before: earlier, why: found[1] });
    lost.delete(b);
    come.delete(a);
  }
  return out;
}

/** summarised gives each new summary the removed messages that it stands for, and takes them out of the set. */
function summarised(before: readonly InputMessage[], after: readonly InputMessage[], lost: Set<number>, come: ReadonlySet<number>) {
  const out = new Map<number, InputMessage[]>();
  for (const a of come) {
    const source = after[a]?.source;
    if (source?.type !== "compaction") continue;
    const limit = source.summarizedBefore ?? source.messageIndex;
    const covered: InputMessage[] = [];
    for (const b of lost) {
      const message = before[b];
      const position = message?.source;
      if (!message || !position) continue;
      const inside = position.type === "compaction" ? (position.summarizedBefore ?? position.messageIndex) <= limit : position.messageIndex < limit;
      if (!inside) continue;
      covered.push(message);
      lost.delete(b);
    }
    out.set(a, covered);
  }
  return out;
}

function compareSystem(before: SystemPrompt | undefined, after: SystemPrompt | undefined): SystemChange {
  const texts = { before: before?.text ?? "", after: after?.text ?? "" };
  if (!before && !after) return { kind: "none", ...texts, sections: null };
  if (!before) return { kind: "added", ...texts, sections: null };
  if (!after) return { kind: "removed", ...texts, sections: null };
  const traced = before.provenance === "verified" && after.provenance === "verified" && before.sections.length > 0 && after.sections.length > 0;
  return { kind: before.text === after.text ? "kept" : "changed", ...texts, sections: traced ? compareSections(before.sections, after.sections) : null };
}

function compareSections(before: readonly SystemSection[], after: readonly SystemSection[]): SectionStep[] {
  const steps: SectionStep[] = [];
  const rest = new Map(before.map((section) => [section.id, section]));
  for (const section of after) {
    const earlier = rest.get(section.id);
    rest.delete(section.id);
    if (!earlier) steps.push({ kind: "added", id: section.id, before: "", after: section.text });
    else steps.push({ kind: earlier.digest === section.digest ? "kept" : "changed", id: section.id, before: earlier.text, after: section.text });
  }
  for (const section of rest.values()) steps.push({ kind: "removed", id: section.id, before: section.text, after: "" });
  return steps;
}

function compareTools(before: readonly InputTool[], after: readonly InputTool[]): Comparison["tools"] {
  const rest = new Map(before.map((tool) => [tool.name, tool]));
  const changes: ToolChange[] = [];
  const common: string[] = [];
  let kept = 0;
  for (const tool of after) {
    const earlier = rest.get(tool.name);
    rest.delete(tool.name);
    if (!earlier) {
      changes.push({ kind: "added", name: tool.name, before: null, after: tool });
      continue;
    }
    common.push(tool.name);
    if (toolText(earlier) === toolText(tool)) kept++;
    else changes.push({ kind: "changed", name: tool.name, before: earlier, after: tool });
  }
  for (const tool of rest.values()) changes.push({ kind: "removed", name: tool.name, before: tool, after: null });
  const there = new Set(common);
  const order = before.map((tool) => tool.name).filter((name) => there.has(name));
  return { kept, changes, reordered: order.some((name, i) => name !== common[i]) };
}

/** toolText is a tool's declaration as one text. */
export function toolText(tool: InputTool | null): string {
  return tool === null ? "" : `${tool.description}\n\n${print(tool.parameters)}`;
}

function compareFacts(before: ModelInput, after: ModelInput): Comparison["facts"] {
  const facts = (input: ModelInput): Record<string, string> => ({
    model: `${input.model.provider} / ${input.model.id}`,
    ...Object.fromEntries(Object.entries(input.parameters).map(([name, value]) => [name, typeof value === "object" ? print(value) : String(value)])),
  });
  const [old, now] = [facts(before), facts(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  return names.filter((name) => old[name] !== now[name]).map((name) => ({ name, before: old[name] ?? "", after: now[name] ?? "" }));
}

/** messageText is what a message says as one text, to be compared with another one's. */
export function messageText(message: Message | undefined): string {
  const content = message?.content;
  if (content === undefined) return message === undefined ? "" : print(message);
  if (typeof content === "string") return content;
  return content
    .map((block) => {
      if (block.type === "text" && block.text !== undefined) return block.text;
      if (block.type === "thinking" && block.thinking !== undefined) return block.thinking;
      return print(block);
    })
    .join("\n\n");
}
