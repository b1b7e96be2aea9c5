// What an operator may do, once they have said that they mean it.
import { $, h, fill } from "./dom.js";
import { post, query, remove } from "./api.js";
import { plural } from "./format.js";
import { failure, said } from "./trouble.js";

// Why a reset is said to have happened: the causes that the API knows.
export const causes = [
  "aborted", "memory_limit", "cache_overflow", "cpu_limit", "storage_timeout", "code_updated", "critical_timeout", "constructor_failed",
  "commit_failed", "superseded", "panic", "shutdown",
];

// confirm asks, and does it when the answer is yes. What the API refuses is shown, and
// can be tried again. Focus begins at Cancel, and goes back to where it was.
function confirm({ title, note, more, yes, run }) {
  const dialog = $("#confirm"), problem = h("div", { role: "alert" });
  const go = h("button", { type: "button", class: "danger first" }, yes);
  go.addEventListener("click", async () => {
    go.disabled = true;
    fill(problem);
    try {
      said(await run());
      dialog.close();
    } catch (error) {
      fill(problem, failure(error));
    }
    go.disabled = false;
  });
  fill(dialog, h("h2", { id: "confirm-title" }, title), h("p", {}, note), more, problem,
    h("div", { class: "actions" }, h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Cancel"), go));
  dialog.showModal();
}

const owes = owed => owed ? ` It owes ${plural(owed, "answer")}: ${owed === 1 ? "it is" : "they are"} answered as lost.` : "";

export function confirmDispose(id, owed) {
  const box = h("input", { type: "checkbox", id: "force" });
  confirm({
    title: "Dispose of the runtime?", yes: "Dispose runtime",
    note: `Session ${id} stays, and its next request builds another runtime. What the runtime kept in memory alone is gone.`,
    more: h("label", { for: "force" }, box, " also when it owes answers: they are answered as lost" + (owed ? ` (it owes ${owed} now)` : "")),
    run: async () => (await post(`/v1/sessions/${encodeURIComponent(id)}/dispose` + query({ force: box.checked }))).was ? "The runtime is being disposed of." : "There was no runtime.",
  });
}

export function confirmEnd(id, owed) {
  confirm({
    title: "End the session for good?", yes: "End session",
    note: `Session ${id} is over for its client, as if it had deleted it.${owes(owed)} This can't be undone.`,
    run: async () => { await remove("/v1/sessions/" + encodeURIComponent(id)); return "The session has ended."; },
  });
}

// confirmReset resets { session } or { isolate }.
export function confirmReset(target) {
  const choice = h("select", { id: "cause" }, causes.map(c => h("option", {}, c)));
  const what = target.session ? "session" : "isolate " + target.isolate;
  confirm({
    title: target.session ? "Reset the session?" : `Reset isolate ${target.isolate}?`, yes: "Reset " + what,
    note: (target.session ? `What session ${target.session} has in memory is gone, its runtime too; what is stored stays.` : `All that is in the memory of isolate ${target.isolate} is gone, runtimes too; what is stored stays.`) +
      " Executions that are under way are answered as lost.",
    more: h("label", { for: "cause" }, "Cause, as clients are told ", choice),
    run: async () => {
      const was = await post("/v1/reset", { ...target, cause: choice.value, reason: "asked for in the console" });
      return target.session ? "The session was reset." : `Isolate ${target.isolate} was reset, with ${plural(was.objects, "object")}.`;
    },
  });
}
