import { useEffect, useRef, useState } from "preact/hooks";
import { getMessages, getSession } from "../api/client";
import type { HistoryMessage, Notice, Session } from "../api/schema";
import { count, date, plural } from "../model/format";
import { follow, link } from "../navigation";
import { nothingSelected } from "../route";
import { useResource } from "../resource";
import { Frame } from "../ui/frame";
import { Shown } from "../ui/image";
import { Content, roleLabel } from "../ui/message";
import { Notices } from "../ui/notices";
import { dayClock } from "../ui/preferences";
import { Loading, Problem, State } from "../ui/problem";
import { Ring } from "../ui/ring";
import { SessionName } from "../ui/session-name";
import { Status } from "../ui/status";

interface Props {
  namespace: string;
  name: string;
  agent: string | null;
  message: number | null;
}

/** Conversation shows the history of a session's agent, the newest messages first to be seen. */
export function Conversation({ namespace, name, agent, message }: Props) {
  const session = useResource(`${namespace}/${name}`, (signal) => getSession(namespace, name, signal));
  const history = useHistory(namespace, name, agent, message);
  const trajectory = { page: "trajectory", namespace, name, selection: { ...nothingSelected, agent } } as const;
  const refresh = () => {
    session.reload();
    history.reload();
  };
  const failed = session.error ?? history.error;
  const page = useRef<HTMLElement>(null);
  const begun = history.messages.length > 0;
  useEffect(() => {
    // A conversation is read from its end, unless the address names a message.
    if (begun && message === null && page.current) page.current.scrollTop = page.current.scrollHeight;
  }, [begun]);
  return (
    <Frame
      title={
        <>
          <SessionName namespace={namespace} name={name} title={session.value?.session.title} />
          <a class="entry" href={link(trajectory)} onClick={follow(trajectory)}>
            Trajectory
          </a>
          {session.value && <Status session={session.value.session} />}
        </>
      }
      actions={
        <>
          {session.value && <Ring budget={session.value.session.contextBudget} />}
          <button type="button" onClick={refresh} disabled={session.busy || history.busy}>
            Refresh
          </button>
        </>
      }
    >
      <main class="page conversation" ref={page}>
        <Facts session={session.value} agent={agent} />
        <Notices notices={merge(session.value?.notices, history.notices)} />
        {failed !== null && <Problem error={failed} subject="session" namespace={namespace} onRetry={refresh} />}
        {history.previous !== undefined && (
          <button type="button" class="more" onClick={history.more} disabled={history.busy}>
            Show earlier messages ({count(history.messages[0]?.index ?? 0)})
          </button>
        )}
        <ol class="messages">
          {history.messages.map((item) => (
            <Item key={item.index} item={item} namespace={namespace} name={name} agent={agent} wanted={item.index === message} />
          ))}
        </ol>
        {history.busy && <Loading what="Reading messages" />}
        {!history.busy && failed === null && history.messages.length === 0 && (
          <State title="This session has no messages yet" icon="clock">
            <p>They appear here after its first run.</p>
          </State>
        )}
      </main>
    </Frame>
  );
}

interface History {
  messages: readonly HistoryMessage[];
  notices: readonly Notice[];
  previous: string | undefined;
  busy: boolean;
  error: unknown;
  more: () => void;
  reload: () => void;
}

/** useHistory reads the newest page, and the pages before it on demand or until the wanted message is there. */
function useHistory(namespace: string, name: string, agent: string | null, wanted: number | null): History {
  const [earlier, setEarlier] = useState<readonly string[]>([]);
  const [older, setOlder] = useState<readonly HistoryMessage[]>([]);
  const cursor = earlier.at(-1);
  const newest = useResource(`${namespace}/${name}/${agent ?? ""}`, (signal) => getMessages(namespace, name, agent, undefined, signal));
  const page = useResource(cursor ?? "", async (signal) =>
    cursor === undefined ? null : getMessages(namespace, name, agent, cursor, signal),
  );
  useEffect(() => {
    if (page.value) setOlder((before) => unique([...(page.value?.messages ?? []), ...before]));
  }, [page.value]);
  const messages = unique([...older, ...(newest.value?.messages ?? [])]);
  const previous = cursor === undefined ? newest.value?.previous : page.value?.previous;
  const more = () => {
    if (previous !== undefined) setEarlier([...earlier, previous]);
  };
  const first = messages[0]?.index;
  useEffect(() => {
    if (wanted !== null && first !== undefined && wanted < first) more();
  }, [wanted, first, previous]);
  return {
    messages,
    notices: newest.value?.notices ?? [],
    previous,
    busy: newest.busy || page.busy,
    error: newest.error ?? page.error,
    more,
    reload: () => {
      newest.reload();
      if (page.error !== null) page.reload();
    },
  };
}

function unique(messages: readonly HistoryMessage[]): HistoryMessage[] {
  return [...new Map(messages.map((message) => [message.index, message])).values()].sort((a, b) => a.index - b.index);
}

function merge(...lists: (readonly Notice[] | undefined)[]): Notice[] {
  const all = lists.flatMap((list) => list ?? []);
  return [...new Map(all.map((notice) => [JSON.stringify(notice), notice])).values()];
}

function Facts({ session, agent }: { session: Session | null; agent: string | null }) {
  const summary = session?.session;
  const facts = [
    agent === null ? "" : `agent ${agent}`,
    summary?.model ? `${summary.model.provider} / ${summary.model.id}` : "",
    summary?.runs === undefined ? "" : plural(summary.runs, "run"),
    summary?.messages === undefined ? "" : plural(summary.messages, "message"),
    session === null ? "" : plural(session.agents.length, "agent"),
  ];
  return <p class="facts muted">{facts.filter((fact) => fact !== "").join(" · ")}</p>;
}

interface ItemProps {
  item: HistoryMessage;
  namespace: string;
  name: string;
  agent: string | null;
  wanted: boolean;
}

function Item({ item, namespace, name, agent, wanted }: ItemProps) {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (wanted) element.current?.scrollIntoView({ block: "start" });
  }, [wanted]);
  const event = { page: "trajectory", namespace, name, selection: { ...nothingSelected, agent, event: item.entryId ?? null } } as const;
  const label = `${roleLabel(item.role)}${item.message?.toolName ? `: ${item.message.toolName}` : ""}`;
  return (
    <li ref={element} class={`message ${item.role}${wanted ? " wanted" : ""}${item.message?.isError ? " failed" : ""}`}>
      <p class="message-head">
        <b>{label}</b>
        <span class="muted">#{item.index}</span>
        {item.recordedAt !== undefined && <span class="muted">{date(item.recordedAt, dayClock()).replace(/\.\d{3}/, "")}</span>}
        {item.message?.isError && <span class="chip bad">Error</span>}
        {item.message?.stopReason && !["stop", "toolUse"].includes(item.message.stopReason) && (
          <span class="chip bad">{item.message.stopReason}</span>
        )}
        {item.entryId !== undefined && (
          <a href={link(event)} onClick={follow(event)}>
            Show in trajectory
          </a>
        )}
      </p>
      {item.message ? (
        <Shown.Provider value={item.entryId === undefined ? null : { namespace, name, id: item.entryId }}>
          <Body item={item} />
        </Shown.Provider>
      ) : (
        <p class="unavailable">{item.unavailable ?? "The message is not there."}</p>
      )}
    </li>
  );
}

function Body({ item }: { item: HistoryMessage }) {
  const message = item.message;
  if (!message) return null;
  const body = <Content message={message} />;
  return (
    <>
      {item.role === "toolResult" ? (
        <details>
          <summary>Result</summary>
          {body}
        </details>
      ) : (
        body
      )}
      {message.errorMessage && <p class="error">{message.errorMessage}</p>}
    </>
  );
}
