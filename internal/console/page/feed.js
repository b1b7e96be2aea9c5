// The live feed: what happens on the host, newest first.
import { $, h, text } from "./dom.js";
import { follow } from "./events.js";
import { clockTime } from "./format.js";
import { describe, kindOf } from "./happening.js";
import { linkTo } from "./session.js";

const most = 200; // rows

const filters = [
  ["builds", e => e.type === "runtime.built" || e.type === "runtime.failed"],
  ["disposals", e => e.type === "runtime.disposed"],
  ["resets", e => e.type.endsWith(".reset")],
  ["lost", e => e.type === "execution.lost"],
  ["sessions", e => e.type.startsWith("session.")],
];

export function feed(heard) {
  const list = $("#feed"), state = $("#feed-state"), pause = $("#pause");
  const off = new Set();
  let rows = [];     // the latest events, newest first, shown or not
  let held = [];     // those that have come since the pause
  let missed = 0, paused = false;

  for (const [name] of filters) {
    const box = h("input", { type: "checkbox", id: "show-" + name });
    box.checked = true;
    box.addEventListener("change", () => { box.checked ? off.delete(name) : off.add(name); redraw(); });
    $("#feed-types").append(h("label", { for: box.id }, box, name));
  }
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    if (!paused) { add(held); held = []; missed = 0; }
    label();
  });
  const label = () => text(pause, paused ? "Resume" + (missed ? ` (${missed} new)` : "") : "Pause");

  const passes = e => !filters.some(([name, is]) => off.has(name) && is(e));

  function redraw() {
    list.replaceChildren(...rows.filter(passes).map(row));
    $("#no-events").hidden = list.childElementCount > 0;
  }

  // add puts events, oldest first, on top.
  function add(events) {
    const latest = events.slice(-most).reverse();
    rows = [...latest, ...rows].slice(0, most);
    list.prepend(...latest.filter(passes).map(row));
    while (list.childElementCount > most) list.lastChild.remove();
    $("#no-events").hidden = list.childElementCount > 0;
  }

  follow({ from: "start" }, {
    signal: new AbortController().signal,
    told(events) {
      heard(events);
      if (!paused) return add(events);
      held = [...held, ...events].slice(-most);
      missed += events.length;
      label();
    },
    state(now, why) {
      text(state, { live: "live", lost: "connection lost, retrying" }[now]).className = "pill " + (now === "live" ? "good" : "bad");
      state.title = why ? why.message + (why.hint ? "\n" + why.hint : "") : "";
    },
  });
}

function row(e) {
  const about = e.session ? h("a", { class: "id", href: linkTo(e.session), title: e.session }, e.session.slice(0, 10) + "…") : e.class ? h("span", { class: "id" }, e.class + " " + e.name) : null;
  return h("li", { class: kindOf(e), "data-type": e.type, "data-session": e.session },
    h("span", { class: "when", title: new Date(e.at).toString() }, clockTime(e.at)),
    h("span", { class: "what", title: describe(e) }, describe(e)),
    h("span", { class: "where" }, about, e.server && h("span", {}, e.server), e.isolate !== undefined && e.type !== "isolate.reset" && h("span", {}, "isolate " + e.isolate)));
}
