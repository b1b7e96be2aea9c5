// Numbers and times, in the words that people read.
import { h } from "./dom.js";

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return short(n) + " " + units[unit];
}

// short has three digits that count.
export function short(n) {
  if (n === 0) return "0";
  if (Math.abs(n) >= 100) return Math.round(n).toLocaleString("en");
  return String(+n.toPrecision(3));
}

export const count = n => n.toLocaleString("en");

export const plural = (n, one, many = one + "s") => count(n) + " " + (n === 1 ? one : many);

// took is a duration in seconds, as exact as is of use.
export function took(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 1e-3) return short(seconds * 1e6) + " µs";
  if (seconds < 1) return short(seconds * 1e3) + " ms";
  if (seconds < 60) return short(seconds) + " s";
  return span(seconds);
}

// span is a duration in seconds, in one unit or two.
function span(seconds) {
  const n = Math.floor(seconds);
  if (n < 60) return n + " s";
  if (n < 3600) return Math.floor(n / 60) + " min";
  if (n < 86400) return Math.floor(n / 3600) + " h " + Math.floor(n % 3600 / 60) + " min";
  return Math.floor(n / 86400) + " d " + Math.floor(n % 86400 / 3600) + " h";
}

// skew is how far the host's clock is ahead of this one, in milliseconds.
let skew = 0;
export const clockOfHost = now => { skew = Date.parse(now) - Date.now(); };
export const hostNow = () => Date.now() + skew;

function relative(at) {
  const seconds = (at - hostNow()) / 1000;
  if (seconds > 1) return "in " + span(seconds);
  return seconds > -1 ? "now" : span(-seconds) + " ago";
}

const absolute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const clockTime = at => clock.format(new Date(at));

// time is an element with a relative time that goes on by itself, and the absolute one
// as its title.
export function time(at, none = "–") {
  const element = h("time");
  setTime(element, at, none);
  return element;
}

export function setTime(element, at, none = "–") {
  if (!at) {
    element.removeAttribute("datetime");
    element.removeAttribute("title");
    element.textContent = none;
    return;
  }
  if (element.getAttribute("datetime") !== at) {
    element.setAttribute("datetime", at);
    element.title = absolute.format(new Date(at)) + "\n" + at;
  }
  element.textContent = relative(Date.parse(at));
}

// tick brings all relative times up to date.
export function tick() {
  for (const element of document.querySelectorAll("time[datetime]")) {
    const now = relative(Date.parse(element.dateTime));
    if (element.textContent !== now) element.textContent = now;
  }
}
