import type { ComponentChildren } from "preact";
import { signOut, token } from "../api/auth";
import { follow, link } from "../navigation";

interface Props {
  title: ComponentChildren;
  actions: ComponentChildren;
  children: ComponentChildren;
}

const home = { page: "sessions", namespace: "" } as const;

/** Frame is what all pages share: the way home, the title and what can be done. */
export function Frame({ title, actions, children }: Props) {
  const leave = () => {
    signOut();
    // A fresh page holds nothing of what was read with the token.
    location.reload();
  };
  return (
    <div class="frame">
      <header class="top">
        <a class="home" href={link(home)} onClick={follow(home)} aria-label="All sessions">
          <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
            <rect width="32" height="32" rx="7" fill="currentColor" />
            <path d="M7 11h11M7 16h18M13 21h9" class="home-lines" />
          </svg>
        </a>
        <div class="title">{title}</div>
        <div class="actions">
          {actions}
          {token.value !== "" && (
            <button type="button" class="quiet" onClick={leave}>
              Sign out
            </button>
          )}
        </div>
      </header>
      {children}
    </div>
  );
}
