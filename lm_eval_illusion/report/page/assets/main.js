// Ties data, form, list and item together.
const theme = document.getElementById("theme");
theme.addEventListener("change", () => (document.documentElement.style.colorScheme = theme.value));

addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.comparison")) part.open = true;
});

async function start() {
  const data = await unpack();
  const folded = { items: data.items.map(haystack), texts: data.texts.map(fold) };
  const [box, spacer, detail] = ["list", "spacer", "detail"].map((id) => document.getElementById(id));
  const count = document.getElementById("count");
  let view = { numbers: [], run: 1, side: "qn" };
  let opened = -1;

  function describe(number) {
    const item = data.items[number];
    const quadrant = (run) => words.quadrants[run?.[view.side]] ?? DASH;
    const moved = `${quadrant(item.r[0])} \u2192 ${quadrant(item.r[view.run])}`;
    const verdict = words.verdicts[item.r[view.run]?.v];
    return [
      make("bdi", { class: "ask", dir: "auto" }, item.q || item.id),
      make("div", { class: "what" }, `${item.l} \u00b7 ${moved}`),
      make("div", { class: "what" }, verdict ? `${verdict} \u00b7 ` : "", make("bdi", {}, item.id)),
    ];
  }

  function open(number, byHand) {
    opened = number;
    const item = data.items[number];
    const back = make("button", { type: "button", class: "back" }, "Back to the list");
    back.addEventListener("click", () => (box.focus(), box.scrollIntoView({ block: "center" })));
    detail.replaceChildren(...describeItem(data, item), back);
    writeAddress(item.id);
    if (byHand) detail.focus({ preventScroll: matchMedia("(min-width: 50rem)").matches });
  }

  function filter() {
    performance.mark("filter-start");
    view = chosen(data, folded);
    const kept = view.numbers.includes(opened);
    if (!kept) {
      opened = -1;
      detail.replaceChildren(make("p", { class: "note" }, "Choose an item to see it in full."));
    }
    list.show(view.numbers, opened);
    count.textContent = `${view.numbers.length} of ${data.items.length} items.`;
    performance.measure("filter", "filter-start");
  }

  function follow() {
    const asked = readAddress();
    if (!asked) return;
    setFilters(asked);
    filter();
    const place = view.numbers.findIndex((number) => data.items[number].id === asked.get("item"));
    if (place >= 0) list.select(place, false);
    document.getElementById("items").scrollIntoView();
  }

  const list = makeList(box, spacer, { describe, open });
  fillFilters(data);
  form.hidden = false;
  document.getElementById("browser").hidden = false;
  filter();
  follow();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => (filter(), writeAddress(data.items[opened]?.id)));
  form.addEventListener("reset", () => setTimeout(() => (filter(), writeAddress(data.items[opened]?.id))));
  detail.addEventListener("keydown", (event) => event.key === "Escape" && box.focus());
  addEventListener("hashchange", follow);
  performance.mark("items-ready");
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  document.getElementById("count").textContent =
    `The items cannot be shown in this browser (${error.message}); items.jsonl beside this page holds them.`;
});
