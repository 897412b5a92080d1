"use strict";
// Adds a field above each table, which shows only the rows that contain every word.
for (const table of document.querySelectorAll("table[data-filter]")) {
  const field = document.createElement("input");
  field.type = "search";
  field.className = "filter";
  field.placeholder = field.ariaLabel = table.dataset.filter;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  table.closest(".scroll").before(field);
}
