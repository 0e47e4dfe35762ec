import type { SessionSummary } from "../api/schema";
import { count, time } from "../model/format";
import { follow, link } from "../navigation";
import type { Reader } from "../trajectory-reader";
import { Icon } from "../ui/icons";
import { dayClock } from "../ui/preferences";
import { Status } from "../ui/status";

/** Title names the session; the entry beside it leads back to the conversation. */
export function Title({ namespace, name, session }: { namespace: string; name: string; session: SessionSummary | undefined }) {
  const conversation = { page: "conversation", namespace, name, agent: null, message: null } as const;
  return (
    <>
      <h1 title={`${namespace} / ${name}`}>{session?.title || name}</h1>
      <a class="entry" href={link(conversation)} onClick={follow(conversation)}>
        Conversation
      </a>
      {session && <Status session={session} />}
      <span class="chip">Read-only</span>
    </>
  );
}

interface ActionsProps {
  reader: Reader;
  onRefresh: () => void;
  onExport: () => void;
  onHelp: () => void;
  onClose: () => void;
}

/** Actions says what was read and when, and holds what can be done with the page as a whole. */
export function Actions({ reader, onRefresh, onExport, onHelp, onClose }: ActionsProps) {
  const loaded = reader.loaded.value;
  const readAt = reader.readAt.value;
  const all = loaded !== null && !loaded.partial;
  return (
    <>
      {loaded !== null && readAt !== null && (
        <span class="muted read-at">
          {reader.news.value !== "" && `${reader.news.value} `}
          {all
            ? `Read ${time(readAt, dayClock()).slice(0, 8)} · ${count(loaded.entries.length)} of ${count(loaded.counts.entries)} records`
            : `Loaded ${count(loaded.entries.length)} of ${count(loaded.counts.entries)}…`}
        </span>
      )}
      {reader.busy.value && loaded !== null && loaded.partial ? (
        <button type="button" onClick={() => reader.stop()}>
          Stop
        </button>
      ) : (
        <button type="button" onClick={onRefresh} disabled={reader.busy.value}>
          <Icon name="refresh" />
          {loaded?.partial ? "Continue" : "Refresh"}
        </button>
      )}
      <button type="button" onClick={onExport}>
        <Icon name="download" />
        Export
      </button>
      <button type="button" class="icon-button" aria-label="Keys" title="Keys (?)" onClick={onHelp}>
        <Icon name="help" />
      </button>
      <button type="button" class="icon-button" aria-label="Close the trajectory" title="Close (Esc)" onClick={onClose}>
        <Icon name="close" />
      </button>
    </>
  );
}
