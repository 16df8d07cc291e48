// Sorts a table by a column: numbers by their exact values, text as text.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const descending = head.getAttribute("aria-sort") === "ascending";
    const key = (row) => {
      const cell = row.cells[head.cellIndex];
      return head.className === "number" ? parseFloat(cell.dataset.value) : cell.textContent;
    };
    const compare = (a, b) => {
      if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
      if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
      return a - b;
    };
    const rows = [...body.rows].sort((a, b) => compare(key(a), key(b)));
    body.append(...(descending ? rows.reverse() : rows));
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  });
}
