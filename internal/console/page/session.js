// One session: what it is, what it owes, and what has happened to it.
import { h, keyed, text, fill } from "./dom.js";
import { get, query } from "./api.js";
import { bytes, clockTime, count, plural, setTime, time, took } from "./format.js";
import { closer, drawer } from "./drawer.js";
import { every, follow } from "./events.js";
import { failure } from "./trouble.js";
import { confirmDispose, confirmEnd, confirmReset } from "./confirm.js";
import { describe, kindOf } from "./happening.js";

const kinds = { resident: "good", active: "info", resting: "", ended: "warn", unreadable: "bad" };

export const linkTo = id => "#session=" + encodeURIComponent(id);
export const pill = () => h("span", { class: "pill" });
export function setPill(element, state) {
  text(element, state).className = "pill " + (kinds[state] ?? "");
}

const maxEntries = 300, refreshEvery = 2000;

export function session() {
  let refresh = () => {};
  const opened = drawer("session", (dialog, id, signal) => show(dialog, id, signal, f => { refresh = f; }));
  return { heard: events => { if (opened() && events.some(e => e.session === opened() || e.type === "isolate.reset")) refresh(); } };
}

function show(dialog, id, signal, refreshBy) {
  const part = {
    state: pill(), problem: h("div", { role: "alert" }),
    dispose: h("button", { type: "button", onclick: () => confirmDispose(id, latest?.owed ?? 0) }, "Dispose runtime"),
    reset: h("button", { type: "button", class: "danger", onclick: () => confirmReset({ session: id }) }, "Reset"),
    end: h("button", { type: "button", class: "danger", onclick: () => confirmEnd(id, latest?.owed ?? 0) }, "End session"),
    facts: h("dl", { class: "facts" }), waiting: h("tbody", { id: "waiting" }), nothing: h("p", { class: "nothing" }, "It owes nothing."),
    streams: h("tbody"), noStreams: h("p", { class: "nothing" }, "None has rows or events."),
    timeline: h("ol", { class: "timeline", id: "timeline" }), alarm: h("time"),
  };
  const owes = h("table", {}, h("thead", {}, h("tr", {}, ["id", "method", "since", "epoch", "runtime", "started"].map(t => h("th", {}, t)))), part.waiting);
  const streams = h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "id"), h("th", { class: "number" }, "events"), h("th", { class: "number" }, "bytes"), h("th", {}, "delivered up to"))), part.streams);
  fill(dialog, h("div", { class: "inner" },
    h("header", {},
      h("h2", { id: "session-title" }, "Session ", h("span", { class: "id" }, id)), part.state, h("span", { class: "space" }),
      closer(dialog)),
    part.problem,
    h("div", { class: "actions" }, part.dispose, part.reset, part.end),
    part.facts,
    h("h3", {}, "Owed answers"), h("div", { class: "scroll" }, owes), part.nothing,
    h("h3", {}, "Timeline"),
    h("p", { class: "next" }, "Next alarm: ", part.alarm), part.timeline,
    h("h3", {}, "Streams"), h("div", { class: "scroll" }, streams), part.noStreams));
  for (const b of [part.dispose, part.reset, part.end]) b.disabled = true;
  if (!dialog.open) dialog.showModal();

  let latest, busy = false, again = false;
  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      latest = await get("/v1/sessions/" + encodeURIComponent(id), signal);
      fill(part.problem);
      detail(part, owes, streams, latest);
      ordinary((await get("/v1/activity" + query({ session: id, limit: maxEntries }), signal)).activities);
    } catch (error) {
      if (signal.aborted) return;
      fill(part.problem, failure(error));
      if (error.status === 404) {
        setPill(part.state, "ended");
        for (const b of [part.dispose, part.reset, part.end]) b.disabled = true;
      }
    } finally {
      busy = false;
      if (again && !signal.aborted) { again = false; refresh(); }
    }
  }
  refreshBy(refresh);
  every(refreshEvery, signal, refresh);

  // The timeline: what the feed tells, and what sessions do all the time.
  let events = [], acts = [];
  const draw = () => {
    const all = [...events, ...acts].sort((a, b) => a.at < b.at ? 1 : a.at > b.at ? -1 : 0).slice(0, maxEntries);
    keyed(part.timeline, all, e => e.id ?? e.at + e.type + (e.tool ?? "") + e.took, entry);
  };
  const ordinary = found => { acts = found; draw(); };
  // That a request was lost is an event, and it is settled as well: it is told once.
  const both = e => !(e.type === "request.settled" && e.outcome === "lost");
  follow({ session: id, from: "start" }, {
    signal, state: () => {},
    told: more => { events = [...events, ...more.filter(e => e.type !== "gap")].slice(-maxEntries); draw(); },
  });

  function entry(e) {
    return h("li", { class: kindOf(e), hidden: !both(e) },
      h("span", { class: "when", title: new Date(e.at).toString() }, clockTime(e.at)),
      h("span", { class: "what" }, describe(e)), h("span", { class: "where" }, e.epoch && e.type !== "isolate.reset" ? "epoch " + e.epoch + (e.generation ? " · runtime " + e.generation : "") : ""));
  }
}

function detail(part, owes, streams, d) {
  setPill(part.state, d.state);
  part.dispose.disabled = d.state !== "resident";
  part.reset.disabled = !d.epoch;
  part.end.disabled = d.state === "ended";
  part.reset.title = d.epoch ? "" : "It is at rest: there is nothing in memory to reset.";
  part.dispose.title = part.dispose.disabled ? "It has no runtime." : "";
  const facts = [
    ["server", d.server], ["isolate", String(d.isolate)], ["epoch", d.epoch ? String(d.epoch) : "– (at rest)"], ["owed", String(d.owed)],
    ["created", d.created, "time"], ["last activity", d.activity, "time"], ["next alarm", d.alarm, "time"], ["failed alarms", d.retry ? String(d.retry) : "none"],
    ["client", d.client || "–"], ["whose", d.subject || "nobody's in particular"], ["protocol", d.version || "–"], ["stored", plural(d.rows, "row") + ", " + bytes(d.bytes)],
  ];
  keyed(part.facts, facts, f => f[0], f => h("div", {}, h("dt", {}, f[0]), h("dd", {}, f[2] && time(""))), (div, [, value, kind]) => {
    if (kind) setTime(div.lastChild.firstChild, value);
    else text(div.lastChild, value);
  });
  setTime(part.alarm, d.alarm, "none is set");
  owes.hidden = d.waiting.length === 0;
  part.nothing.hidden = d.waiting.length > 0;
  keyed(part.waiting, d.waiting, w => w.stream + w.id, () => h("tr", {}, h("td", {}, h("code")), h("td"), h("td", {}, h("time")), h("td"), h("td"), h("td")), (tr, w) => {
    text(tr.cells[0].firstChild, w.id);
    text(tr.cells[1], w.method + (w.tool ? " " + w.tool : ""));
    setTime(tr.cells[2].firstChild, w.since);
    text(tr.cells[3], String(w.epoch));
    text(tr.cells[4], w.generation ? String(w.generation) : "waits for one");
    text(tr.cells[5], (w.started ? "yes" : "no") + (w.again ? ", again" : ""));
  });
  streams.hidden = d.streams.length === 0;
  part.noStreams.hidden = d.streams.length > 0;
  keyed(part.streams, d.streams, st => st.id, () => h("tr", {}, h("td", {}, h("code")), h("td", { class: "number" }), h("td", { class: "number" }), h("td")), (tr, st) => {
    text(tr.cells[0].firstChild, st.id);
    text(tr.cells[1], count(st.events));
    text(tr.cells[2], bytes(st.bytes));
    text(tr.cells[3], st.done ? "the end" : st.flushed || "–");
  });
}
