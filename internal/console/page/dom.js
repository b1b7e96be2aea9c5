// Elements, without markup: texts are set as texts.

// h makes an element: h("a", { class: "id", href }, "text", child, ...). A property that
// begins with "on" is a listener; one that is null, undefined or false is left out.
export function h(name, properties = {}, ...children) {
  return fill(set(document.createElement(name), properties), ...children);
}

const svgSpace = "http://www.w3.org/2000/svg";

// s is h for SVG.
export function s(name, properties = {}, ...children) {
  return fill(set(document.createElementNS(svgSpace, name), properties), ...children);
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  return element;
}

// fill makes children the content of an element.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return element;
}

export const $ = selector => document.querySelector(selector);

// text sets a text, and touches nothing when it is there already.
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
  return element;
}

// keyed makes the children of a parent those that items stand for, in their order, and
// keeps what is there: focus, selection and open details survive a refresh. Children
// that stand for no item, as the head of a table, stay before them.
export function keyed(parent, items, key, make, update) {
  const keys = [...parent.children].filter(child => child.dataset.key !== undefined);
  const old = new Map(keys.map(child => [child.dataset.key, child]));
  let at = keys[0] ?? null;
  const seen = new Map(); // clients do use an id twice at once
  for (const item of items) {
    let k = String(key(item));
    const times = (seen.get(k) ?? 0) + 1;
    seen.set(k, times);
    if (times > 1) k += " " + times;
    let child = old.get(k);
    old.delete(k);
    if (!child) {
      child = make(item);
      child.dataset.key = k;
    }
    update?.(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of old.values()) child.remove();
}
