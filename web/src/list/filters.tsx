import type { Ref } from "preact";
import type { Agent, Run } from "../api/schema";
import { count, plural } from "../model/format";
import { kindLabels, kinds, type Kind } from "../model/kind";
import type { Rows } from "../model/rows";
import { agentLabel } from "../model/trajectory";
import { Glyph } from "../ui/icons";

interface Props {
  agents: readonly Agent[];
  agent: string;
  types: readonly Kind[] | null;
  /** The runs of the agent, and the name or UID of the chosen one. */
  runs: readonly Run[];
  run: string | null;
  search: string;
  rows: Rows;
  /** The selected event's index, or -1. */
  selected: number;
  /** Whether there are events of an unknown kind at all. */
  unknown: boolean;
  searchBox: Ref<HTMLInputElement>;
  onAgent: (agent: string) => void;
  onTypes: (types: readonly Kind[] | null) => void;
  onRun: (run: string | null) => void;
  onSearch: (search: string) => void;
  /** To the next or previous event that was found. */
  onHit: (by: 1 | -1) => void;
  onClear: () => void;
}

/** Filters choose what is listed: one agent, then types of events, then words. They reach neither timeline nor export. */
export function Filters({ agents, agent, types, runs, run, search, rows, selected, unknown, searchBox, onAgent, onTypes, onRun, onSearch, onHit, onClear }: Props) {
  const toggle = (kind: Kind) => {
    // From "all", choosing one type means only that one.
    const next = types === null ? [kind] : kinds.filter((k) => (k === kind ? !types.includes(k) : types.includes(k)));
    onTypes(next.length === 0 || next.length === kinds.length ? null : next);
  };
  return (
    <div class="filters">
      <div class="filter-row">
        <label class="visually-hidden" for="agent">
          Agent
        </label>
        <select id="agent" value={agent} onChange={(event) => onAgent(event.currentTarget.value)}>
          {agents.map((item) => (
            <option key={item.id} value={item.id}>
              {agentLabel(item)}
            </option>
          ))}
        </select>
        {(runs.length > 1 || run !== null) && (
          <>
            <label class="visually-hidden" for="run">
              Run
            </label>
            <select id="run" value={run ?? ""} onChange={(event) => onRun(event.currentTarget.value || null)}>
              <option value="">All runs</option>
              {runNames(runs, run).map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          </>
        )}
        <label class="visually-hidden" for="search">
          Find in the list
        </label>
        <input
          id="search"
          ref={searchBox}
          type="search"
          placeholder="Find tool, model, status, #…"
          spellcheck={false}
          value={search}
          aria-describedby="filter-note"
          onInput={(event) => onSearch(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.isComposing) return;
            event.preventDefault();
            onHit(event.shiftKey ? -1 : 1);
          }}
        />
      </div>
      <div class="filter-row" role="group" aria-label="Types of events">
        {kinds
          .filter((kind) => kind !== "unknown" || unknown)
          .map((kind) => (
            <button key={kind} type="button" class="toggle" aria-pressed={types?.includes(kind) ?? false} onClick={() => toggle(kind)}>
              <Glyph kind={kind} />
              {kindLabels[kind]}
            </button>
          ))}
      </div>
      <p class="filter-note muted">
        <span id="filter-note">{note(rows, search, selected)}</span>
        {(types !== null || run !== null || search !== "") && (
          <button type="button" class="quiet" onClick={onClear}>
            Clear filters
          </button>
        )}
      </p>
    </div>
  );
}

/** note says how much is listed and what is left out, and which of the found events is selected. */
function note(rows: Rows, search: string, selected: number): string {
  const shown = rows.events.length;
  const list = rows.filtered > 0 ? `Showing ${count(shown)} of ${plural(shown + rows.filtered, "event")}` : plural(shown, "event");
  const place = search === "" ? undefined : rows.placeOf(selected);
  const at = place === undefined ? "" : ` · ${count(place + 1)} of ${count(shown)} found`;
  return rows.lifecycle === 0 ? list + at : `${list}${at} · ${plural(rows.lifecycle, "lifecycle record")} in the export`;
}

/** runNames are the values and labels of runs: names where they tell runs apart, else UIDs. A chosen run that there is not stays chosen. */
function runNames(runs: readonly Run[], chosen: string | null): [string, string][] {
  const names = new Map<string, number>();
  for (const run of runs) names.set(run.name ?? "", (names.get(run.name ?? "") ?? 0) + 1);
  const out = runs.map((run): [string, string] => {
    const unique = run.name !== undefined && run.name !== "" && names.get(run.name) === 1;
    const value = unique && run.uid !== chosen ? (run.name ?? "") : run.uid;
    return [value, run.name || run.uid];
  });
  if (chosen !== null && !out.some(([value]) => value === chosen)) out.push([chosen, chosen]);
  return out;
}
