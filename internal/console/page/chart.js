// Curves over the last minutes, drawn as SVG, with the values where the pointer is.
import { h, s, fill, text } from "./dom.js";
import { clockTime, hostNow } from "./format.js";

const height = 170, left = 52, right = 10, top = 10, bottom = 22;

// chart makes a chart of samples. lines are {name, class, of: sample -> number or null},
// where null is a gap; format turns a value into words; log: a step up is ten times as
// much. empty is what is said when there is nothing to draw. The result has the element,
// and draw(samples).
export function chart({ title, note, window, lines, format, empty, log = false }) {
  const svg = s("svg", { height, role: "img", tabindex: 0 });
  const read = h("span", { class: "read" });
  const nothing = h("p", { class: "nothing" }, empty);
  const legend = h("ul", { class: "legend" }, lines.map(l => h("li", {}, h("span", { class: "key " + l.class }), l.name, " ", h("b"))));
  const element = h("section", { class: "card chart" },
    h("header", {}, h("h2", {}, title), legend),
    h("div", { class: "plot" }, svg, nothing),
    h("p", { class: "foot" }, h("span", {}, note), read));
  let samples = [], width = 0, scale;
  let cursor = null; // the place of the sample that is read

  function draw() {
    width = svg.clientWidth || 400;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const end = hostNow(), begin = end - window * 1000;
    const x = at => left + (Date.parse(at) - begin) / (end - begin) * (width - left - right);
    const shown = samples.filter(p => Date.parse(p.at) >= begin);
    const values = shown.flatMap(p => lines.map(l => l.of(p))).filter(v => v !== null);
    const { share, ticks } = (log ? decades : linear)(values);
    const y = v => height - bottom - share(v) * (height - top - bottom);
    const parts = [];
    for (const v of ticks) {
      parts.push(s("line", { class: share(v) ? "grid" : "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
        s("text", { class: "tick end", x: left - 7, y: y(v) + 4 }, format(v)));
    }
    for (let m = 0; m <= window / 60; m += width < 330 ? window / 60 : 5) {
      const at = left + m * 60 / window * (width - left - right), before = window / 60 - m;
      parts.push(s("text", { class: "tick " + (m === 0 ? "" : before ? "mid" : "end"), x: at, y: height - 5 }, before ? `−${before} min` : "now"));
    }
    for (const l of lines) {
      let path = "", open = false, previous;
      for (const [n, p] of shown.entries()) {
        const v = l.of(p);
        if (v === null) { open = false; continue; }
        const next = n + 1 < shown.length ? l.of(shown[n + 1]) : null;
        if (!open && next === null) parts.push(s("circle", { class: "lone " + l.class, cx: x(p.at), cy: y(v), r: 2.5 }));
        path += (open && Date.parse(p.at) - previous < 60000 ? "L" : "M") + x(p.at).toFixed(1) + " " + y(v).toFixed(1);
        open = true;
        previous = Date.parse(p.at);
      }
      if (path) parts.push(s("path", { class: "line " + l.class, d: path }));
    }
    scale = { shown, x, y };
    fill(svg, parts, s("g", { class: "cursor" }));
    const latest = shown.at(-1);
    lines.forEach((l, n) => text(legend.children[n].querySelector("b"), latest && l.of(latest) !== null ? format(l.of(latest)) : "–"));
    nothing.hidden = values.length > 0;
    svg.setAttribute("aria-label", title + ": " + (latest ? say(latest) : empty));
    point();
  }

  const say = p => lines.map(l => l.name + " " + (l.of(p) === null ? "–" : format(l.of(p)))).join(", ");

  // point marks the sample that is read.
  function point() {
    const group = svg.querySelector(".cursor"), p = cursor !== null && scale.shown[Math.min(cursor, scale.shown.length - 1)];
    if (!p) {
      if (group) fill(group);
      text(read, "");
      return;
    }
    fill(group, s("line", { x1: scale.x(p.at), x2: scale.x(p.at), y1: top, y2: height - bottom }),
      lines.filter(l => l.of(p) !== null).map(l => s("circle", { class: l.class, cx: scale.x(p.at), cy: scale.y(l.of(p)), r: 4 })));
    text(read, clockTime(p.at) + "  " + say(p));
  }

  svg.addEventListener("pointermove", e => {
    const at = e.clientX - svg.getBoundingClientRect().left;
    let best = null;
    scale?.shown.forEach((p, n) => { if (best === null || Math.abs(scale.x(p.at) - at) < Math.abs(scale.x(scale.shown[best].at) - at)) best = n; });
    cursor = best;
    point();
  });
  svg.addEventListener("pointerleave", () => { cursor = null; point(); });
  svg.addEventListener("keydown", e => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!by || !scale?.shown.length) return;
    e.preventDefault();
    e.stopPropagation();
    cursor = Math.max(0, Math.min(scale.shown.length - 1, (cursor ?? scale.shown.length) + by));
    point();
  });
  svg.addEventListener("blur", () => { cursor = null; point(); });
  new ResizeObserver(() => { if (svg.clientWidth !== width) draw(); }).observe(svg);
  return { element, draw: all => { samples = all; draw(); } };
}

// An axis has ticks, and the share of its height at which a value is.

// linear begins at zero, and has at most five steps.
function linear(values) {
  const most = Math.max(0, ...values);
  const power = 10 ** Math.floor(Math.log10(most / 4));
  const step = most > 0 ? [1, 2, 2.5, 5, 10].map(m => m * power).find(m => m * 4 >= most * 0.999) : 1;
  const steps = most > 0 ? Math.ceil(most / step * 0.999) : 1;
  return { share: v => v / (step * steps), ticks: Array.from({ length: steps + 1 }, (_, n) => n * step) };
}

// decades goes from one power of ten to another.
function decades(values) {
  if (values.length === 0) values = [1e-3, 1];
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9));
  return { share: v => (Math.log10(v) - low) / (high - low), ticks: Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n)) };
}
