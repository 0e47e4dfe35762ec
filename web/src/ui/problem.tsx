import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import type { Problem as ProblemBody } from "../api/schema";
import { Command } from "./command";
import { Icon } from "./icons";

interface Props {
  error: unknown;
  /** What could not be had: "session", "event". */
  subject: string;
  namespace: string;
  onRetry: () => void;
}

/** Problem says what went wrong with a request and what can be done. A request for a token is made by the page as a whole. */
export function Problem({ error, subject, namespace, onRetry }: Props) {
  if (!(error instanceof ApiError)) {
    return (
      <State title="The answer could not be read">
        <p>{error instanceof Error ? error.message : String(error)}</p>
        <Retry onRetry={onRetry} />
      </State>
    );
  }
  switch (error.status) {
    case 401:
      return <State title="Sign in to continue" />;
    case 403:
      return <Forbidden problem={error.problem} namespace={namespace} />;
    case 404:
      return <NotFound subject={subject} />;
    case 413:
      return (
        <State title="This event is too large for one answer">
          <p>The export of the session has all of it.</p>
        </State>
      );
    case 429:
    case 503:
      return <Busy error={error} onRetry={onRetry} />;
    case 0:
      return (
        <State title="The server cannot be reached">
          <p>What was read before stays on the page.</p>
          <Retry onRetry={onRetry} />
        </State>
      );
    default:
      return (
        <State title={error.problem?.title ?? `The server answered ${error.status}`}>
          {error.problem?.detail && <p>{error.problem.detail}</p>}
          {error.problem?.instance && (
            <p class="muted">
              Request <code>{error.problem.instance}</code> in the service’s log.
            </p>
          )}
          <Retry onRetry={onRetry} />
        </State>
      );
  }
}

function NotFound({ subject }: { subject: string }) {
  if (subject === "event") {
    return (
      <State title="This event is not part of this session">
        <p>Select another event in the list.</p>
      </State>
    );
  }
  return (
    <State title="Session not found">
      <p>It may have been deleted with its history, or the address names another namespace.</p>
    </State>
  );
}

function Forbidden({ problem, namespace }: { problem: ProblemBody | null; namespace: string }) {
  const access = problem?.requiredAccess;
  const where = access?.namespace ?? namespace;
  const resource = access ? `${access.resource}${access.subresource ? `/${access.subresource}` : ""}` : "agentsessions/trajectory";
  const verb = access?.verb ?? "get";
  const subresource = access ? access.subresource : "trajectory";
  const command = [
    "kubectl auth can-i",
    verb,
    `${access?.resource ?? "agentsessions"}.${access?.group ?? "agentloop.dev"}`,
    subresource ? `--subresource=${subresource}` : "",
    where === "" ? "--all-namespaces" : `--namespace ${where}`,
  ];
  return (
    <State title={where === "" ? "You may not read sessions of all namespaces" : `You may not read this in namespace ${where}`} icon="lock">
      <p>
        Needed: <code>{`${verb} ${resource}`}</code>.{where === "" && " Name a namespace in which you may."}
      </p>
      <Command words={command.filter((word) => word !== "")} />
    </State>
  );
}

/** Busy tries again by itself after the time that the service named. */
function Busy({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
  const [left, setLeft] = useState(error.retryAfter ?? 5);
  useEffect(() => setLeft(error.retryAfter ?? 5), [error]);
  useEffect(() => {
    if (left <= 0) {
      onRetry();
      return;
    }
    const timer = setTimeout(() => setLeft(left - 1), 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return (
    <State title="The store is busy" icon="clock">
      <p>{left > 0 ? `Retrying in ${left} s` : "Retrying…"}</p>
      <button type="button" onClick={() => setLeft(0)}>
        Retry now
      </button>
    </State>
  );
}

function Retry({ onRetry }: { onRetry: () => void }) {
  return (
    <button type="button" onClick={onRetry}>
      Retry
    </button>
  );
}

/** State fills a place that has nothing else to show. */
export function State({ title, icon = "warning", children }: { title: string; icon?: "warning" | "lock" | "clock" | "search"; children?: ComponentChildren }) {
  return (
    <div class="state">
      <Icon name={icon} />
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

/** Loading appears only when the wait is long enough to be noticed. */
export function Loading({ what }: { what: string }) {
  return (
    <div class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {what}
    </div>
  );
}
