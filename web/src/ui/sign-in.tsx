import { signIn } from "../api/auth";

export function SignIn() {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const value = String(new FormData(form).get("token") ?? "").trim();
    if (value !== "") signIn(value);
  };
  return (
    <main class="sign-in">
      <h1>Sign in to continue</h1>
      <form onSubmit={submit}>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="off" required />
        <button type="submit">Sign in</button>
      </form>
    </main>
  );
}
