// The table of sessions: one page of the API at a time.
import { $, h, keyed, text, fill } from "./dom.js";
import { get, query } from "./api.js";
import { plural, setTime } from "./format.js";
import { every, sleep } from "./events.js";
import { failure, trouble } from "./trouble.js";
import { linkTo, pill, setPill } from "./session.js";

const limit = 50, refreshEvery = 5000;
// With a filter, the API answers with what it has found among some thousands: so often it
// is asked for more before a person is.
const maxRounds = 40;

export function sessions() {
  const search = $("#search"), byServer = $("#by-server"), byState = $("#by-state"), body = $("#rows");
  let before = []; // where the pages before this one begin
  let after = "";  // where this one does
  let next = "";   // and the one that follows; empty: there is none
  let rows = [], rounds = 1, loading, due;
  let busy = false; // with a page that was asked for

  async function load(fresh) {
    loading?.abort();
    const { signal } = loading = new AbortController();
    if (fresh) {
      busy = true;
      text($("#page"), "…");
    }
    try {
      let found = [], from = after;
      for (rounds = 1; ; rounds++) {
        const page = await get("/v1/sessions" + query({ limit: limit - found.length, after: from, prefix: search.value.trim(), server: byServer.value, state: byState.value }), signal);
        found = [...found, ...page.sessions];
        from = page.next ?? "";
        if (fresh || !from || found.length === limit) show(found, from);
        if (!from || found.length === limit || rounds === maxRounds) break;
        if (fresh) text($("#page"), "searching…");
      }
      show(found, from);
      trouble("sessions");
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 0) trouble("sessions", error); // what was there stays to be seen
      else {
        show([], "");
        fill($("#no-rows"), failure(error));
      }
    }
    busy = false; // one that was given up for another does not come here
  }

  function show(found, from) {
    rows = found;
    next = from;
    const focused = document.activeElement?.closest("#rows tr")?.dataset.key;
    keyed(body, rows, r => r.id, make, update);
    if (focused && !document.activeElement.closest("#rows")) body.querySelector("a")?.focus();
    const filtered = search.value || byServer.value || byState.value;
    $("#no-rows").hidden = rows.length > 0;
    text($("#no-rows"), filtered ? "No session is like that" + (next ? " so far: Next goes on." : ".") : "No sessions yet: a client's initialize opens one.");
    text($("#page"), `page ${before.length + 1} · ${plural(rows.length, "session")}`);
    $("#first").disabled = $("#previous").disabled = before.length === 0;
    $("#next").disabled = next === "";
  }

  const make = () => h("tr", {}, h("td", {}, h("a", { class: "id" })), h("td"), h("td", {}, pill()), h("td", { class: "number" }), h("td", { class: "number epoch" }), h("td", { class: "number" }), h("td", {}, h("time")), h("td", {}, h("time")));

  function update(tr, r) {
    const link = tr.cells[0].firstChild;
    text(link, r.id);
    link.href = linkTo(r.id);
    text(tr.cells[1], r.server || "–");
    setPill(tr.cells[2].firstChild, r.state);
    text(tr.cells[3], String(r.isolate));
    text(tr.cells[4], r.epoch ? String(r.epoch) : "–");
    text(tr.cells[5], String(r.owed)).className = "number" + (r.owed ? " owes" : "");
    setTime(tr.cells[6].firstChild, r.activity);
    setTime(tr.cells[7].firstChild, r.alarm);
  }

  function anew() {
    before = [];
    after = "";
    return load(true);
  }

  // again shows what has become of the page; not of one that took long to find.
  const again = () => !busy && rounds <= 2 && load(false);

  let typing;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(anew, 150); });
  byServer.addEventListener("change", anew);
  byState.addEventListener("change", anew);
  $("#filter").addEventListener("submit", e => { e.preventDefault(); clearTimeout(typing); anew(); });
  $("#first").addEventListener("click", anew);
  $("#next").addEventListener("click", () => {
    if (!next) return;
    before.push(after);
    after = next;
    load(true);
  });
  $("#previous").addEventListener("click", () => {
    if (!before.length) return;
    after = before.pop();
    load(true);
  });
  // The whole row is a link for the pointer.
  body.addEventListener("click", e => {
    if (!e.target.closest("a") && getSelection().isCollapsed) e.target.closest("tr")?.querySelector("a").click();
  });

  anew();
  const stays = new AbortController().signal;
  sleep(refreshEvery).then(() => every(refreshEvery, stays, again));

  return {
    // move gives the focus to the next row or the one before.
    move(by) {
      const links = [...body.querySelectorAll("a")], at = links.indexOf(document.activeElement);
      links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
    },
    // heard refreshes the page soon when something on it has changed, or may be new.
    heard(events) {
      if (due || rounds > 2 || !events.some(e => e.session || e.type === "isolate.reset")) return;
      due = setTimeout(() => { due = undefined; again(); }, 800);
    },
    // servers are what can be filtered by.
    servers(names) {
      const now = [...byServer.options].slice(1).map(o => o.value);
      if (now.join("\n") === names.join("\n")) return;
      const chosen = byServer.value;
      fill(byServer, h("option", { value: "" }, "all servers"), names.map(n => h("option", {}, n)));
      byServer.value = names.includes(chosen) ? chosen : "";
    },
  };
}
