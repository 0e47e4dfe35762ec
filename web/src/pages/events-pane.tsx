import { useMemo } from "preact/hooks";
import { EventList } from "../list/event-list";
import { Filters } from "../list/filters";
import { count } from "../model/format";
import { hit, type Rows } from "../model/rows";
import type { Loaded } from "../model/trajectory";
import { replace } from "../navigation";
import type { Route, Selection } from "../route";
import { State } from "../ui/problem";

interface Props {
  /** Its width in pixels; null where it takes all there is. */
  width: number | null;
  loaded: Loaded;
  agent: string;
  rows: Rows;
  selected: number;
  selection: Selection;
  search: { current: HTMLInputElement | null };
  change: (part: Partial<Selection>, how?: (route: Route) => void) => void;
  onAgent: (agent: string) => void;
  onClear: () => void;
  onSelect: (index: number) => void;
  onOpen: () => void;
}

const none: readonly number[] = [];

/** EventsPane lists one agent's events below the filters that choose among them. */
export function EventsPane({ width, loaded, agent, rows, selected, selection, search, change, onAgent, onClear, onSelect, onOpen }: Props) {
  const runs = useMemo(() => [...loaded.runs.values()].filter((run) => run.agent === agent), [loaded, agent]);
  const to = (index: number | null) => {
    if (index !== null) onSelect(index);
  };
  return (
    <section class="pane-events" data-pane id="pane-events" aria-label="Events" style={width === null ? {} : { width: `${width}px` }}>
      <Filters
        agents={loaded.agents}
        agent={agent}
        types={selection.types}
        runs={runs}
        run={selection.run}
        search={selection.search}
        rows={rows}
        selected={selected}
        unknown={loaded.unknown}
        searchBox={search}
        onAgent={onAgent}
        onTypes={(types) => change({ types }, replace)}
        onRun={(run) => change({ run }, replace)}
        onSearch={(text) => change({ search: text }, replace)}
        onHit={(by) => to(hit(rows, selected < 0 ? null : selected, by))}
        onClear={onClear}
      />
      {rows.count > 0 ? (
        <EventList entries={loaded.entries} own={loaded.byAgent.get(agent) ?? none} runs={loaded.runs} rows={rows} selected={selected} onSelect={onSelect} onOpen={onOpen} />
      ) : (
        <Nothing rows={rows} onClear={onClear} />
      )}
    </section>
  );
}

function Nothing({ rows, onClear }: { rows: Rows; onClear: () => void }) {
  if (rows.filtered === 0) {
    return (
      <State title="This agent has no events" icon="clock">
        {rows.lifecycle > 0 && <p>Its lifecycle records are in the export.</p>}
      </State>
    );
  }
  return (
    <State title="No events match" icon="search">
      <p>{count(rows.filtered)} are hidden by filters.</p>
      <button type="button" onClick={onClear}>
        Clear filters
      </button>
    </State>
  );
}
