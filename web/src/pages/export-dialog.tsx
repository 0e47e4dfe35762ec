import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { download, exportFormats, save, type Exported, type ExportFormat } from "../api/export";
import { bytes, count, plural } from "../model/format";
import { Dialog } from "../ui/dialog";
import { Problem } from "../ui/problem";

interface Props {
  namespace: string;
  name: string;
  onClose: () => void;
}

type Step =
  | { at: "asking" }
  | { at: "reading"; bytes: number }
  | { at: "done"; result: Exported }
  | { at: "failed"; error: unknown };

const formats: Readonly<Record<ExportFormat, { label: string; about: string }>> = {
  ndjson: { label: "NDJSON", about: "All evidence, a line for each record. The last line holds the count and a checksum, which are verified here." },
  "otlp-json": { label: "OpenTelemetry (OTLP-JSON)", about: "Runs, requests and tools as spans of the GenAI conventions, for a tracing back end. Lifecycle details are left out." },
  atif: { label: "ATIF", about: "The agent trajectory interchange format: steps with tool calls and observations, for evaluation tools." },
};

/** ExportDialog warns of what an export can hold, reads it and says whether it is whole. */
export function ExportDialog({ namespace, name, onClose }: Props) {
  const [step, setStep] = useState<Step>({ at: "asking" });
  const [format, setFormat] = useState<ExportFormat>("ndjson");
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);
  const start = async () => {
    setStep({ at: "reading", bytes: 0 });
    try {
      const result = await download({ namespace, name, format }, (n) => setStep({ at: "reading", bytes: n }), abort.current.signal);
      if (result.complete) save(result.blob, result.fileName);
      setStep({ at: "done", result });
    } catch (error) {
      if (abort.current.signal.aborted) return;
      // The question for a token is behind a modal dialog.
      if (error instanceof ApiError && error.status === 401) onClose();
      setStep({ at: "failed", error });
    }
  };
  return (
    <Dialog title="Export the trajectory" onClose={onClose}>
      {step.at === "asking" && (
        <>
          <p class="warning">
            The file holds prompts, answers, tool calls and their results. Credential fields are redacted, but free text can hold sensitive content:
            handle it accordingly.
          </p>
          <fieldset class="formats">
            <legend>Format</legend>
            {exportFormats.map((one) => (
              <label key={one} class="format">
                <input type="radio" name="format" value={one} checked={one === format} onChange={() => setFormat(one)} />
                <span>
                  <b>{formats[one].label}</b>
                  <small>{formats[one].about}</small>
                </span>
              </label>
            ))}
          </fieldset>
          <p class="muted">
            The file has the whole session, whatever the list shows. It is evidence, not a backup: files, processes and the state of other
            services are not in it.
          </p>
          <div class="button-row end">
            <button type="button" onClick={onClose}>
              Cancel
            </button>
            <button type="button" class="primary" onClick={() => void start()}>
              Export
            </button>
          </div>
        </>
      )}
      {step.at === "reading" && <p role="status">Reading the export: {bytes(step.bytes)}…</p>}
      {step.at === "failed" && <Problem error={step.error} subject="session" namespace={namespace} onRetry={() => void start()} />}
      {step.at === "done" && <Result result={step.result} onClose={onClose} />}
    </Dialog>
  );
}

function Result({ result, onClose }: { result: Exported; onClose: () => void }) {
  const records = result.records === null ? "" : `${plural(result.records, "record")}, `;
  return (
    <>
      {result.complete ? (
        <p role="status">
          <b>The export is complete:</b> {records}
          {bytes(result.bytes)}. {proof(result)}
        </p>
      ) : (
        <p class="warning" role="alert">
          {broken(result)}
        </p>
      )}
      <div class="button-row end">
        {!result.complete && result.bytes > 0 && (
          <button type="button" onClick={() => save(result.blob, result.fileName)}>
            Save the incomplete file
          </button>
        )}
        <button type="button" class="primary" onClick={onClose}>
          Close
        </button>
      </div>
    </>
  );
}

function proof(result: Exported): string {
  if (result.format !== "ndjson") return "The transfer came to its proper end.";
  return result.hash === "verified" ? "Its checksum was verified." : "Its checksum stands in its last line.";
}

function broken(result: Exported): string {
  const arrived = `It is not complete: ${count(result.bytes)} bytes arrived.`;
  if (result.hash === "wrong") return "The export’s checksum is not that of what arrived. It is not complete.";
  return result.format === "ndjson" ? `Export ended before its completion record. ${arrived}` : `The transfer of the export broke off. ${arrived}`;
}
