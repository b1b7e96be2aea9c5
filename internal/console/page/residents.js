// Who holds an isolate's heap: a segment of its bar for each of the largest.
import { h, keyed } from "./dom.js";
import { bytes, plural } from "./format.js";
import { linkTo } from "./session.js";
import { linkToObject } from "./object.js";

// most is how many of an isolate have a segment of their own.
export const most = 40;

const sessions = "mcp-session";

// residents is the filled part of a bar. say is told what the pointer or the focus is on,
// and "" when it is on none.
export function residents(number, say) {
  const bar = h("ul", { class: "bar-heap", "aria-label": "residents of isolate " + number });
  const parts = () => [...bar.querySelectorAll("a, span")];
  const tell = e => say(e.target.closest("a, span")?.title ?? "");
  for (const on of ["pointerover", "focusin"]) bar.addEventListener(on, tell);
  for (const off of ["pointerleave", "focusout"]) bar.addEventListener(off, () => say(""));
  // One stop for the tabulator; the arrows go from one to the next.
  bar.addEventListener("focusin", e => { for (const part of parts()) part.tabIndex = part === e.target ? 0 : -1; });
  bar.addEventListener("keydown", e => {
    const all = parts(), at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[e.key];
    if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    all[to]?.focus();
  });
  return bar;
}

// draw fills it.
export function draw(bar, isolate) {
  const held = isolate.holders ?? [], rest = isolate.heap - held.reduce((sum, r) => sum + r.bytes, 0);
  const segments = held.map(r => ({ ...r, key: r.class + "/" + r.name + (r.abandoned ? " abandoned" : ""), title: `${r.class === sessions ? "session" : r.class} ${r.name}: ${bytes(r.bytes)}` + (r.abandoned ? ", of a turn that was abandoned" : "") }));
  if (rest > 0) segments.push({ key: "", bytes: rest, title: `the other ${plural(Math.max(isolate.objects - held.length, 0), "object")}: ${bytes(rest)}` });
  const focused = bar.contains(document.activeElement) && document.activeElement;
  keyed(bar, segments, s => s.key, s => h("li", {}, s.key === "" ? h("span", { class: "rest", tabindex: -1 }) : h("a", { href: s.class === sessions ? linkTo(s.name) : linkToObject(s.class, s.name), tabindex: -1 })), (li, s) => {
    li.style.flexGrow = s.bytes;
    const part = li.firstChild;
    part.title = s.title;
    part.setAttribute("aria-label", s.title);
  });
  if (focused && focused.isConnected) focused.focus(); // one that is moved loses it
  const stops = bar.querySelectorAll('[tabindex="0"]');
  if (stops.length === 0 && bar.firstChild) bar.firstChild.firstChild.tabIndex = 0;
}
