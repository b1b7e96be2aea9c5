// Puts the page together.
import { $, h, fill, text } from "./dom.js";
import { askBy, forgetToken, hasToken } from "./api.js";
import { tick } from "./format.js";
import { overview } from "./overview.js";
import { servers } from "./servers.js";
import { sessions } from "./sessions.js";
import { session } from "./session.js";
import { object } from "./object.js";
import { feed } from "./feed.js";

askBy(why => new Promise(resolve => {
  const dialog = $("#token");
  const input = h("input", { type: "password", id: "token-input", autocomplete: "off", autofocus: true, required: true });
  fill(dialog, h("form", { method: "dialog" },
    h("h2", { id: "token-title" }, "This host asks for its admin token"),
    h("p", {}, "It is in the file that --admin-token-file names, or in KALPA_ADMIN_TOKEN. The page keeps it until this tab is closed."),
    why && h("p", { class: "failure", role: "alert" }, h("b", {}, "That was not it: "), why.message),
    h("label", { for: "token-input" }, "Token"), input,
    h("div", { class: "actions" }, h("button", { class: "first" }, "Continue"))));
  dialog.oncancel = e => e.preventDefault(); // there is nothing without it
  dialog.onclose = () => {
    if (!input.value.trim()) return dialog.showModal();
    $("#forget").hidden = false;
    resolve(input.value.trim());
  };
  if (!dialog.open) dialog.showModal();
}));
$("#forget").hidden = !hasToken();
$("#forget").addEventListener("click", forgetToken);

const themes = ["auto", "light", "dark"];
function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  localStorage.setItem("kalpa-theme", name);
  text($("#theme"), { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[name]);
  $("#theme").setAttribute("aria-label", "Colours: " + name + ". Change them");
}
const chosen = () => document.documentElement.dataset.theme ?? "auto";
theme(chosen());
$("#theme").addEventListener("click", () => theme(themes[(themes.indexOf(chosen()) + 1) % themes.length]));

const shortcuts = () => $("#shortcuts").showModal();
$("#keys").addEventListener("click", shortcuts);

const list = sessions();
servers(list);
const panel = session();
object();
overview();
feed(events => { list.heard(events); panel.heard(events); });

document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  const writing = e.target.closest("input, select, textarea");
  if (writing && !(e.target.id === "search" && e.key === "ArrowDown")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const does = {
    "/": () => $("#search").focus(), "?": shortcuts,
    j: () => list.move(1), k: () => list.move(-1), ArrowDown: () => list.move(1), ArrowUp: () => list.move(-1),
    n: () => $("#next").click(), p: () => $("#previous").click(),
  }[e.key];
  // The arrows scroll the page, unless a session is in focus or is to be.
  if (!does || (e.key.startsWith("Arrow") && !writing && !document.activeElement.closest("#rows"))) return;
  e.preventDefault();
  does();
});

setInterval(tick, 1000);
