import { computed, signal } from "@preact/signals";
import { format, parse, type Parsed, type Route } from "./route";

/** Where the page stands under its server: "/" or a prefix that ends in "/". */
const base = new URL(document.baseURI).pathname;

const address = signal(read());

/** What the address says. */
export const current = computed<Parsed>(() => address.value);

addEventListener("popstate", () => {
  address.value = read();
});

/** go makes a new entry in the browser's history; replace changes the present one. */
export function go(route: Route): void {
  write(route, "push");
}

export function replace(route: Route): void {
  write(route, "replace");
}

/** link is a route's address, for an anchor's href. */
export function link(route: Route): string {
  return base + format(route);
}

/** follow makes an anchor stay in the page; a click that asks for another tab is the browser's. */
export function follow(route: Route): (event: MouseEvent) => void {
  return (event) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(route);
  };
}

function write(route: Route, how: "push" | "replace"): void {
  const before = address.value;
  const rest = before.route.page === route.page ? before.rest : [];
  const url = base + format(route, rest);
  if (how === "push") history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  address.value = { route, rest, notices: [], moved: false };
}

function read(): Parsed {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : location.pathname.slice(1);
  const parsed = parse(path, location.search);
  if (parsed.moved) history.replaceState(null, "", base + format(parsed.route, parsed.rest));
  return parsed;
}
