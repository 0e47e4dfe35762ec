import type { ComponentType } from "preact";
import { Lazy, useLazy } from "./lazy";
import { State } from "./problem";

/** lazy is a component whose code is fetched when it is first shown: what a page does not begin with does not delay it. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const part = new Lazy<ComponentType<P>>(load);
  return function LazyComponent(props: P) {
    const { value: Loaded, failed } = useLazy(part);
    if (Loaded) return <Loaded {...props} />;
    if (!failed) return null;
    return (
      <State title="This part of the page could not be fetched">
        <p>The server cannot be reached, or has a newer page by now.</p>
        <button type="button" onClick={() => location.reload()}>
          Load the page anew
        </button>
      </State>
    );
  };
}
