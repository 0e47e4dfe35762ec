import { useEffect, useRef } from "preact/hooks";
import { signIn } from "../api/auth";
import { signInNeeded } from "../api/client";

/** SignIn asks for a token in the place where it is needed: the address and what was loaded stay. */
export function SignIn() {
  const input = useRef<HTMLInputElement>(null);
  const invalid = signInNeeded.value === "invalid";
  useEffect(() => input.current?.focus(), []);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const value = input.current?.value.trim().replace(/^Bearer\s+/i, "") ?? "";
    if (value === "") return;
    if (input.current) input.current.value = "";
    signInNeeded.value = "";
    signIn(value);
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit} autocomplete="off">
        <h1>Sign in to continue</h1>
        <p>
          This page shows what the Kubernetes API server lets you read. Paste a token of an account that may{" "}
          <code>get agentsessions/trajectory</code>.
        </p>
        {invalid && (
          <p class="error" role="alert" id="token-error">
            The API server did not accept this token. It may have expired.
          </p>
        )}
        <label for="token">Token</label>
        <input
          ref={input}
          id="token"
          type="password"
          spellcheck={false}
          autocomplete="off"
          required
          aria-invalid={invalid}
          aria-describedby={invalid ? "token-error token-hint" : "token-hint"}
        />
        <button type="submit" class="primary">
          Sign in
        </button>
        <div id="token-hint" class="muted">
          <p>It stays in this browser tab until the tab is closed. One way to get a token:</p>
          <pre class="command">kubectl create token ACCOUNT --namespace NAMESPACE</pre>
        </div>
      </form>
    </main>
  );
}
