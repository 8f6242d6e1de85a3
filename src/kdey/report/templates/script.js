"use strict";
(function () {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const names = { auto: "automatic", light: "light", dark: "dark" };
  const order = ["auto", "light", "dark"];

  // Storage may be forbidden for files opened from disk: the page then forgets the choice.
  function remembered() {
    try { return localStorage.getItem("kdey-theme"); } catch (error) { return null; }
  }
  function remember(theme) {
    try { localStorage.setItem("kdey-theme", theme); } catch (error) { /* not kept */ }
  }
  function show(theme) {
    if (theme === "auto") { root.removeAttribute("data-theme"); } else { root.dataset.theme = theme; }
    button.textContent = "Theme: " + names[theme];
    button.dataset.theme = theme;
  }
  show(order.includes(remembered()) ? remembered() : "auto");
  button.addEventListener("click", function () {
    const next = order[(order.indexOf(button.dataset.theme) + 1) % order.length];
    show(next);
    remember(next);
  });

  function keyOf(row, column) {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") { return a - b; }
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }
  function sort(table, heading) {
    const headings = Array.from(heading.parentNode.cells);
    const column = headings.indexOf(heading);
    const numeric = heading.classList.contains("n");
    const current = heading.getAttribute("aria-sort");
    // Numbers start with the largest, texts with the first.
    const first = numeric ? "descending" : "ascending";
    const other = numeric ? "ascending" : "descending";
    const direction = current === first ? other : first;
    headings.forEach(function (one) { one.removeAttribute("aria-sort"); });
    heading.setAttribute("aria-sort", direction);
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).map(function (row) { return [keyOf(row, column), row]; });
    const sign = direction === "ascending" ? 1 : -1;
    rows.sort(function (a, b) { return sign * compare(a[0], b[0]); });
    rows.forEach(function (pair) { body.appendChild(pair[1]); });
  }
  document.querySelectorAll("table[data-sortable]").forEach(function (table) {
    table.querySelectorAll("thead button").forEach(function (one) {
      one.addEventListener("click", function () { sort(table, one.closest("th")); });
    });
  });

  document.querySelectorAll("input[data-filter]").forEach(function (input) {
    const body = document.getElementById(input.dataset.filter).tBodies[0];
    input.addEventListener("input", function () {
      const wanted = input.value.toLowerCase();
      Array.from(body.rows).forEach(function (row) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      });
    });
  });
})();
