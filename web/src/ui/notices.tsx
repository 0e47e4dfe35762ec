import type { Notice } from "../api/schema";
import { plural, shortDigest } from "../model/format";
import { Icon } from "./icons";

interface Props {
  notices: readonly Notice[];
  /** Whether the list is unfolded at first: where it is about what is being looked at. */
  open?: boolean;
  onSelect?: (entryId: string) => void;
}

/** Notices says what is wrong with the records themselves. Reading went on around it. */
export function Notices({ notices, open = false, onSelect }: Props) {
  if (notices.length === 0) return null;
  return (
    <details class="notices" open={open}>
      <summary>
        <Icon name="warning" />
        {plural(notices.length, "integrity notice")}
      </summary>
      <ul>
        {notices.map((notice, i) => (
          <li key={i}>
            {notice.message} <span class="muted">{where(notice)}</span>{" "}
            {notice.digest && <code title={notice.digest}>{shortDigest(notice.digest)}</code>}{" "}
            {notice.entryId !== undefined && onSelect !== undefined && (
              <button type="button" class="quiet" onClick={() => onSelect(notice.entryId ?? "")}>
                Show the event
              </button>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}

function where(notice: Notice): string {
  const range = notice.from === undefined ? "" : notice.to === undefined || notice.to === notice.from ? `#${notice.from}` : `#${notice.from}–#${notice.to}`;
  return [notice.code, notice.stream ?? notice.agent ?? "", range].filter((part) => part !== "").join(" · ");
}
