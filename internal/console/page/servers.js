// The servers, and how they fare.
import { $, h, keyed, text, fill } from "./dom.js";
import { get } from "./api.js";
import { bytes, hostNow, plural, setTime, time, took } from "./format.js";
import { every } from "./events.js";
import { failure } from "./trouble.js";

const kinds = { running: "good", idle: "", crash_loop: "bad", cannot_start: "bad" };
const words = { crash_loop: "crash loop", cannot_start: "can't start" };

export function servers(list) {
  const where = $("#servers");
  const table = h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "name"), h("th", {}, "state"), h("th", { class: "number" }, "resident"), h("th", { class: "number" }, "memory"), h("th", {}, "runs"))));
  return every(5000, new AbortController().signal, async () => {
    let all;
    try {
      ({ servers: all } = await get("/v1/servers"));
    } catch (error) {
      if (error.status !== 0 || !table.isConnected) fill(where, failure(error));
      return;
    }
    if (all.length === 0) return fill(where, h("p", { class: "nothing" }, "This host has no servers: it has objects alone."));
    if (!table.isConnected) fill(where, h("div", { class: "scroll" }, table));
    list.servers(all.map(s => s.name));
    keyed(table, all, s => s.name, make, update); // a body for each: its row, and how it ended
  });
}

const make = s => h("tbody", {},
  h("tr", {}, h("th", { scope: "row" }, s.name), h("td", {}, h("span", { class: "pill" })), h("td", { class: "number" }), h("td", { class: "number" }),
    h("td", { class: "runs" }, h("code", {}), h("div", { class: "about" }, s.url ?? ""))),
  h("tr", { class: "exits problem" }, h("td", { colspan: 5 }, h("p"))),
  h("tr", { class: "exits" }, h("td", { colspan: 5 }, h("details", {}, h("summary", {}), h("div", {})))));

function update(body, s) {
  const [row, problem, exits] = body.rows;
  text(row.cells[1].firstChild, words[s.state] ?? s.state).className = "pill " + (kinds[s.state] ?? "");
  text(row.cells[2], String(s.resident));
  text(row.cells[3], s.memory ? bytes(s.memory) : "–");
  const runs = row.cells[4].firstChild;
  text(runs, s.runs ?? "");
  runs.title = s.runs ?? "";
  problem.hidden = !s.problem;
  text(problem.querySelector("p"), s.problem ?? "");
  const last = s.exits?.at(-1);
  exits.hidden = !last;
  if (!last) return;
  const details = exits.querySelector("details"), [summary, more] = details.children;
  if (s.state === "crash_loop" && !details.dataset.seen) details.open = true;
  details.dataset.seen = s.state === "crash_loop" ? "yes" : "";
  if (summary.dataset.last !== last.at) {
    summary.dataset.last = last.at;
    fill(summary, "Last ended ", time(last.at), h("span", { class: "retry" }));
    fill(more, h("p", {}, `${last.why}, after ${took(last.lived)}${last.silent ? ", before it had said anything" : ""} (pid ${last.pid})`),
      last.stderr ? h("pre", { tabindex: 0, "aria-label": "The end of its stderr" }, last.stderr) : h("p", { class: "about" }, "It wrote nothing to stderr."));
  }
  const retry = summary.querySelector(".retry");
  if (!s.crashes) return fill(retry);
  const now = [s.retry_at, s.crashes, Date.parse(s.retry_at) > hostNow()].join();
  if (retry.dataset.now !== now) {
    retry.dataset.now = now;
    fill(retry, " · " + plural(s.crashes, "crash", "crashes") + " in a row", s.retry_at && (Date.parse(s.retry_at) > hostNow() ? [", may start again ", h("time")] : ", may be tried now"));
  }
  const until = retry.querySelector("time");
  if (until) setTime(until, s.retry_at);
}
