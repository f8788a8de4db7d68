// One item in full: question, passage with the gold marked, options with scores, every answer of every run.
function marked(passage, golds) {
  const found = golds.map((gold) => [gold, passage.indexOf(gold)]).filter(([gold, at]) => gold && at >= 0);
  if (!found.length) {
    const low = passage.toLowerCase();
    for (const gold of golds) {
      const at = gold && low.length === passage.length ? low.indexOf(gold.toLowerCase()) : -1;
      if (at >= 0) found.push([passage.slice(at, at + gold.length), at]);
    }
  }
  if (!found.length) return [passage];
  const gold = found[0][0];
  return passage.split(gold).flatMap((part, i) => (i ? [make("mark", {}, gold), part] : [part]));
}

function grid(caption, columns, rows) {
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, make("bdi", {}, name))));
  const body = rows.map(([first, ...rest]) =>
    make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((cell) => make("td", {}, cell))),
  );
  const table = make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, table);
}

// Right and wrong by a sign and by words, never by colour alone.
function judged(right, content) {
  if (right === undefined || right === null) return content;
  const said = make("span", { class: "sr" }, right ? "right: " : "wrong: ");
  return make("span", { class: right ? "right" : "wrong" }, said, content);
}

const number = (value, places) => (typeof value === "number" ? value.toFixed(places).replace("-", "\u2212") : DASH);

function optionRows(options, side, runs) {
  return options.o.map((text, i) => {
    const gold = i === options.g;
    const cells = runs.map((run) => {
      const half = run?.[side];
      if (!half) return DASH;
      if (half.i) return `invalid: ${half.i}`;
      const score = half.s?.[i];
      const each = typeof score === "number" ? score / Math.max(1, [...text].length) : undefined;
      const told = `${number(each, 3)} (${number(score, 2)})`;
      return half.p === i ? judged(gold ? 1 : 0, `${told}, picked`) : told;
    });
    const source = options.s?.[i] ?? "";
    return [make("span", {}, foreign(text), make(gold ? "strong" : "span", { class: "source" }, gold ? "right answer" : source)), ...cells];
  });
}

function told(found) {
  if (found.invalid_reason) return `invalid: ${found.invalid_reason}`;
  if (found.answers) return make("ol", {}, ...found.answers.map((answer) => make("li", {}, foreign(answer || "(empty)"))));
  if (found.answer !== undefined) return foreign(found.answer || "(empty)");
  if (found.picked !== undefined) return foreign(found.picked);
  const rest = Object.entries(found).filter(([key]) => !["right", "control", "item_control", "right_far", "right_first"].includes(key));
  return rest.map(([key, value]) => `${key.replaceAll("_", " ")} ${shown(value)}`).join(", ") || DASH;
}

function shown(value) {
  if (value && typeof value === "object") return Object.entries(value).map(([k, v]) => `${k} ${shown(v)}`).join(", ");
  return typeof value === "number" && !Number.isInteger(value) ? number(value, 2) : String(value);
}

function answerRows(item) {
  const rows = [];
  const opened = item.r.map((run) => {
    if (!run?.g) return DASH;
    if (run.g.i) return `invalid: ${run.g.i}`;
    return judged(run.g.r, foreign(run.g.a || "(empty)"));
  });
  rows.push(["open answer", ...opened]);
  for (const name of Object.keys(words.conditions)) {
    if (!item.r.some((run) => run?.pr?.[name])) continue;
    const cells = item.r.map((run) => (run?.pr?.[name] ? judged(run.pr[name].right, told(run.pr[name])) : DASH));
    rows.push([make("span", { title: words.conditions[name] }, `${name}: ${words.conditions[name]}`), ...cells]);
  }
  return rows;
}

function stateRows(item) {
  const each = (text) => item.r.map((run) => (run ? text(run) || DASH : DASH));
  return [
    ["near options", ...each((run) => words.quadrants[run.qn])],
    ["far options", ...each((run) => words.quadrants[run.qf])],
    ["verdict", ...each((run) => words.verdicts[run.v])],
    ["brought back by", ...each((run) => (run.by || []).join(", "))],
    ["rank of the first token", ...each((run) => run.k && String(run.k))],
    ["form of the open answer", ...each((run) => (run.x || []).join(", ").replaceAll("_", " "))],
  ];
}

function describeItem(data, item) {
  const golds = [item.g, ...(item.a || [])].filter(Boolean);
  const columns = (first) => [first, ...data.labels];
  const parts = [
    make("h3", {}, make("bdi", { dir: "auto" }, item.id)),
    make("p", { class: "note" }, `${item.d}, ${item.l}, passage `, make("bdi", {}, item.c || DASH)),
    make("p", {}, make("strong", {}, "Question"), foreign(item.q || DASH)),
    make("p", {}, make("strong", {}, "Right answers"), ...(golds.length ? golds : [DASH]).map(foreign)),
    make("h4", {}, "Passage"),
  ];
  const passage = foreign("");
  passage.replaceChildren(...marked(data.texts[item.p] || "(not kept)", golds));
  parts.push(make("div", { class: "passage", tabindex: "0", role: "group", "aria-label": "Passage" }, passage));
  parts.push(grid("Answers under every condition", columns("condition"), answerRows(item)));
  for (const [side, key, word] of [["near", "n", "Near"], ["far", "f", "Far"]]) {
    if (!item[key]) continue;
    const caption = `${word} options: log-probability per character (sum)`;
    parts.push(grid(caption, columns("option"), optionRows(item[key], key, item.r)));
  }
  parts.push(grid("What became of it", columns("what"), stateRows(item)));
  return parts;
}
