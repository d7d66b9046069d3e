"use strict";

// Elements from plain calls, and a comparison that changes only what differs: the page refreshes without flicker.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "g", "path", "rect", "text", "title", "circle"]);

function h(tag, props, ...children) {
  const element = SHAPES.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "onclick") element.onclick = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

function told(text) {
  return String(text ?? "").split("`").map((part, number) => (number % 2 ? h("code", {}, part) : part));
}

function keyOf(node) {
  return node.dataset ? node.dataset.key : undefined;
}

function alike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function sync(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of [...fresh.attributes])
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes])
    if (name !== "style" && name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  old.onclick = fresh.onclick;
  if (!("own" in fresh.dataset)) patch(old, [...fresh.childNodes]);
}

function patch(parent, wanted) {
  const known = new Map();
  for (const child of parent.children) if (keyOf(child) !== undefined) known.set(keyOf(child), child);
  let at = parent.firstChild;
  for (const fresh of wanted) {
    const old = keyOf(fresh) === undefined ? at : known.get(keyOf(fresh));
    if (!old || !alike(old, fresh)) {
      parent.insertBefore(fresh, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    sync(old, fresh);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Figures as people read them.

const known = (value) => value !== null && value !== undefined;
const percent = (ratio) => (known(ratio) ? `${Math.round(ratio * 100)} %` : "–");
const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

function gib(bytes) {
  const value = bytes / 2 ** 30;
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

function watts(value) {
  return value >= 1000 ? `${(value / 1000).toFixed(1)} kW` : `${Math.round(value)} W`;
}

function span(seconds) {
  const steps = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, unit] of steps) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.max(0, Math.round(seconds))} s`;
}

function clock(unix) {
  return new Date(unix * 1000).toLocaleString();
}
