// What the API refuses or does not answer, shown with its hint until it is over.
import { $, h, fill } from "./dom.js";

const all = new Map();

// trouble shows an error of some part of the page; without one, that part is well.
export function trouble(part, error) {
  if (error) all.set(part, error);
  else if (!all.delete(part)) return;
  const bar = $("#trouble");
  const distinct = new Map([...all.values()].map(e => [e.message, e]));
  fill(bar, [...distinct.values()].map(failure));
  bar.hidden = all.size === 0;
}

// failure is an error in words, with its hint.
export const failure = e => h("p", { class: "failure" }, h("b", {}, e.message), e.hint && h("span", { class: "hint" }, e.hint));

const where = $("#said");
let over;

// said tells what was done, for a while.
export function said(words) {
  (document.querySelector("#session[open]") ?? document.body).append(where); // beside an open dialog nothing is heard
  fill(where, h("span", {}, words));
  clearTimeout(over);
  over = setTimeout(() => fill(where), 8000);
}
