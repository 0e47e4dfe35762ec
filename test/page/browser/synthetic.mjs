// Makes sessions of any length and size, the same each time, in the shape in which the API serves them.

const types = ["modelInput", "reasoning", "modelOutput", "tool", "mcp"];

/** random gives numbers from 0 to 1, the same ones for a seed. */
function random(seed) {
  let state = seed;
  return () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
}

/**
 * session describes a session: events, agents, seconds from its first to its last event, and what is peculiar about it.
 * gaps: 0 to 1, the part of the time in which nothing happens. untimed: every so manieth event has no time. skew: how many
 * microseconds the clock of every second agent is ahead.
 */
export function synthetic({ name = "load", events = 100_000, agents = 20, seconds = 3600, gaps = 0, untimed = 0, skew = 0, begin = Date.UTC(2026, 2, 14, 8) * 1000 } = {}) {
  const ids = Array.from({ length: agents }, (_, n) => (n === 0 ? "main" : `worker-${n}`));
  const span = seconds * 1_000_000;
  // Events stand in bursts, between which nothing happens.
  const bursts = gaps > 0 ? 8 : 1;
  const busy = (span * (1 - gaps)) / bursts;
  const idle = bursts > 1 ? (span * gaps) / (bursts - 1) : 0;
  const at = (n) => {
    const place = (n / Math.max(events - 1, 1)) * bursts;
    const burst = Math.min(Math.floor(place), bursts - 1);
    return Math.round(begin + burst * (busy + idle) + (place - burst) * busy);
  };
  const step = span / Math.max(events, 1);
  const noise = random(42);
  const lengths = Array.from({ length: 1009 }, () => noise());

  const entry = (n) => {
    const type = types[n % 5];
    const who = Math.floor(n / 5) % agents;
    const agent = ids[who];
    const request = Math.floor(n / 5);
    const run = Math.floor((n * 5) / events);
    const time = at(n) + (who % 2 === 1 ? skew : 0);
    const tool = type === "tool" || type === "mcp";
    const out = {
      id: `run.${agent}.${n}`, agent, type, event: tool ? "tool" : type, sequence: n + 1, hidden: false, run: { uid: `0c1f64a8-${who}-${run}`, name: `sweep-${run}` }, turn: (request % 40) + 1,
      title: tool ? "query_metrics" : "claude-opus-4-5", status: n % 997 === 3 ? "error" : n % 1499 === 1 ? "cancelled" : "completed",
    };
    if (untimed === 0 || n % untimed !== 0) {
      out.capturedAt = time;
      out.startedAt = time;
      if (type !== "modelInput") out.endedAt = Math.round(time + step * agents * 0.6 * lengths[n % lengths.length]);
    }
    if (tool) out.toolCallId = `toolu_${n}`;
    else out.requestExecutionId = `01J9Z6T2K8${String(request).padStart(16, "0")}`;
    if (type === "mcp") out.server = "observability";
    if (type === "modelOutput") Object.assign(out, { responseId: `msg_${request}`, model: "claude-opus-4-5", stopReason: "toolUse", usage: { input: 1200 + (n % 300), output: 80 + (n % 90), cacheRead: 20_000 } });
    if (type !== "modelInput") out.inputId = `run.${agent}.${n - (n % 5)}`;
    return out;
  };

  const runs = ids.flatMap((agent, who) =>
    Array.from({ length: 5 }, (_, run) => ({
      uid: `0c1f64a8-${who}-${run}`, name: `sweep-${run}`, agent, operation: "Prompt", status: "succeeded", attempts: 1, turns: 40, requests: 1000, requestsWithoutUsage: 0, toolCalls: 400,
      startedAt: at(Math.floor((run * events) / 5)), endedAt: at(Math.floor(((run + 1) * events) / 5) - 1),
    })),
  );

  /** page is the answer to a request with that `after`; of is how many events the session is said to have. */
  const page = (after, size = 5_000, of = events) => {
    const from = Number(after ?? 0);
    const to = Math.min(from + size, events);
    const some = Array.from({ length: Math.max(to - from, 0) }, (_, n) => entry(from + n));
    const more = to < events ? { next: String(to) } : {};
    return {
      session: { id: `demo:${name}`, namespace: "demo", name, uid: "u", deleted: false, status: { ready: "True", reason: "Ready" } },
      agents: ids.map((id, n) => ({ id, kind: n === 0 ? "main" : "subagent", entries: Math.round(events / agents), runs: 5, live: false })),
      runs: from === 0 ? runs : [], entries: some.filter((one) => one.capturedAt !== undefined), untimed: some.filter((one) => one.capturedAt === undefined), historicalEntries: [], notices: [],
      realTime: { message: "", untimed: 0, adjusted: 0 }, counts: { entries: of, hidden: 0, untimed: untimed === 0 ? 0 : Math.ceil(events / untimed) }, head: [], cursor: String(to), ...more,
    };
  };
  return { name, events, begin, end: begin + span, page };
}
