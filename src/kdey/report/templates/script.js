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

  // A figure in a file of its own: what the style sheet says of each mark goes into the mark.
  const painted = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity",
    "stroke-dasharray", "stroke-linecap", "font-size", "font-weight", "font-family"];
  function standalone(svg) {
    const copy = svg.cloneNode(true);
    const copies = copy.querySelectorAll("*");
    svg.querySelectorAll("*").forEach(function (mark, place) {
      const style = getComputedStyle(mark);
      copies[place].setAttribute("style", painted.map(function (name) {
        return name + ":" + style.getPropertyValue(name);
      }).join(";"));
    });
    const box = svg.viewBox.baseVal;
    const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    paper.setAttribute("width", box.width);
    paper.setAttribute("height", box.height);
    paper.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
    copy.insertBefore(paper, copy.firstChild);
    copy.removeAttribute("style");
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    const text = new XMLSerializer().serializeToString(copy);
    return "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  }
  function save(name, address) {
    const link = document.createElement("a");
    link.download = name;
    link.href = address;
    link.click();
  }
  function savePicture(name, svg, address) {
    const picture = new Image();
    picture.onload = function () {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * svg.viewBox.baseVal.width;
      canvas.height = 2 * svg.viewBox.baseVal.height;
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      save(name, canvas.toDataURL("image/png"));
    };
    picture.src = address;
  }
  document.querySelectorAll(".save").forEach(function (bar) {
    bar.hidden = false;
    bar.querySelectorAll("button").forEach(function (one) {
      one.addEventListener("click", function () {
        const shown = Array.from(bar.closest("figure").querySelectorAll("svg"));
        const svg = shown.find(function (each) { return each.getBoundingClientRect().width > 0; });
        const name = svg.id + "." + one.dataset.format;
        const address = standalone(svg);
        if (one.dataset.format === "svg") { save(name, address); } else { savePicture(name, svg, address); }
      });
    });
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
