import { useSignalEffect } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { token } from "./api/auth";
import { ApiError } from "./api/client";

/** Something that is fetched: what was had last stays while it is fetched again or when that fails. */
export interface Resource<T> {
  readonly value: T | null;
  readonly error: unknown;
  readonly busy: boolean;
  readonly reload: () => void;
}

/**
 * useResource fetches when the key changes, on reload, and after a sign-in if the last answer was that one is needed. A newer
 * request aborts the one before it, so that a late answer never replaces a newer one.
 */
export function useResource<T>(key: string, fetcher: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [round, setRound] = useState(0);
  const [state, setState] = useState<{ key: string; value: T | null; error: unknown; busy: boolean }>({ key, value: null, error: null, busy: true });
  useEffect(() => {
    const abort = new AbortController();
    const sent = token.peek();
    setState((before) => ({ key, value: before.key === key ? before.value : null, error: null, busy: true }));
    fetcher(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setState({ key, value, error: null, busy: false });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        if (outdated(error, sent)) setRound((n) => n + 1);
        else setState((before) => ({ ...before, error, busy: false }));
      },
    );
    return () => abort.abort();
  }, [key, round]);
  const reload = () => setRound((n) => n + 1);
  onSignIn(() => {
    if (state.error instanceof ApiError && state.error.status === 401) reload();
  });
  // Until the effect has run, the state is that of the key before.
  const present = state.key === key ? state : { value: null, error: null, busy: true };
  return { value: present.value, error: present.error, busy: present.busy, reload };
}

/** outdated says whether an answer is the refusal of a token that was replaced while it was on its way. */
export function outdated(error: unknown, sent: string): boolean {
  return error instanceof ApiError && error.status === 401 && token.peek() !== sent && token.peek() !== "";
}

/** onSignIn runs a function when a token was given. */
export function onSignIn(run: () => void): void {
  const [last] = useState(() => ({ token: token.peek() }));
  useSignalEffect(() => {
    const now = token.value;
    if (now !== "" && now !== last.token) run();
    last.token = now;
  });
}
