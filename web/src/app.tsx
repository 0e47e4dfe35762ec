import { token } from "./api/auth";
import { SignIn } from "./ui/sign-in";

export function App() {
  if (token.value === "") return <SignIn />;
  return <main><h1>Sessions</h1></main>;
}
