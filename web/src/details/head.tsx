import { useState } from "preact/hooks";
import type { Entry } from "../api/schema";
import { date, duration, noTime } from "../model/format";
import { kindLabels, kindOf, purposeLabel } from "../model/kind";
import { durationOf, severityOf, type Loaded } from "../model/trajectory";
import { Glyph } from "../ui/icons";
import { dayClock } from "../ui/preferences";
import { RenderedToggle } from "../ui/prose";

/** The types of events that have texts which somebody wrote. */
const written: ReadonlySet<string> = new Set(["modelInput", "modelOutput", "reasoning", "lifecycle"]);

interface Props {
  entry: Entry;
  loaded: Loaded;
  onEntry: (id: string) => void;
}

/** Head says which event it is, when it was, and what belongs to it. */
export function Head({ entry, loaded, onEntry }: Props) {
  const kind = kindOf(entry);
  const took = durationOf(entry);
  const severity = severityOf(entry);
  const facts = [
    `#${entry.sequence}${entry.lastSequence === undefined ? "" : `–#${entry.lastSequence}`}`,
    entry.run ? `run ${entry.run.name ?? entry.run.uid}` : "",
    entry.turn === undefined ? "" : `turn ${entry.turn}`,
    entry.capturedAt === undefined ? noTime : date(entry.startedAt ?? entry.capturedAt, dayClock()),
    took === null ? "" : duration(took),
    entry.clockAdjusted ? "time moved forward to follow the order of the stream" : "",
  ];
  return (
    <div class="detail-head">
      <h2>
        {kind && <Glyph kind={kind} />}
        {kind ? kindLabels[kind] : "Lifecycle"} <span class="detail-title">{entry.title}</span>
        {purposeLabel(entry) !== "" && <span class="chip purpose">{purposeLabel(entry)}</span>}
        {entry.status && entry.status !== "completed" && <span class={`chip ${severity === "error" ? "bad" : ""}`}>{entry.status}</span>}
      </h2>
      <p class="muted">{facts.filter((fact) => fact !== "").join(" · ")}</p>
      <div class="detail-actions">
        <Association entry={entry} loaded={loaded} onEntry={onEntry} />
        <span class="detail-tools">
          {written.has(entry.type) && <RenderedToggle />}
          <CopyLink />
          <button type="button" class="quiet" onClick={() => print()}>
            Print
          </button>
        </span>
      </div>
    </div>
  );
}

/** Association leads from an event to its input, and from an input to its answer, where the record has the exact reference. */
function Association({ entry, loaded, onEntry }: Props) {
  if (entry.type === "modelInput") {
    const answer = entry.answerId;
    if (answer === undefined) return <p class="muted">No final response is recorded for this request.</p>;
    const listed = loaded.byId.has(answer) && !loaded.entries[loaded.byId.get(answer) ?? 0]?.hidden;
    return (
      <button type="button" onClick={() => onEntry(answer)}>
        {listed && entry.status === "completed" ? "View the response" : "View why there is no response"}
      </button>
    );
  }
  if (entry.type === "lifecycle" || entry.type === "unknown") return null;
  const input = entry.inputId;
  if (input === undefined) return <p class="muted">No exact input is associated.</p>;
  return (
    <button type="button" onClick={() => onEntry(input)}>
      View this input
    </button>
  );
}

/** CopyLink takes the address of what is shown, which is there again for whoever opens it and may read the session. */
function CopyLink() {
  const [copied, setCopied] = useState("");
  // Browsers offer the clipboard only to pages that came over TLS or from this machine.
  if (!("clipboard" in navigator)) return null;
  const copy = () =>
    void navigator.clipboard.writeText(location.href).then(
      () => setCopied("Link copied"),
      () => setCopied("Not copied: the browser refused"),
    );
  return (
    <>
      <span class="muted" role="status">
        {copied}
      </span>
      <button type="button" class="quiet" onClick={copy} onBlur={() => setCopied("")}>
        Copy link
      </button>
    </>
  );
}
