import type { Ref } from "preact";
import type { Agent } from "../api/schema";
import { count, plural } from "../model/format";
import { kindLabels, kinds, type Kind } from "../model/kind";
import type { Rows } from "../model/rows";
import { agentLabel } from "../model/trajectory";
import { Glyph } from "../ui/icons";

interface Props {
  agents: readonly Agent[];
  agent: string;
  types: readonly Kind[] | null;
  search: string;
  rows: Rows;
  /** Whether there are events of an unknown kind at all. */
  unknown: boolean;
  searchBox: Ref<HTMLInputElement>;
  onAgent: (agent: string) => void;
  onTypes: (types: readonly Kind[] | null) => void;
  onSearch: (search: string) => void;
  onClear: () => void;
}

/** Filters choose what is listed: one agent, then types of events, then words. They reach neither timeline nor export. */
export function Filters({ agents, agent, types, search, rows, unknown, searchBox, onAgent, onTypes, onSearch, onClear }: Props) {
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
          onInput={(event) => onSearch(event.currentTarget.value)}
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
        <span>{note(rows)}</span>
        {rows.filtered > 0 && (
          <button type="button" class="quiet" onClick={onClear}>
            Clear filters
          </button>
        )}
      </p>
    </div>
  );
}

function note(rows: Rows): string {
  const shown = rows.events.length;
  const list = rows.filtered > 0 ? `Showing ${count(shown)} of ${plural(shown + rows.filtered, "event")}` : plural(shown, "event");
  return rows.lifecycle === 0 ? list : `${list} · ${plural(rows.lifecycle, "lifecycle record")} in the export`;
}
