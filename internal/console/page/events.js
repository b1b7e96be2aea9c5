// The feed of events, as server-sent events. EventSource can bear no token, so the
// stream is read here.
import { request } from "./api.js";

const firstPause = 500, lastPause = 5000;

// follow reads the feed until signal aborts: told is called with each batch of events,
// state with "connecting", "live", or "lost" and the Failure. After a cut it goes on from
// the last event that has come. It rests while the tab is hidden: browsers open few
// connections to one host, and tabs that nobody sees would take them all.
export async function follow(parameters, { signal, told, state }) {
  let last = "", pause = firstPause;
  while (!signal.aborted) {
    await visible(signal);
    const connection = new AbortController();
    const cut = () => connection.abort();
    const hide = () => { if (document.hidden) cut(); };
    signal.addEventListener("abort", cut);
    document.addEventListener("visibilitychange", hide);
    try {
      const q = new URLSearchParams(parameters);
      const response = await request("GET", "/v1/events?" + q, { signal: connection.signal, headers: last && { "Last-Event-ID": last } });
      state("live");
      pause = firstPause;
      await read(response.body, events => {
        for (const e of events) last = e.id || last;
        told(events);
      });
      state("lost"); // the host has ended it
    } catch (error) {
      if (signal.aborted) return;
      if (error.name !== "AbortError") state("lost", error);
    } finally {
      signal.removeEventListener("abort", cut);
      document.removeEventListener("visibilitychange", hide);
    }
    if (!document.hidden) await sleep(pause, signal);
    pause = Math.min(pause * 2, lastPause);
  }
}

async function read(body, told) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    const events = [];
    for (const part of parts) {
      const data = part.split("\n").filter(line => line.startsWith("data:")).map(line => line.slice(5)).join("\n");
      if (data) events.push(JSON.parse(data));
    }
    if (events.length) told(events);
  }
}

// sleep ends early when signal aborts.
export function sleep(ms, signal) {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

// visible resolves when the tab can be seen.
export function visible(signal) {
  return new Promise(resolve => {
    if (!document.hidden || signal?.aborted) return resolve();
    const look = () => {
      if (document.hidden && !signal?.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal?.addEventListener("abort", look, { once: true });
  });
}

// every calls f at once and then again, ms after it is done, while the tab can be seen,
// until signal aborts.
export async function every(ms, signal, f) {
  while (!signal.aborted) {
    await visible(signal);
    if (signal.aborted) return;
    await f();
    await sleep(ms, signal);
  }
}
