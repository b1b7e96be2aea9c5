// A panel at the side that opens and closes with the address: what is open can be shared,
// and the way back closes it.
import { $, h } from "./dom.js";

// drawer opens the dialog with this name while the address names something: #NAME=ID.
// show(dialog, id, signal) fills and shows it, until signal. The result is what is open.
export function drawer(name, show) {
  const dialog = $("#" + name);
  let open;
  function route() {
    const id = new URLSearchParams(location.hash.slice(1)).get(name);
    if (open && open.id !== id) {
      open.end.abort();
      open = undefined;
      if (!id && dialog.open) dialog.close();
    }
    if (id && !open) {
      open = { id, end: new AbortController() };
      show(dialog, id, open.end.signal);
    }
  }
  dialog.addEventListener("close", () => {
    if (!open) return;
    open.end.abort();
    open = undefined;
    history.pushState(null, "", location.pathname);
  });
  // A click beside it closes it, as Esc does.
  dialog.addEventListener("click", e => { if (e.target === dialog) dialog.close(); });
  addEventListener("hashchange", route);
  addEventListener("popstate", route);
  route();
  return () => open?.id;
}

export const closer = dialog =>
  h("button", { type: "button", autofocus: true, "aria-label": "Close", title: "Close (Esc)", onclick: () => dialog.close() }, "✕");
