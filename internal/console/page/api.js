// The admin API, and the token that it may ask for.

// Failure is what the API has said, or that it says nothing: status 0.
export class Failure extends Error {
  constructor(status, text, hint = "") {
    super(text);
    this.status = status;
    this.hint = hint;
  }
}

const key = "kalpa-admin-token";

export const hasToken = () => sessionStorage.getItem(key) !== null;

export function forgetToken() {
  sessionStorage.removeItem(key);
  location.reload();
}

let asking; // the promise of a token that a person is being asked for
let ask = () => Promise.reject(new Error("nobody can be asked for a token"));

// askBy sets who asks a person for the token: a function of the Failure that shows it is
// needed, which resolves to the token.
export const askBy = f => { ask = f; };

function token(why) {
  asking ??= ask(why).then(given => sessionStorage.setItem(key, given)).finally(() => { asking = undefined; });
  return asking;
}

// request asks the API, with the token where there is one; when that is refused, a person
// is asked for another and the request is made again. It returns the response, or throws
// a Failure.
export async function request(method, path, { body, headers = {}, signal } = {}) {
  for (;;) {
    if (asking) await asking;
    const held = sessionStorage.getItem(key);
    let response;
    try {
      response = await fetch(path, {
        method, signal, cache: "no-store",
        headers: { ...headers, ...(held !== null && { Authorization: "Bearer " + held }), ...(body && { "Content-Type": "application/json" }) },
        body: body && JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure(0, "the host does not answer", "is it running? this page goes on by itself when it is back");
    }
    if (response.ok) return response;
    const failure = await response.json().then(
      e => new Failure(response.status, e.error ?? response.statusText, e.hint),
      () => new Failure(response.status, "the host answers " + response.status + " " + response.statusText));
    if (failure.status !== 401) throw failure;
    if (sessionStorage.getItem(key) === held) await token(held === null ? null : failure);
  }
}

export const get = (path, signal) => request("GET", path, { signal }).then(r => r.json());
export const post = (path, body) => request("POST", path, { body }).then(r => r.json());
export const remove = path => request("DELETE", path).then(r => r.json());

// query makes a query of what is not empty.
export function query(parameters) {
  const q = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined));
  return q.size ? "?" + q : "";
}
