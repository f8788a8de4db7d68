// What the form asks, as a test of items; its state lives in the address, so that a link keeps it.
const form = document.getElementById("filters");
const FIELDS = ["q", "lang", "run", "options", "move", "verdict", "probe"];

const option = (value, text) => make("option", { value }, text);
const field = (name) => form.elements.namedItem(name);

function fillFilters(data) {
  const languages = [...new Set(data.items.map((item) => `${item.d} ${item.l}`))].sort();
  field("lang").append(option("", "all"), ...languages.map((name) => option(name, name)));
  const pruned = data.labels.slice(1);
  field("run").append(...pruned.map((label) => option(label, label)));
  const quadrants = Object.entries(words.quadrants);
  field("move").append(option("", "all"));
  for (const [before, from] of quadrants)
    for (const [after, to] of quadrants) field("move").append(option(`${before}-${after}`, `${from} \u2192 ${to}`));
  field("verdict").append(option("", "all"), ...Object.entries(words.verdicts).map(([key, text]) => option(key, text)));
  const probes = new Set();
  for (const item of data.items) for (const run of item.r) for (const name of Object.keys(run?.pr || {})) probes.add(name);
  field("probe").append(option("", "all"));
  for (const name of Object.keys(words.conditions).filter((known) => probes.has(known)))
    for (const [key, text] of [["right", "right"], ["wrong", "wrong"]])
      field("probe").append(option(`${name}-${key}`, `${name}: ${text}`));
  field("probe").disabled = !probes.size;
}

function readAddress() {
  const found = location.hash.match(/^#items\?(.*)$/);
  return found ? new URLSearchParams(found[1]) : null;
}

function setFilters(asked) {
  form.reset();
  for (const name of FIELDS) {
    const value = asked.get(name);
    if (value === null) continue;
    const input = field(name);
    if (input.tagName !== "SELECT" || [...input.options].some((known) => known.value === value)) input.value = value;
  }
}

function writeAddress(itemId) {
  const asked = new URLSearchParams();
  for (const name of FIELDS) {
    const input = field(name);
    const usual = input.tagName === "SELECT" ? (input.options[0]?.value ?? "") : "";
    if (input.value && input.value !== usual) asked.set(name, input.value);
  }
  if (itemId) asked.set("item", itemId);
  history.replaceState(null, "", `#items${asked.size ? `?${asked}` : ""}`);
}

const state = (run, probe) => {
  const found = run?.pr?.[probe];
  return found?.right === 1 ? "right" : found?.right === 0 ? "wrong" : undefined;
};

// Numbers of the items that the form asks for.
function chosen(data, folded) {
  const asked = Object.fromEntries(FIELDS.map((name) => [name, field(name).value]));
  const run = Math.max(1, data.labels.indexOf(asked.run, 1));
  const side = asked.options === "far" ? "qf" : "qn";
  const [before, after] = asked.move ? asked.move.split("-") : [];
  const cut = asked.probe.lastIndexOf("-");
  const [probe, wanted] = [asked.probe.slice(0, cut), asked.probe.slice(cut + 1)];
  const needle = fold(asked.q.trim());
  const passages = needle ? folded.texts.map((text) => text.includes(needle)) : null;
  const result = [];
  for (let i = 0; i < data.items.length; i++) {
    const item = data.items[i];
    const mine = item.r[run];
    if (asked.lang && `${item.d} ${item.l}` !== asked.lang) continue;
    if (asked.verdict && mine?.v !== asked.verdict) continue;
    if (asked.move && (item.r[0]?.[side] !== before || mine?.[side] !== after)) continue;
    if (asked.probe && state(mine, probe) !== wanted) continue;
    if (needle && !passages[item.p] && !folded.items[i].includes(needle)) continue;
    result.push(i);
  }
  return { numbers: result, run, side };
}
