import type { SessionSummary } from "../api/schema";
import { count, time } from "../model/format";
import { follow, link } from "../navigation";
import type { Reader } from "../trajectory-reader";
import { Icon } from "../ui/icons";
import { dayClock } from "../ui/preferences";
import { SessionName } from "../ui/session-name";
import { Status } from "../ui/status";

/** Title names the session; the entry beside it leads back to the conversation. */
export function Title({ namespace, name, session }: { namespace: string; name: string; session: SessionSummary | undefined }) {
  const conversation = { page: "conversation", namespace, name, agent: null, message: null } as const;
  return (
    <>
      <SessionName namespace={namespace} name={name} title={session?.title} />
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
  /** Whether there is something to export for the reader. */
  exportable: boolean;
  onRefresh: () => void;
  onExport: () => void;
  onHelp: () => void;
  onClose: () => void;
}

/** Actions says what was read and when, and holds what can be done with the page as a whole. */
export function Actions({ reader, exportable, onRefresh, onExport, onHelp, onClose }: ActionsProps) {
  const loaded = reader.loaded.value;
  const readAt = reader.readAt.value;
  const progress = reader.progress.value;
  const all = loaded !== null && !loaded.partial && progress === null;
  const have = loaded === null ? 0 : loaded.entries.length + loaded.dropped;
  return (
    <>
      {loaded !== null && readAt !== null && (
        <span class="muted read-at">
          {reader.news.value !== "" && `${reader.news.value} `}
          {all
            ? `Read ${time(readAt, dayClock()).slice(0, 8)} · ${count(loaded.entries.length)} of ${count(loaded.counts.entries)} records`
            : `Loaded ${count(progress?.entries ?? have)} of ${count(progress?.of ?? loaded.counts.entries)}…`}
        </span>
      )}
      {reader.busy.value && progress !== null ? (
        <button type="button" onClick={() => reader.stop()}>
          Stop
        </button>
      ) : (
        <button type="button" onClick={onRefresh} disabled={reader.busy.value}>
          <Icon name="refresh" />
          {loaded?.partial ? "Continue" : "Refresh"}
        </button>
      )}
      <button type="button" onClick={onExport} disabled={!exportable}>
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
