// A Durable Object that does what the programs of the oracle say. See doc.go for
// the language; what is read here has been parsed by program.go.
import { DurableObject } from "cloudflare:workers";

// All objects of the process share this. It is outside of every gate: a trace line
// is seen whatever becomes of the event that it is about.
const world = { trace: [], handlers: {}, ids: {}, names: {}, count: {} };

const count = (what) => (world.count[what] = (world.count[what] || 0) + 1);

class Obj extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.name = ctx.id.name ?? world.names[ctx.id.toString()];
    this.memory = "nothing";
    const n = count(`life ${this.name}`);
    this.say(`incarnation ${n}`);
    const ops = this.handler("constructor", n);
    const run = { label: "constructor", storage: ctx.storage };
    for (const op of ops) {
      this.detached(op, run);
    }
  }

  say(line) {
    world.trace.push({ object: this.name, line });
  }

  // handler returns the ops of an event's nth time: those for exactly n, else the general ones.
  handler(event, n) {
    const all = world.handlers[this.name];
    return all?.get(`${event} ${n}`) ?? all?.get(event) ?? [];
  }

  async run(label, ops) {
    await this.all(ops, { label, storage: this.ctx.storage });
  }

  async alarm(info) {
    const n = count(`alarm ${this.name}`);
    this.say(`alarm ${n} retryCount=${info?.retryCount} isRetry=${info?.isRetry}`);
    try {
      await this.all(this.handler("alarm", n), { label: `alarm ${n}`, storage: this.ctx.storage, info });
      this.say(`alarm ${n} ended`);
    } catch (e) {
      this.say(`alarm ${n} failed ${describe(e)}`);
      throw e;
    }
  }

  async fetch(request) {
    const url = new URL(request.url);
    const socket = url.searchParams.get("socket");
    const pair = new WebSocketPair();
    const run = { label: `connect ${socket}`, storage: this.ctx.storage, socket, pair };
    await this.all(this.handler("connect", 0), run);
    return new Response(null, { status: 101, webSocket: pair[0] });
  }

  async webSocketMessage(ws, message) {
    await this.onSocket(ws, "message", typeof message === "string" ? quote(message) : `bytes ${quote(new TextDecoder().decode(message))}`, message);
  }

  async webSocketClose(ws, code, reason, wasClean) {
    await this.onSocket(ws, "close", `code=${code} reason=${quote(reason)} wasClean=${wasClean}`);
  }

  async webSocketError(ws, error) {
    await this.onSocket(ws, "error", describe(error));
  }

  async onSocket(ws, event, text, message) {
    const n = count(`${event} ${this.name}`);
    this.say(`${event} ${n} ${text}`);
    try {
      await this.all(this.handler(event, n), { label: `${event} ${n}`, storage: this.ctx.storage, ws, message });
      this.say(`${event} ${n} ended`);
    } catch (e) {
      this.say(`${event} ${n} failed ${describe(e)}`);
      throw e;
    }
  }

  async all(ops, run) {
    for (const op of ops) {
      await this.one(op, run);
    }
  }

  async one(op, run) {
    if (op.detached) {
      this.detached(op, run);
      return;
    }
    if (op.body && op.name !== "abort") {
      this.say(`${run.label} ${op.text} {`);
    }
    let result;
    try {
      result = await perform[op.name](this, op, run);
    } catch (e) {
      this.say(`${run.label} ${op.body ? "}" : op.text} ! ${describe(e)}`);
      if (op.name === "throw" || op.rethrow) {
        throw e;
      }
      return;
    }
    this.say(`${run.label} ${op.body ? "}" : op.text}${result === undefined ? "" : ` = ${result}`}`);
  }

  // detached starts an op that nobody waits for. What it throws at once is thrown;
  // what it rejects with later is told.
  detached(op, run) {
    this.say(`${run.label} ~${op.text}`);
    const started = perform[op.name](this, op, run);
    if (started?.then) {
      started.then(
        (result) => op.told && this.say(`${run.label} ~${op.text} done${result === undefined ? "" : ` = ${result}`}`),
        (e) => this.say(`${run.label} ~${op.text} ! ${describe(e)}`),
      );
    }
  }

  stub(name) {
    return this.env.OBJ.get(idOf(this.env, name));
  }

  // id evaluates "name:x", "unique", "self", "other:x" (of the other class),
  // "text:..." or "parse:" and any of these.
  id(text, namespace = this.env.OBJ) {
    const [kind, rest] = cut(text);
    switch (kind) {
      case "name": return namespace.idFromName(rest);
      case "unique": return namespace.newUniqueId();
      case "self": return this.ctx.id;
      case "other": return this.env.OTHER.idFromName(rest);
      case "text": return rest;
      case "parse": return namespace.idFromString(this.id(rest).toString());
    }
    throw new Error(`no such id: ${text}`);
  }
}

export class Main extends Obj {}
export class Other extends Obj {}

const perform = {
  async put(o, { args, pairs, opts }, { storage }) {
    if (pairs) {
      await storage.put(Object.fromEntries(two(args)), opts);
    } else {
      await storage.put(args[0], args[1], opts);
    }
  },
  async get(o, { args, opts }, { storage }) {
    return shown(await storage.get(args.length === 1 ? args[0] : args, opts));
  },
  async getMany(o, { args, opts }, { storage }) {
    return shown(await storage.get(args, opts));
  },
  async delete(o, { args, opts }, { storage }) {
    return shown(await storage.delete(args.length === 1 ? args[0] : args, opts));
  },
  async deleteMany(o, { args, opts }, { storage }) {
    return shown(await storage.delete(args, opts));
  },
  // The keys of these are k0, k1 and so on.
  async putCount(o, { args: [n] }, { storage }) { await storage.put(Object.fromEntries(keys(n).map((k) => [k, "v"]))); },
  async getCount(o, { args: [n] }, { storage }) { return `${(await storage.get(keys(n))).size} found`; },
  async deleteCount(o, { args: [n] }, { storage }) { return `${await storage.delete(keys(n))} deleted`; },
  async countAll(o, op, { storage }) { return `${(await storage.list()).size} rows`; },
  async list(o, { opts }, { storage }) {
    return shown(await storage.list(opts));
  },
  async deleteAll(o, { opts }, { storage }) { await storage.deleteAll(opts); },
  async sync(o) { await o.ctx.storage.sync(); },

  async transaction(o, { body }, run) {
    await run.storage.transaction((txn) => o.all(body, { ...run, storage: txn }));
  },
  rollback(o, op, { storage }) { storage.rollback(); },
  async outer(o, { body }, run) { await o.all(body, { ...run, storage: o.ctx.storage }); },

  async setAlarm(o, { args: [at] }, { storage }) { await storage.setAlarm(time(at)); },
  async getAlarm(o, op, { storage }) {
    const at = await storage.getAlarm();
    return at === null ? "null" : ahead(at);
  },
  async deleteAlarm(o, op, { storage }) { await storage.deleteAlarm(); },
  info(o, op, { info }) { return `scheduled ${ahead(info.scheduledTime)}`; },

  async block(o, { body }, run) { await o.ctx.blockConcurrencyWhile(() => o.all(body, run)); },
  abort(o, { args }) { o.ctx.abort(args[0]); return "returned"; },
  throw(o, { args: [message] }) { throw new Error(message); },
  remember(o, { args: [what] }) { o.memory = what; },
  recall(o) { return o.memory; },
  note() {},
  async wait(o, { args: [point] }) { await (await o.env.DRIVER.fetch(`http://driver/wait/${point}`)).text(); },
  async waitUntil(o, { body }, run) {
    o.ctx.waitUntil(o.all(body, { ...run, label: `${run.label} background` }).catch((e) => {
      o.say(`${run.label} background failed ${describe(e)}`);
    }));
  },
  async call(o, { args: [name], body, text }, run) {
    await o.stub(name).run(`${run.label} ${o.name}>${name}`, body);
  },
  // callTwice keeps its stub over the first call's failure.
  async callTwice(o, { args: [name], body }, run) {
    const stub = o.stub(name);
    for (const n of [1, 2]) {
      try {
        await stub.run(`${run.label} ${o.name}>${name} ${n}`, body);
        o.say(`${run.label} call ${n} = ok`);
      } catch (e) {
        o.say(`${run.label} call ${n} ! ${describe(e)}`);
      }
    }
  },
  // callAll makes its calls on one stub before it waits for any of them.
  async callAll(o, { args: [name], body }, run) {
    const stub = o.stub(name);
    const calls = body.map((op, i) => stub.run(`${run.label} ${o.name}>${name} ${i + 1}`, [op]));
    const results = await Promise.allSettled(calls);
    return results.map((r) => (r.status === "fulfilled" ? "ok" : describe(r.reason))).join(", ");
  },
  catch: async (o, { body }, run) => {
    try {
      await o.all(body, run);
    } catch (e) {
      return `caught ${describe(e)}`;
    }
    return "nothing to catch";
  },

  id(o, { args: [text] }) {
    const id = o.id(text);
    const kind = /^[0-9a-f]{64}$/.test(id.toString()) ? "64 hex digits" : id.toString();
    return `${kind}, name ${id.name === undefined ? "undefined" : quote(id.name)}`;
  },
  name(o) { return o.ctx.id.name === undefined ? "undefined" : quote(o.ctx.id.name); },
  same(o, { args: [a, b] }) {
    const [x, y] = [o.id(a), o.id(b)];
    return `equals ${x.equals(y)}, text ${x.toString() === y.toString()}`;
  },
  parse(o, { args: [text] }) {
    o.env.OBJ.idFromString(text);
    return "ok";
  },
  async callId(o, { args: [text], body }, run) {
    await o.env.OBJ.get(o.id(text)).run(`${run.label} ${o.name}>${text}`, body);
  },

  accept(o, { args }, { pair, socket }) { o.ctx.acceptWebSocket(pair[1], ["name:" + socket, ...args]); },
  acceptBare(o, op, { pair }) { o.ctx.acceptWebSocket(pair[1]); },
  acceptTags(o, { args }, { pair }) { o.ctx.acceptWebSocket(pair[1], args); },
  acceptTwice(o, op, { pair, socket }) { o.ctx.acceptWebSocket(pair[1], ["name:" + socket]); o.ctx.acceptWebSocket(pair[1], ["name:" + socket]); },
  send(o, { args: [text] }, { ws, pair }) { (ws ?? pair[1]).send(text); },
  sendBytes(o, { args: [text] }, { ws }) { ws.send(new TextEncoder().encode(text)); },
  echo(o, op, { ws, message }) { ws.send(message); },
  broadcast(o, { args: [text, tag] }) {
    const all = o.ctx.getWebSockets(tag);
    for (const ws of all) {
      ws.send(text);
    }
    return all.length;
  },
  sockets(o, { args: [tag] }) {
    return `[${o.ctx.getWebSockets(tag).map((ws) => o.ctx.getTags(ws)[0] ?? "untagged").sort().join(" ")}]`;
  },
  tags(o, op, { ws, pair }) { return `[${o.ctx.getTags(ws ?? pair[1]).join(" ")}]`; },
  attach(o, { args: [value] }, { ws, pair }) { (ws ?? pair[1]).serializeAttachment(value); },
  attachment(o, op, { ws, pair }) { return shown((ws ?? pair[1]).deserializeAttachment() ?? undefined); },
  closeSocket(o, { args: [code, reason] }, { ws, pair }) { (ws ?? pair[1]).close(code === undefined ? undefined : Number(code), reason); },
  closeAll(o, { args: [code, reason] }) {
    for (const ws of o.ctx.getWebSockets()) {
      ws.close(Number(code), reason);
    }
  },
  state(o, op, { ws }) { return ["CONNECTING", "OPEN", "CLOSING", "CLOSED"][ws.readyState]; },
  autoResponse(o, { args: [request, response] }) {
    o.ctx.setWebSocketAutoResponse(request === undefined ? undefined : new WebSocketRequestResponsePair(request, response));
  },
  getAutoResponse(o) {
    const pair = o.ctx.getWebSocketAutoResponse();
    return pair ? `${quote(pair.request)} ${quote(pair.response)}` : "null";
  },
  autoResponded(o) {
    return o.ctx.getWebSockets().map((ws) => (o.ctx.getWebSocketAutoResponseTimestamp(ws) ? "yes" : "no")).join(" ");
  },
};

const idOf = (env, name) => (world.ids[name] ? env.OBJ.idFromString(world.ids[name]) : env.OBJ.idFromName(name));

// time reads "+10s" (from now), "@-5" (milliseconds since 1970) or "never".
function time(text) {
  if (text === "never") return NaN;
  if (text[0] === "@") return Number(text.slice(1));
  const unit = { ms: 1, s: 1000, h: 3600_000, d: 86_400_000 };
  const [, n, u] = /^([+-]\d+)(ms|s|h|d)$/.exec(text);
  return Date.now() + Number(n) * unit[u];
}

// ahead says when a time is in a way that two runs have in common, also where one
// of them is slow.
const ahead = (at) => {
  const seconds = (at - Date.now()) / 1000;
  if (seconds < -1.5) return "passed";
  return seconds < 1.5 ? "now" : seconds < 120 ? `+${Math.round(seconds)}s` : `+${Math.round(seconds / 60)}m`;
};

const cut = (text) => {
  const i = text.indexOf(":");
  return i < 0 ? [text, ""] : [text.slice(0, i), text.slice(i + 1)];
};

const keys = (n) => Array.from({ length: Number(n) }, (_, i) => `k${i}`);

const two = (args) => {
  const pairs = [];
  for (let i = 0; i < args.length; i += 2) {
    pairs.push([args[i], args[i + 1]]);
  }
  return pairs;
};

function shown(v) {
  if (v instanceof Map) {
    return `{${[...v].map(([k, w]) => `${word(k)}: ${shown(w)}`).join(", ")}}`;
  }
  return typeof v === "string" ? word(v) : String(v);
}

// quote writes a text so that it fits on a line, and a long one by what it consists of.
function quote(text) {
  const all = [...text];
  if (all.length > 40 && all.every((c) => c === all[0])) {
    return `${all[0]}{${all.length}}`;
  }
  return JSON.stringify(text);
}

const word = (text) => (/^[\w.:/-]{1,40}$/.test(text) ? text : quote(text));

function describe(e) {
  const flags = ["remote", "retryable", "overloaded", "durableObjectReset"].filter((f) => e?.[f]);
  return `${e?.name}: ${e?.message}${flags.length ? ` [${flags.join(" ")}]` : ""}`;
}

export default {
  async fetch(request, env, ctx) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/define": {
        const { name, kind, handlers, id } = await request.json();
        world.handlers[name] = new Map(Object.entries(handlers));
        if (kind === "unique") {
          world.ids[name] = id || env.OBJ.newUniqueId().toString();
          world.names[world.ids[name]] = name;
        }
        return new Response(world.ids[name] ?? "");
      }
      case "/events": {
        // All are sent before any is waited for; those of one object through one stub.
        const stubs = {};
        const { readable, writable } = new TransformStream();
        const out = writable.getWriter();
        const tell = (o) => out.write(new TextEncoder().encode(JSON.stringify(o) + "\n"));
        const calls = (await request.json()).map(({ label, object, ops }) => {
          stubs[object] ??= env.OBJ.get(idOf(env, object));
          return stubs[object].run(label, ops).then(
            () => tell({ label, outcome: "ok" }),
            (e) => tell({ label, outcome: describe(e) }),
          );
        });
        ctx.waitUntil(Promise.all(calls).then(() => out.close()));
        return new Response(readable);
      }
      case "/trace":
        return Response.json(world.trace);
      case "/socket":
        return env.OBJ.get(idOf(env, url.searchParams.get("object"))).fetch(request);
    }
    return new Response("no such page", { status: 404 });
  },
};
