// Sorts and filters the overview, and sorts the matrix.
const collator = new Intl.Collator("en", { numeric: true });

function sorted(parts, value, isDescending) {
  const order = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);
  return [...parts].sort((a, b) => (isDescending ? -1 : 1) * order(value(a), value(b)));
}

const cells = document.getElementById("grid");
document.getElementById("sort")?.addEventListener("change", ({ target: { value: key } }) => {
  const value = (cell) => (key === "name" ? cell.dataset.name : Number(cell.dataset[key]));
  cells.append(...sorted(sorted(cells.children, (cell) => Number(cell.dataset.index)), value, key === "growth" || key === "cost"));
});

for (const button of document.querySelectorAll(".classes .class")) {
  button.addEventListener("click", () => {
    const isOn = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", isOn);
    for (const cell of cells.children) if (cell.dataset.class === button.dataset.class) cell.hidden = !isOn;
  });
}

const matrix = document.getElementById("table");
for (const button of matrix?.querySelectorAll("thead button") ?? []) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const column = [...head.parentElement.children].indexOf(head);
    const isDescending = head.getAttribute("aria-sort") !== "descending" && button.dataset.key !== "name";
    const value = (row) => (column ? Number(row.children[column].dataset.value) : row.dataset.name);
    for (const other of head.parentElement.children) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    matrix.tBodies[0].append(...sorted(matrix.tBodies[0].rows, value, isDescending));
  });
}
