import type { Usage } from "../api/schema";

/** Clock says how times of day are written. */
export type Clock = "utc" | "local";

/** What stands for a time that the record does not have. */
export const noTime = "Time not recorded";
/** What stands for a count that the record does not have. It is not zero. */
export const notRecorded = "Not recorded";

const numbers = new Intl.NumberFormat("en-US");

/** count writes a number with separators. */
export function count(n: number): string {
  return numbers.format(n);
}

/** plural writes a count and its noun. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** time writes a time of day with milliseconds. */
export function time(micros: number, clock: Clock): string {
  const { h, m, s, ms } = fields(micros, clock);
  return `${two(h)}:${two(m)}:${two(s)}.${String(ms).padStart(3, "0")}`;
}

/** shortTime writes a time of day with as many places as a step of the axis needs, and at midnight the day that begins. */
export function shortTime(micros: number, clock: Clock, step: number): string {
  const { h, m, s, ms } = fields(micros, clock);
  if (step >= 60_000_000 && h === 0 && m === 0) return date(micros, clock).slice(5, 10);
  if (step >= 60_000_000) return `${two(h)}:${two(m)}`;
  const whole = `${two(h)}:${two(m)}:${two(s)}`;
  if (step >= 1_000_000) return whole;
  const part = String(Math.round(micros) % 1_000_000).padStart(6, "0");
  return step >= 1_000 ? `${whole}.${String(ms).padStart(3, "0")}` : `${whole}.${part}`;
}

/** date writes date and time of day. */
export function date(micros: number, clock: Clock): string {
  const d = new Date(Math.floor(micros / 1000));
  const day =
    clock === "utc"
      ? d.toISOString().slice(0, 10)
      : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return `${day} ${time(micros, clock)}${clock === "utc" ? " UTC" : ""}`;
}

/** duration writes microseconds with the two places that matter. */
export function duration(micros: number): string {
  const ms = micros / 1000;
  if (ms < 1) return `${Math.round(micros)} µs`;
  if (ms < 10) return `${trim(ms, 1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${trim(seconds, seconds < 10 ? 2 : 1)} s`;
  const total = Math.round(seconds);
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  if (h > 0) return `${count(h)} h ${m} m`;
  return s === 0 ? `${m} m` : `${m} m ${s} s`;
}

/** elapsed writes the time since an origin, with as many places as a step of the axis needs. */
export function elapsed(micros: number, step: number): string {
  const sign = micros < 0 ? "−" : "+";
  const abs = Math.abs(micros);
  if (step < 1_000) return `${sign}${trim(abs / 1000, 3)} ms`;
  if (step < 1_000_000) return `${sign}${trim(abs / 1_000_000, 3)} s`;
  const total = Math.round(abs / 1_000_000);
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const parts = [h > 0 ? `${h} h` : "", m > 0 ? `${m} m` : "", s > 0 || total === 0 ? `${s} s` : ""];
  return sign + parts.filter((part) => part !== "").join(" ");
}

/** bytes writes a size. */
export function bytes(n: number): string {
  if (n < 1024) return plural(n, "byte");
  if (n < 1024 * 1024) return `${trim(n / 1024, 1)} KiB`;
  return `${trim(n / 1024 / 1024, 1)} MiB`;
}

/** inputTokens is all that a provider counted as input, cached tokens included; null when it reported none of it. */
export function inputTokens(usage: Usage | undefined): number | null {
  if (usage === undefined || usage.input === undefined) return null;
  return usage.input + (usage.cacheRead ?? 0) + (usage.cacheWrite ?? 0);
}

/** tokens writes a usage in short: input with cached tokens → output; empty when nothing was reported. */
export function tokens(usage: Usage | undefined): string {
  const input = inputTokens(usage);
  const output = usage?.output;
  if (input === null && output === undefined) return "";
  return `${input === null ? "?" : count(input)} → ${output === undefined ? "?" : count(output)}`;
}

/** shortDigest writes enough of a digest to recognise it. */
export function shortDigest(digest: string): string {
  return digest.replace(/^(sha256:.{12}).*$/, "$1…");
}

/** plainText takes the escape sequences of terminals out of a tool's output. What was recorded stays in the raw view. */
export function plainText(text: string): string {
  return text.replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g, "");
}

function fields(micros: number, clock: Clock): { h: number; m: number; s: number; ms: number } {
  const d = new Date(Math.floor(micros / 1000));
  if (clock === "utc") return { h: d.getUTCHours(), m: d.getUTCMinutes(), s: d.getUTCSeconds(), ms: d.getUTCMilliseconds() };
  return { h: d.getHours(), m: d.getMinutes(), s: d.getSeconds(), ms: d.getMilliseconds() };
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

function trim(n: number, places: number): string {
  return String(Number(n.toFixed(places)));
}
