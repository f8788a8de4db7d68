// The packed items: base64, gzip, JSON. pack.py says what the short names mean.
const words = JSON.parse(document.getElementById("words").textContent);
const DASH = "\u2013";

async function unpack() {
  const text = document.getElementById("data").textContent;
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = JSON.parse(await new Response(stream).text());
  document.getElementById("data").textContent = "";
  return data;
}

const fold = (text) => text.normalize("NFC").toLowerCase();

// Everything of an item that a search looks through, but the passage: those are folded once each.
function haystack(item) {
  const parts = [item.id, item.q, item.g, ...(item.a || []), ...(item.n?.o || []), ...(item.f?.o || [])];
  for (const run of item.r) {
    if (run?.g?.a) parts.push(run.g.a);
    for (const state of Object.values(run?.pr || {})) parts.push(state.answer || "", ...(state.answers || []));
  }
  return fold(parts.join("\n"));
}

// Elements are made here alone, and texts only ever set as text.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const foreign = (text) => make("bdi", { class: "foreign", dir: "auto" }, text);
