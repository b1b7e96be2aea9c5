// Events and activities, in words.
import { plural, took } from "./format.js";

const kinds = {
  "session.opened": "open", "session.ended": "end", "runtime.built": "built", "runtime.failed": "bad", "runtime.disposed": "gone",
  "execution.lost": "bad", "object.reset": "reset", "isolate.reset": "reset", gap: "gap", "request.settled": "plain", "alarm.run": "plain",
};

// kindOf is the class of a row that shows it.
export const kindOf = e => e.type === "request.settled" && e.outcome !== "result" ? "warn" : kinds[e.type] ?? "plain";

const reasons = {
  idle: "it was idle", exited: "it ended by itself", ended: "its session ended", operator: "an operator asked for it", reset: "its session was reset",
  shutdown: "the host shut down", build_failed: "it could not be built", deleted: "its client deleted it", expired: "its lifetime is over",
  not_initialized: "its client never initialized it",
};
const why = e => e.reason ? ": " + (reasons[e.reason] ?? e.reason) : "";
const request = e => (e.method ?? "a request") + (e.tool ? " " + e.tool : "");

// describe says what has happened, without whom it is about.
export function describe(e) {
  switch (e.type) {
    case "session.opened": return "session opened";
    case "session.ended": return "session ended" + why(e);
    case "runtime.built": return "runtime built";
    case "runtime.failed": return "runtime could not be built" + (e.detail ? ": " + e.detail : "");
    case "runtime.disposed": return "runtime disposed" + why(e);
    case "execution.lost": return `execution lost: ${request(e)} (${e.reason})`;
    case "object.reset": return `${e.class ? "object" : "session"} reset: ${e.reason}${e.detail ? ", " + e.detail : ""}`;
    case "isolate.reset": return `isolate ${e.isolate} reset: ${e.reason}, ${plural(e.objects ?? 0, "object")}${e.detail ? ", " + e.detail : ""}`;
    case "gap": return "events are missing: the host was started again, or there were too many";
    case "alarm.run": return "alarm ran";
    case "request.settled": return `${request(e)}: ${e.outcome}${e.reason ? " (" + e.reason + ")" : ""} in ${took(e.took ?? 0)}`;
  }
  return e.type + why(e);
}
