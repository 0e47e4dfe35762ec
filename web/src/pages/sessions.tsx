import { useEffect, useState } from "preact/hooks";
import { listSessions } from "../api/client";
import type { SessionSummary } from "../api/schema";
import { count, date, notRecorded } from "../model/format";
import { usedPercent } from "../model/origin";
import { follow, go, link } from "../navigation";
import { useResource } from "../resource";
import { Frame } from "../ui/frame";
import { dayClock } from "../ui/preferences";
import { Loading, Problem, State } from "../ui/problem";
import { Status } from "../ui/status";

/** Sessions lists the sessions that the caller may list, of one namespace or of all. It is made anew for each namespace. */
export function Sessions({ namespace }: { namespace: string }) {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const [pages, setPages] = useState<ReadonlyMap<string, readonly SessionSummary[]>>(new Map());
  const cursor = cursors.at(-1);
  const { value, error, busy, reload } = useResource(`${namespace}\n${cursor ?? ""}`, (signal) => listSessions(namespace, cursor, signal));
  useEffect(() => {
    if (value) setPages((before) => new Map(before).set(cursor ?? "", value.items));
  }, [value]);

  const items = [...pages.values()].flat();
  return (
    <Frame
      title={<h1>Sessions</h1>}
      actions={
        <>
          <NamespaceForm namespace={namespace} />
          <button type="button" onClick={reload} disabled={busy}>
            Refresh
          </button>
        </>
      }
    >
      <main class="page">
        {error !== null && <Problem error={error} subject="session" namespace={namespace} onRetry={reload} />}
        {items.length > 0 && <Table items={items} />}
        {busy && <Loading what="Reading sessions" />}
        {!busy && error === null && value !== null && items.length === 0 && <Empty namespace={namespace} />}
        {value?.next !== undefined && !busy && (
          <button type="button" class="more" onClick={() => setCursors([...cursors, value.next ?? ""])}>
            Show more sessions
          </button>
        )}
      </main>
    </Frame>
  );
}

function NamespaceForm({ namespace }: { namespace: string }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    go({ page: "sessions", namespace: String(form.get("namespace") ?? "").trim() });
  };
  return (
    <form class="inline" role="search" onSubmit={submit}>
      <label for="namespace">Namespace</label>
      <input id="namespace" name="namespace" key={namespace} defaultValue={namespace} placeholder="all" spellcheck={false} autocomplete="off" />
      <button type="submit">Show</button>
    </form>
  );
}

function Empty({ namespace }: { namespace: string }) {
  return (
    <State title={namespace === "" ? "There are no sessions" : `There are no sessions in namespace ${namespace}`} icon="clock">
      <p>A session appears here when its AgentSession was applied.</p>
    </State>
  );
}

function Table({ items }: { items: readonly SessionSummary[] }) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Sessions">
      <table class="sessions">
        <thead>
          <tr>
            <th scope="col">Session</th>
            <th scope="col">Model</th>
            <th scope="col" class="number">
              Runs
            </th>
            <th scope="col" class="number">
              Messages
            </th>
            <th scope="col">Context</th>
            <th scope="col">Status</th>
            <th scope="col">Last activity</th>
          </tr>
        </thead>
        <tbody>
          {items.map((session) => (
            <Row key={session.id} session={session} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ session }: { session: SessionSummary }) {
  const name = session.name || session.uid;
  const route = { page: "conversation", namespace: session.namespace, name, agent: null, message: null } as const;
  return (
    <tr>
      <th scope="row">
        <a href={link(route)} onClick={follow(route)}>
          {session.title || name}
        </a>
        <small>
          {session.namespace} / {name}
        </small>
      </th>
      <td>
        {session.model ? (
          <>
            {session.model.id}
            <small>{session.model.provider}</small>
          </>
        ) : (
          <span class="muted">{notRecorded}</span>
        )}
      </td>
      <td class="number">{session.runs === undefined ? "–" : count(session.runs)}</td>
      <td class="number">{session.messages === undefined ? "–" : count(session.messages)}</td>
      <td>
        <ContextBar session={session} />
      </td>
      <td>
        <Status session={session} />
      </td>
      <td>{session.lastActivityAt === undefined ? <span class="muted">none</span> : date(session.lastActivityAt, dayClock()).replace(/\.\d{3}/, "")}</td>
    </tr>
  );
}

function ContextBar({ session }: { session: SessionSummary }) {
  const percent = usedPercent(session.contextBudget);
  if (percent === null) return <span class="muted">not measured</span>;
  return (
    <span class={`bar-cell${session.contextBudget?.fits === false ? " over" : ""}`}>
      <span class="bar" aria-hidden="true">
        <span style={{ width: `${Math.min(percent, 100)}%` }} />
      </span>
      {percent} %
    </span>
  );
}
