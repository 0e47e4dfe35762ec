"use strict";
// Evaluated before any other code. What it takes from the globals here is kept in its closures, so that code that
// changes built-in objects changes nothing of this; the three host functions are then no globals any more.
(() => {
  const { $send: send, $finish: finish, $log: log } = globalThis;
  delete globalThis.$send;
  delete globalThis.$finish;
  delete globalThis.$log;
  const { stringify, parse } = JSON;
  const { create, defineProperty, freeze } = Object;
  const slice = Function.prototype.call.bind(String.prototype.slice);
  const text = String;
  const Failure = Error, Wrong = TypeError, Later = Promise;
  const AsyncFunction = (async () => {}).constructor;
  const pending = create(null);
  let last = 0;

  const own = (object, name, value) => defineProperty(object, name, { value, enumerable: true });

  const invoke = (kind, name, argument, limit) =>
    new Later((resolve, reject) => {
      const json = stringify(argument === undefined ? {} : argument);
      if (json === undefined) throw new Wrong("the arguments cannot be written as JSON");
      if (json.length > limit) throw new Wrong("the arguments are too long");
      const id = ++last;
      pending[id] = { resolve, reject };
      const refusal = send(kind, id, name, json);
      if (refusal !== "") {
        delete pending[id];
        reject(new Failure(refusal));
      }
    });

  const settle = (id, ok, json) => {
    const waiting = pending[id];
    delete pending[id];
    if (!waiting) return;
    if (!ok) waiting.reject(new Failure(json));
    else waiting.resolve(json === "" ? undefined : parse(json));
  };

  const plain = (value) => {
    try {
      return text(value);
    } catch (_) {
      return "[cannot be shown]";
    }
  };

  const thrown = (e) => {
    try {
      if (e instanceof Failure) return [`${e.name}: ${e.message}`, `${e.stack || ""}`, e.lineNumber | 0];
      const json = typeof e === "string" ? e : stringify(e);
      return [json === undefined ? text(e) : json, "", 0];
    } catch (_) {
      return ["something was thrown that cannot be shown", "", 0];
    }
  };
  const fail = (e) => {
    const [what, stack, line] = thrown(e);
    finish(false, slice(what, 0, 4096), slice(stack, 0, 4096), line);
  };

  const start = (code, limit) => {
    let run;
    try {
      run = new AsyncFunction(code);
    } catch (e) {
      fail(e);
      return;
    }
    (async () => {
      let json;
      try {
        const value = await run();
        json = stringify(value);
      } catch (e) {
        fail(e);
        return;
      }
      if (json === undefined) json = "";
      finish(true, slice(json, 0, limit), "", json.length);
    })();
  };

  const line = (values, limit) => {
    let out = "";
    for (let i = 0; i < values.length && out.length < limit; i++) {
      let part;
      const value = values[i];
      try {
        part = typeof value === "string" ? value : value instanceof Failure ? `${value.name}: ${value.message}` : stringify(value);
        if (part === undefined) part = text(value);
      } catch (_) {
        part = plain(value);
      }
      out += (i ? " " : "") + slice(part, 0, limit);
    }
    log(slice(out, 0, limit));
  };

  const setUp = (names, limits) => {
    const console = create(null);
    const print = (...values) => line(values, limits.logBytes);
    for (const level of ["log", "info", "warn", "error", "debug", "trace"]) own(console, level, print);
    own(globalThis, "console", freeze(console));
    const tools = create(null);
    for (const { server, tool, refusal } of names) {
      if (!tools[server]) own(tools, server, create(null));
      own(tools[server], tool, refusal
        ? freeze(async () => { throw new Failure(refusal); })
        : freeze(async (argument) => invoke("tool", `${server}.${tool}`, argument, limits.argumentBytes)));
    }
    for (const server in tools) freeze(tools[server]);
    own(globalThis, "tools", freeze(tools));
    own(globalThis, "searchTools", freeze(async (query) => invoke("search", "", text(query), limits.argumentBytes)));
    own(globalThis, "describeTool", freeze(async (name) => invoke("describe", "", text(name), limits.argumentBytes)));
    own(globalThis, "delegate", freeze(async () => {
      throw new Failure("delegate cannot be called from code. Call the tool delegate itself.");
    }));
  };

  return { setUp, start, settle };
})();
