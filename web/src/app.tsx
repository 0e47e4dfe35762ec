import { useEffect } from "preact/hooks";
import { signInNeeded } from "./api/client";
import { current, follow, link } from "./navigation";
import { lazy } from "./ui/lazy-component";
import { SignIn } from "./ui/sign-in";

const Sessions = lazy(() => import("./pages/sessions").then((module) => module.Sessions));
const Conversation = lazy(() => import("./pages/conversation").then((module) => module.Conversation));
const TrajectoryPage = lazy(() => import("./pages/trajectory").then((module) => module.TrajectoryPage));

const home = { page: "sessions", namespace: "" } as const;

/** App shows the page of the address. While a token is asked for, the page stays as it is behind the question. */
export function App() {
  const asking = signInNeeded.value !== "";
  return (
    <>
      {asking && <SignIn />}
      <div class="behind" hidden={asking}>
        <Page />
      </div>
    </>
  );
}

function Page() {
  const { route, notices } = current.value;
  const title = "name" in route ? `${route.name} · ${route.namespace} · agentloop` : "agentloop";
  useEffect(() => {
    document.title = title;
  }, [title]);
  switch (route.page) {
    case "sessions":
      return <Sessions key={route.namespace} namespace={route.namespace} />;
    case "conversation":
      return (
        <Conversation
          key={`${route.namespace}/${route.name}/${route.agent ?? ""}`}
          namespace={route.namespace}
          name={route.name}
          agent={route.agent}
          message={route.message}
        />
      );
    case "trajectory":
      return (
        <TrajectoryPage
          key={`${route.namespace}/${route.name}`}
          namespace={route.namespace}
          name={route.name}
          selection={route.selection}
          notices={notices}
        />
      );
    case "unknown":
      return (
        <main class="page">
          <h1>There is no such page</h1>
          <p>
            <a href={link(home)} onClick={follow(home)}>
              All sessions
            </a>
          </p>
        </main>
      );
  }
}
