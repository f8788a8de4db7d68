// A list that holds only the rows in sight; the keys of a listbox, and its place told to screen readers.
const HEIGHT = 72;

function makeList(box, spacer, { describe, open }) {
  let numbers = [];
  let current = -1;
  const rows = new Map();

  function draw() {
    const first = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - 4);
    const last = Math.min(numbers.length, Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + 4);
    for (const [place, row] of rows) if (place < first || place >= last) (row.remove(), rows.delete(place));
    for (let place = first; place < last; place++) {
      let row = rows.get(place);
      if (!row) {
        row = make("div", { role: "option", id: `row-${place}`, class: "row", style: `top:${place * HEIGHT}px` });
        row.setAttribute("aria-setsize", numbers.length);
        row.setAttribute("aria-posinset", place + 1);
        row.append(...describe(numbers[place]));
        row.addEventListener("click", () => select(place, true));
        rows.set(place, row);
        spacer.append(row);
      }
      row.setAttribute("aria-selected", place === current);
    }
    if (rows.has(current)) box.setAttribute("aria-activedescendant", `row-${current}`);
    else box.removeAttribute("aria-activedescendant");
  }

  function show(found, keep) {
    numbers = found;
    for (const row of rows.values()) row.remove();
    rows.clear();
    spacer.style.height = `${numbers.length * HEIGHT}px`;
    current = numbers.indexOf(keep);
    box.scrollTop = Math.max(0, current) * HEIGHT;
    draw();
  }

  function select(place, byHand) {
    if (!numbers.length) return;
    current = Math.max(0, Math.min(numbers.length - 1, place));
    const top = current * HEIGHT;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = top + HEIGHT - box.clientHeight;
    draw();
    open(numbers[current], byHand);
  }

  const page = () => Math.max(1, Math.floor(box.clientHeight / HEIGHT) - 1);
  const STEPS = {
    ArrowDown: () => current + 1,
    ArrowUp: () => current - 1,
    PageDown: () => current + page(),
    PageUp: () => current - page(),
    Home: () => 0,
    End: () => numbers.length - 1,
  };
  box.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  new ResizeObserver(draw).observe(box);
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in STEPS) select(STEPS[event.key](), false);
    else if (event.key === "Enter" && current >= 0) select(current, true);
    else return;
    event.preventDefault();
  });
  return { show, select };
}
