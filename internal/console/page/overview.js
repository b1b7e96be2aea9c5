// The host: its state, figures, curves and isolates.
import { $, h, keyed, text, fill } from "./dom.js";
import { get, query } from "./api.js";
import { bytes, clockOfHost, count, plural, short, time, took } from "./format.js";
import { chart } from "./chart.js";
import { every } from "./events.js";
import { confirmReset } from "./confirm.js";
import { trouble } from "./trouble.js";
import { draw, most, residents } from "./residents.js";

const pollEvery = 2500, window = 15 * 60; // milliseconds, seconds

export function overview() {
  say("");
  const charts = [
    chart({
      title: "Residency", window, format: short, note: "runtimes, and objects in memory", empty: "No sample yet: one is taken every 5 seconds.",
      lines: [{ name: "resident", class: "s1", of: p => p.resident }, { name: "in memory", class: "s2", of: p => p.in_memory }],
    }),
    chart({
      title: "Requests", window, format: v => short(v) + "/s", note: "settled a second; lost ones apart", empty: "No sample yet: one is taken every 5 seconds.",
      lines: [{ name: "settled", class: "s1", of: p => p.rate }, { name: "lost", class: "bad", of: p => p.lost / 5 }],
    }),
    chart({
      title: "Latency", window, format: took, log: true, note: "from admission to answer", empty: "No request was settled in the last 15 minutes.",
      lines: [{ name: "p50", class: "s1", of: p => p.latency.p50 || null }, { name: "p99", class: "s3", of: p => p.latency.p99 || null }],
    }),
  ];
  fill($("#charts"), charts.map(c => c.element));

  let samples = [], started;
  return every(pollEvery, new AbortController().signal, async () => {
    let o;
    try {
      const since = samples.at(-1)?.at ?? new Date(Date.now() - window * 1000).toISOString();
      o = await get("/v1/overview" + query({ history: true, since, holders: most }));
    } catch (error) {
      state("unreachable", "bad");
      trouble("overview", error);
      return;
    }
    trouble("overview");
    clockOfHost(o.now);
    if (started !== undefined && started !== o.started) samples = []; // another process, which may not know of them
    started = o.started;
    const begin = new Date(Date.parse(o.now) - window * 1000).toISOString();
    samples = [...samples.filter(s => s.at > begin), ...(o.history ?? [])];
    state(o.state, o.state === "serving" ? "good" : "warn");
    about(o);
    tiles(o);
    for (const c of charts) c.draw(samples);
    isolates(o.isolates);
  });
}

function state(name, kind) {
  text($("#host-state"), name).className = "pill " + kind;
}

function about(o) {
  const where = $("#host-about");
  if (where.dataset.started === o.started) return;
  where.dataset.started = o.started;
  fill(where, h("span", {}, o.version), o.data && h("span", { title: "data folder" }, o.data), o.durability && h("span", {}, "durability " + o.durability),
    h("span", {}, "pid " + o.pid), h("span", {}, "started ", time(o.started)));
}

function tiles(o) {
  const r = o.requests, lost = r.outcomes.lost ?? 0;
  const all = [
    ["resident", count(o.resident), "sessions that have a runtime"],
    ["in memory", count(Object.values(o.in_memory).reduce((a, b) => a + b, 0)), Object.entries(o.in_memory).map(([k, n]) => k + " " + count(n)).join("\n")],
    ["requests / s", short(r.rate), "over the last minute"],
    ["latency p50", r.latency.p50 ? took(r.latency.p50) : "–", "over the last minute"],
    ["latency p99", r.latency.p50 ? took(r.latency.p99) : "–", "over the last minute"],
    ["settled", count(r.settled), Object.entries(r.outcomes).map(([k, n]) => k + " " + count(n)).join("\n")],
    ["lost executions", count(lost), "since the host was started", lost > 0 && "bad"],
    ["alarms set", o.alarms.pending === undefined ? "…" : count(o.alarms.pending),
      `fired ${count(o.alarms.fired)}, failed ${count(o.alarms.failed)}` + (o.alarms.overdue > 1 ? `, the earliest ${took(o.alarms.overdue)} late` : ""), o.alarms.overdue > 5 && "bad"],
    ["on disk", o.storage ? bytes(o.storage.bytes) : "–", o.storage && `${count(o.storage.commits)} commits in ${count(o.storage.groups)} groups`],
    ["Go heap", bytes(o.process.heap), `${plural(o.process.goroutines, "goroutine")}, ${bytes(o.process.memory)} from the system`],
  ];
  keyed($("#tiles"), all, t => t[0], t => h("li", {}, h("b"), h("span", {}, t[0])), (li, [, value, title, kind]) => {
    text(li.firstChild, value);
    li.firstChild.className = kind || "";
    li.title = title ?? "";
  });
}

function isolates(all) {
  keyed($("#isolates"), all, i => i.number, make, (li, i) => {
    const share = Math.min(100, i.heap / i.heap_limit * 100), bar = li.querySelector(".bar-heap");
    bar.className = "bar-heap" + (i.soft_limit && i.heap > i.soft_limit ? " over" : "");
    bar.style.width = share + "%";
    draw(bar, i);
    const soft = li.querySelector(".bar-soft");
    soft.hidden = !i.soft_limit;
    soft.style.left = i.soft_limit / i.heap_limit * 100 + "%";
    soft.title = i.soft_limit ? `soft limit ${bytes(i.soft_limit)}: what is idle is reclaimed above it` : "";
    const meter = li.querySelector(".meter");
    meter.setAttribute("aria-valuenow", i.heap);
    meter.setAttribute("aria-valuemax", i.heap_limit);
    meter.setAttribute("aria-valuetext", `${bytes(i.heap)} of ${bytes(i.heap_limit)}`);
    text(li.querySelector(".much"), `${bytes(i.heap)} of ${bytes(i.heap_limit)}`);
    text(li.querySelector(".many"), `${count(i.resident)} resident · ${plural(i.objects, "object")}`);
  });
}

const say = what => text($("#holder"), what || "Point at a part of a bar, or go to it by keys (Tab, ← →), to read whose it is.");

const make = i => h("li", {},
  h("span", { class: "name" }, "isolate " + i.number),
  h("div", { class: "heap" }, h("div", { class: "meter", role: "meter", "aria-label": "heap of isolate " + i.number, "aria-valuemin": 0 }), residents(i.number, say), h("div", { class: "bar-soft" })),
  h("span", { class: "much" }), h("span", { class: "many" }),
  h("button", { type: "button", class: "danger", "aria-label": "Reset isolate " + i.number, onclick: () => confirmReset({ isolate: i.number }) }, "Reset"));
