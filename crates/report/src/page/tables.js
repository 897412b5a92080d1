// The points of a chart as a table, which is created when the reader opens it.
function row(kind, cells) {
  return element("tr", {}, ...cells.map((text) => element(kind, { textContent: text })));
}

function grid(head, rows) {
  const made = element("table", {}, element("tbody", {}, ...rows.map((cells) => row("td", cells))));
  if (head.length) made.prepend(element("thead", {}, row("th", head)));
  made.querySelectorAll("th").forEach((cell) => { cell.scope = "col"; });
  return made;
}

function pointRows(data) {
  return data.groups.flatMap(({ name, points }) => points.map(([n, ns, low, high, passes]) =>
    [name, count(n), duration(ns), durations(low, high), passes]));
}

// A curve of few calls is drawn, but none of its points has enough calls for an interval.
function pointTable(rows) {
  if (!rows.length) return [element("p", { textContent: "No points: too few calls for an interval." })];
  return [grid(["Curve", "n", "Cost", "95% interval", "Passes"], rows)];
}

const shares = ["minimum", "median", "90th percentile", "99th percentile", "99.9th percentile", "maximum"];

function callTables({ density, groups: [{ outliers, outlier_count: total }] }) {
  const tables = [grid([], density.quantiles.map((ns, i) => [shares[i], duration(ns)]))];
  if (!outliers.length) return tables;
  const rows = outliers.map(([n, low, , high, passes, of]) => [count(n), `${passes} of ${of} passes`, durations(low, high)]);
  tables.push(grid(["n", "Recurs in", "Cost"], rows));
  if (total > rows.length) tables.push(element("p", { textContent: `and ${count(total - rows.length)} more` }));
  return tables;
}

for (const details of document.querySelectorAll("details.points")) {
  details.addEventListener("toggle", async () => {
    if (!details.open || details.querySelector(".scroll")) return;
    const figure = details.closest("figure");
    const place = element("div", { className: "scroll", tabIndex: 0 });
    place.setAttribute("role", "region");
    // Region names must differ, so that screen readers can list them.
    place.setAttribute("aria-label", `${details.textContent.trim()} of ${figure.dataset.chart}, ${figure.querySelector("strong").textContent}`);
    details.append(place);
    await unpackFigure(figure);
    const data = compose(figure);
    place.append(...(data.density ? callTables(data) : pointTable(pointRows(data))));
  });
}
