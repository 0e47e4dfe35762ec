import { signal } from "@preact/signals";

// A pasted token lives in this tab's session storage and nowhere else: not in the address, not in local storage, and it
// is gone when the tab is closed. Where a proxy signs requests, there is no token here at all.

const key = "agentloop.token";

export const token = signal(read());

/** signIn keeps a token for this tab. */
export function signIn(value: string): void {
  try {
    sessionStorage.setItem(key, value);
  } catch {
    // Storage is switched off: the token then lives as long as the page.
  }
  token.value = value;
}

/** signOut forgets the token. */
export function signOut(): void {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // There is nothing stored then.
  }
  token.value = "";
}

function read(): string {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}
