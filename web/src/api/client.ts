import { signal } from "@preact/signals";
import { parseSlices } from "../model/json-slices";
import { inSlices } from "../model/slices";
import { token } from "./auth";
import { parse } from "./json";
import type { Detail, MessageList, Problem, Session, SessionList, Trajectory, WholeText } from "./schema";

/** The service's answer to a request that it did not fulfil, or what kept the request from reaching it. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    /** HTTP status; 0 when there was no answer. */
    readonly status: number,
    readonly problem: Problem | null,
    /** Seconds to wait, when the service named them. */
    readonly retryAfter: number | null,
  ) {
    super(problem?.detail ?? problem?.title ?? (status === 0 ? "The server cannot be reached." : `The server answered ${status}.`));
  }
}

/** Set when a request was refused for want of a valid token: the page then asks for one, in place. */
export const signInNeeded = signal<"" | "none" | "invalid">("");

/** The service's base, with a slash at its end. */
const base = new URL(document.baseURI).pathname;

type Query = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** sessionURL is the address of something of a session. */
function sessionURL(namespace: string, name: string, rest: string, query: Query = {}): string {
  return url(`api/sessions/${encodeURIComponent(`${namespace}:${name}`)}${rest}`, query);
}

function url(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(key, String(value));
  }
  const search = params.toString();
  return base + path + (search === "" ? "" : `?${search}`);
}

/** request sends a GET with the token, if there is one, and turns every answer but success into an ApiError. */
export async function request(address: string, signal?: AbortSignal): Promise<Response> {
  const sent = token.value;
  const headers = new Headers({ Accept: "application/json, application/x-ndjson, application/problem+json, image/*" });
  if (sent !== "") headers.set("Authorization", `Bearer ${sent}`);
  let response: Response;
  try {
    response = await fetch(address, { headers, signal: signal ?? null, credentials: "same-origin", redirect: "error" });
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new ApiError(0, null, null);
  }
  if (response.ok) return response;
  // An answer to a token that was replaced meanwhile says nothing about the new one.
  if (response.status === 401 && token.value === sent) signInNeeded.value = sent === "" ? "none" : "invalid";
  throw new ApiError(response.status, await problemOf(response), retryAfterOf(response));
}

async function problemOf(response: Response): Promise<Problem | null> {
  if (!(response.headers.get("Content-Type") ?? "").startsWith("application/problem+json")) return null;
  try {
    return (await response.json()) as Problem;
  } catch {
    return null;
  }
}

function retryAfterOf(response: Response): number | null {
  const seconds = Number(response.headers.get("Retry-After") ?? "");
  return Number.isFinite(seconds) && seconds > 0 ? seconds : null;
}

async function json(address: string, signal?: AbortSignal): Promise<unknown> {
  const response = await request(address, signal);
  return parse(await response.text());
}

export async function listSessions(namespace: string, cursor: string | undefined, signal?: AbortSignal): Promise<SessionList> {
  return (await json(url("api/sessions", { namespace, cursor }), signal)) as SessionList;
}

export async function getSession(namespace: string, name: string, signal?: AbortSignal): Promise<Session> {
  return (await json(sessionURL(namespace, name, ""), signal)) as Session;
}

export async function getMessages(
  namespace: string,
  name: string,
  agent: string | null,
  cursor: string | undefined,
  signal?: AbortSignal,
): Promise<MessageList> {
  return (await json(sessionURL(namespace, name, "/messages", { agent, cursor }), signal)) as MessageList;
}

/** getTrajectory reads a page of the index. It has no recorded values whose numbers could be too long for the browser's own parser. */
export async function getTrajectory(namespace: string, name: string, after: string | undefined, signal?: AbortSignal): Promise<Trajectory> {
  return (await (await request(sessionURL(namespace, name, "/trajectory", { after }), signal)).json()) as Trajectory;
}

/** Above this many characters an answer is parsed in parts, so that the page goes on meanwhile. */
const large = 500_000;

export async function getDetail(namespace: string, name: string, id: string, signal?: AbortSignal): Promise<Detail> {
  const text = await (await request(sessionURL(namespace, name, "/trajectory/detail", { id }), signal)).text();
  return (text.length > large ? await inSlices(parseSlices(text), signal) : parse(text)) as Detail;
}

/** getRaw is the stored JSON of an entry: its bytes as they were served. */
export async function getRaw(namespace: string, name: string, id: string, signal?: AbortSignal): Promise<Blob> {
  return (await request(sessionURL(namespace, name, "/trajectory/detail", { id, raw: true }), signal)).blob();
}

/** getText is all of a tool's result that was cut, page after page. */
export async function getText(namespace: string, name: string, id: string, signal?: AbortSignal): Promise<WholeText> {
  let text = "";
  let cursor: string | undefined;
  for (;;) {
    const page = (await (await request(sessionURL(namespace, name, "/trajectory/text", { id, cursor }), signal)).json()) as WholeText;
    text += page.text;
    cursor = page.next;
    if (cursor === undefined) return { ...page, text };
  }
}

/** getImage is the image of a block of a message: of a model input, message says which. */
export async function getImage(namespace: string, name: string, at: { id: string; message: number | undefined; block: number }, signal?: AbortSignal): Promise<Blob> {
  return (await request(sessionURL(namespace, name, "/trajectory/image", at), signal)).blob();
}

/** getExport asks for an export in a format; NDJSON is what the service gives when none is named. */
export function getExport(namespace: string, name: string, format: string, signal?: AbortSignal): Promise<Response> {
  return request(sessionURL(namespace, name, "/trajectory/export", { format: format === "ndjson" ? "" : format }), signal);
}
