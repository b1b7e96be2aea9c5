// One object that is no session: what the host knows of it.
import { h, fill, keyed, text } from "./dom.js";
import { get, query } from "./api.js";
import { bytes, count, setTime, time } from "./format.js";
import { closer, drawer } from "./drawer.js";
import { every } from "./events.js";
import { failure } from "./trouble.js";

const refreshEvery = 2000, rows = 50;

export const linkToObject = (type, name) => "#object=" + encodeURIComponent(type + "/" + name);

export const object = () => drawer("object", (dialog, id, signal) => {
  const slash = id.indexOf("/"); // a class has none
  show(dialog, id.slice(0, slash), id.slice(slash + 1), signal);
});

function show(dialog, type, name, signal) {
  const problem = h("div", { role: "alert" }), facts = h("dl", { class: "facts" }), stored = h("tbody"), more = h("p", { class: "nothing" });
  fill(dialog, h("div", { class: "inner" },
    h("header", {}, h("h2", { id: "object-title" }, type + " ", h("span", { class: "id" }, name)), h("span", { class: "space" }),
      closer(dialog)),
    problem, facts, h("h3", {}, "Stored"),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "key"), h("th", { class: "number" }, "bytes"))), stored)), more));
  if (!dialog.open) dialog.showModal();
  every(refreshEvery, signal, async () => {
    let d;
    try {
      d = await get("/v1/object" + query({ class: type, name, limit: rows }), signal);
      fill(problem);
    } catch (error) {
      if (!signal.aborted) fill(problem, failure(error));
      return;
    }
    const all = [["isolate", String(d.isolate)], ["epoch", d.epoch ? String(d.epoch) : "– (at rest)"], ["next alarm", d.alarm, "time"], ["failed alarms", d.retry ? String(d.retry) : "none"], ["schedules", count(d.schedules?.length ?? 0)]];
    keyed(facts, all, f => f[0], f => h("div", {}, h("dt", {}, f[0]), h("dd", {}, f[2] && time(""))), (div, [, value, kind]) => {
      if (kind) setTime(div.lastChild.firstChild, value);
      else text(div.lastChild, value);
    });
    keyed(stored, d.rows, r => r.key ?? r.key64, r => h("tr", {}, h("td", {}, h("code", {}, r.key ?? r.key64)), h("td", { class: "number" })), (tr, r) => text(tr.cells[1], bytes(r.size)));
    text(more, d.next ? `More than ${rows} rows: kalpa objects show lists all.` : d.rows.length ? "" : "Nothing is stored yet.");
  });
}
