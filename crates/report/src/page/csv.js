// Saves the data of a chart, or a table of the page, as a CSV file. The page makes the file on a click, offline.
function quoted(value) {
  let text = String(value ?? "");
  // A spreadsheet evaluates such a text as a formula, and a record may come from an untrusted source.
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
const csv = (rows) => `${rows.map((cells) => cells.map(quoted).join(",")).join("\n")}\n`;
const costUnit = isCounted ? "instructions" : "ns";
const exact = (value) => (value === null || value === undefined ? "" : Number(value.toPrecision(6)));

// Curves: a row for each column and pass. It includes the law at that column, which is the same for all passes.
function curveRows({ spans, groups }) {
  const rows = [["curve", "n_first", "n_last", "pass", `median_${costUnit}`, `min_${costUnit}`, `max_${costUnit}`, `law_${costUnit}`]];
  for (const { name, passes, law } of groups) {
    passes.forEach((pass, number) => spans.forEach(([first, last], i) => {
      if (pass.median[i] === null) return;
      rows.push([name, first, last, number + 1, exact(pass.median[i]), exact(pass.min[i]), exact(pass.max[i]), exact(law[i])]);
    }));
  }
  return rows;
}

// Single calls: a row for each cell of the density.
function densityRows({ spans, density }) {
  const rows = [["n_first", "n_last", `from_${costUnit}`, `to_${costUnit}`, "calls"]];
  const edge = (row) => exact(density.floor * 10 ** (row / 12));
  density.cells.forEach((column, i) => {
    for (let j = 0; j < column.length; j += 2) rows.push([...spans[i], edge(column[j]), edge(column[j] + 1), column[j + 1]]);
  });
  return rows;
}

function save(name, parts, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function saveChart(frame) {
  const rows = frame.data.density ? densityRows(frame.data) : curveRows(frame.data);
  const name = frame.figure.querySelector("strong").textContent.replace(/[^\w.=]+/g, "-").replace(/-+$/, "");
  save(`${name}.csv`, [csv(rows)], "text/csv");
}

for (const button of document.querySelectorAll("button.csv")) {
  button.addEventListener("click", () => {
    const table = document.getElementById(button.dataset.table);
    const rows = [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    save(`${button.dataset.table}.csv`, [csv(rows)], "text/csv");
  });
}
