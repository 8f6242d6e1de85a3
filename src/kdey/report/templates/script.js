"use strict";
(function () {
  const root = document.documentElement;
  const all = function (query, inside) { return Array.from((inside || document).querySelectorAll(query)); };

  // Light and dark. Storage may be forbidden for files opened from disk: the page then forgets.
  const button = document.getElementById("theme");
  const themes = { auto: "automatic", light: "light", dark: "dark" };
  const order = Object.keys(themes);
  function remembered() {
    try { return localStorage.getItem("kdey-theme"); } catch (error) { return null; }
  }
  function showTheme(theme) {
    if (theme === "auto") { root.removeAttribute("data-theme"); } else { root.dataset.theme = theme; }
    button.textContent = "Theme: " + themes[theme];
    button.dataset.theme = theme;
  }
  button.hidden = false;
  showTheme(order.includes(remembered()) ? remembered() : "auto");
  button.addEventListener("click", function () {
    const next = order[(order.indexOf(button.dataset.theme) + 1) % order.length];
    showTheme(next);
    try { localStorage.setItem("kdey-theme", next); } catch (error) { /* not kept */ }
  });

  // Numbers are tenths of a per cent; texts and paths are those that Python writes.
  function percent(value) { return value === null ? "\u2013" : (value / 10).toFixed(1) + "\u00a0%"; }
  function span(low, high) { return low === null ? "" : percent(low) + " to " + percent(high); }
  function tick(value) { return value / 10 + "\u00a0%"; }
  function line(places, values) {
    let path = "", length = 0;
    for (let i = 0; i <= places.length; i += 1) {
      if (i === places.length || values[i] === null) {
        path += length === 1 ? "h0" : "";
        length = 0;
      } else {
        path += (length ? " " : "M") + places[i] + " " + values[i];
        length += 1;
      }
    }
    return path;
  }
  function band(places, low, high) {
    let path = "", there = "", back = "";
    for (let i = 0; i <= places.length; i += 1) {
      if (i === places.length || low[i] === null) {
        path += there ? "M" + there + back + "Z" : "";
        there = back = "";
      } else {
        there += (there ? " " : "") + places[i] + " " + low[i];
        back = " " + places[i] + " " + high[i] + back;
      }
    }
    return path;
  }
  function put(inside, query, text) {
    const found = inside.querySelector(query);
    if (found && found.textContent !== text) { found.textContent = text; }
  }
  function path(inside, query, d) { inside.querySelector(query).setAttribute("d", d); }

  function explore(box) {
    const data = JSON.parse(document.getElementById(box.id + "-data").textContent);
    const rows = data.rows.map(function (id) { return document.getElementById(id); });
    const table = box.querySelector("table"), body = table.tBodies[0];
    const timed = data.x.length > 1, width = data.x[data.x.length - 1];
    const tools = box.querySelector(".tools"), pick = box.querySelector(".pick");
    const sort = box.querySelector(".sort"), find = box.querySelector(".find");
    const names = rows.map(function (row) { return row.querySelector(".name").textContent; });
    let label = data.focus, current = rows[0], place = null;

    function said(i, at) {
      const values = data.series[i][label];
      const low = values[1][at], high = values[2][at];
      const interval = low === null ? "" : " (" + (low / 10).toFixed(1) + "\u2013" + (high / 10).toFixed(1) + ")";
      const counted = data.counts.length ? ", " + data.counts[i][at].toLocaleString("en-US") + " records" : "";
      return data.times[at] + ": " + percent(values[0][at]) + interval + counted;
    }
    function last(i) {
      const known = data.series[i][label][0].findLastIndex(function (value) { return value !== null; });
      return known < 0 ? "" : said(i, known);
    }
    function draw() {
      const end = data.ends[label][0], top = data.ends[label][1];
      if (pick) { put(table, ".picked", pick.options[label].text); }
      put(table, ".half", tick(end / 2));
      put(table, ".end", tick(end));
      rows.forEach(function (row, i) {
        const shares = data.shares[i][label], bar = row.querySelector(".bar svg");
        put(row, ".share b", percent(shares[0]));
        put(row, ".span", span(shares[1], shares[2]));
        bar.setAttribute("viewBox", "0 0 " + end + " 10");
        path(bar, ".grid", "M0 0V10M" + Math.floor(end / 2) + " 0V10M" + end + " 0V10");
        const at = function (value, rest) { return value === null ? "" : "M" + value + rest; };
        path(bar, ".training", at(shares[4], " 0V10"));
        path(bar, ".interval", at(shares[1], " 5H" + shares[2]));
        path(bar, ".naive", at(shares[3], " 1V9"));
        path(bar, ".dot", at(shares[0], " 5h0"));
        path(bar, ".truth", at(shares[5], " 0V10"));
        if (!timed) { return; }
        const values = data.series[i][label], time = row.querySelector(".time svg");
        put(row, ".change", data.changes[i][label]);
        time.setAttribute("viewBox", "0 0 " + width + " " + top);
        path(time, ".grid", [0, Math.floor(top / 2), top].map(function (y) { return "M0 " + y + "H" + width; }).join(""));
        path(time, ".band", band(data.x, values[1], values[2]));
        path(time, ".curve", line(data.x, values[0]));
        path(time, ".marks", data.marks[i][label].map(function (at) { return "M" + data.x[at] + " 0V" + top; }).join(""));
        path(time, ".bounds", data.bounds[i][label].map(function (y) { return "M0 " + y + "H" + width; }).join(""));
        put(row, ".said", last(i));
        put(row, ".y1", tick(top));
      });
    }

    // Sorting and searching.
    const most = function (value) { return value === null ? -1 : value; };
    const keys = {
      order: function () { return [0]; },
      flag: function (i) { return [-data.flagged[i], data.small[i], -most(data.shares[i][label][0])]; },
      share: function (i) { return [-most(data.shares[i][label][0])]; },
      change: function (i) { return [-Math.abs(data.moved[i][label])]; },
      width: function (i) { return [data.shares[i][label][1] - data.shares[i][label][2]]; },
      name: function () { return [0]; },
    };
    function arrange() {
      const by = rows.map(function (_, i) { return keys[sort.value](i); });
      const places = rows.map(function (_, i) { return i; });
      const named = sort.value === "name";
      places.sort(function (a, b) {
        for (let k = 0; k < by[a].length; k += 1) {
          if (by[a][k] !== by[b][k]) { return by[a][k] - by[b][k]; }
        }
        return (named && names[a].localeCompare(names[b], "en", { numeric: true })) || a - b;
      });
      places.forEach(function (i) { body.appendChild(rows[i]); });
      search();
    }
    function search() {
      const wanted = find ? find.value.toLowerCase() : "";
      rows.forEach(function (row, i) { row.hidden = !names[i].toLowerCase().includes(wanted); });
      const shown = visible();
      put(box, ".count", shown.length < rows.length ? "(" + shown.length + " of " + rows.length + " rows)" : "");
      if (shown.length && !shown.includes(current)) { rove(shown[0]); }
    }
    function visible() { return Array.from(body.rows).filter(function (row) { return !row.hidden; }); }

    // A time of a row: where a pointer rests, or where the arrow keys have gone.
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const spot = cursor.cloneNode();
    cursor.setAttribute("class", "cursor");
    spot.setAttribute("class", "dot");
    function show(row, at) {
      const i = rows.indexOf(row), value = data.series[i][label][0][at];
      cursor.setAttribute("d", "M" + data.x[at] + " 0V" + data.ends[label][1]);
      spot.setAttribute("d", value === null ? "" : "M" + data.x[at] + " " + value + "h0");
      row.querySelector(".time svg").append(cursor, spot);
      put(row, ".said", said(i, at));
      row.classList.add("read");
    }
    function leave(row) {
      cursor.remove();
      spot.remove();
      place = null;
      row.classList.remove("read");
      put(row, ".said", last(rows.indexOf(row)));
    }
    function nearest(svg, event) {
      const frame = svg.getBoundingClientRect();
      const wanted = width * (event.clientX - frame.left) / frame.width;
      let best = 0;
      data.x.forEach(function (x, at) { if (Math.abs(x - wanted) < Math.abs(data.x[best] - wanted)) { best = at; } });
      return best;
    }

    // One row is in the order of tabs; arrow keys go to the others, and along its times.
    function rove(row) {
      current.tabIndex = -1;
      current = row;
      row.tabIndex = 0;
    }
    function press(event) {
      const shown = visible(), i = shown.indexOf(current), n = data.x.length;
      const steps = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: shown.length - 1 };
      if (event.target !== current || event.ctrlKey || event.metaKey || event.altKey) { return; }
      if (event.key in steps) {
        const next = shown[Math.min(Math.max(steps[event.key], 0), shown.length - 1)];
        if (timed) { leave(current); }
        rove(next);
        next.focus();
      } else if (timed && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
        const step = event.key === "ArrowLeft" ? -1 : 1;
        place = place === null ? n - 1 : Math.min(Math.max(place + step, 0), n - 1);
        show(current, place);
        put(box, ".spoken", said(rows.indexOf(current), place));
      } else { return; }
      event.preventDefault();
    }
    rows.forEach(function (row) {
      row.tabIndex = -1;
      row.addEventListener("focus", function () { rove(row); });
      row.addEventListener("blur", function () { if (timed) { leave(row); } });
      row.addEventListener("keydown", press);
      const svg = timed && row.querySelector(".time svg");
      if (!svg) { return; }
      svg.addEventListener("pointermove", function (event) { show(row, nearest(svg, event)); });
      svg.addEventListener("pointerdown", function (event) { show(row, nearest(svg, event)); });
      svg.addEventListener("pointerleave", function () { leave(row); });
    });
    rove(rows[0]);

    function panels() {
      table.classList.toggle("panels", box.querySelector("[value=panels]").checked);
      if (table.querySelector(".y1")) { return; }
      const texts = [["y0", "0"], ["y1", tick(data.ends[label][1])], ["x0", data.times[0]], ["x1", data.times[data.times.length - 1]]];
      all(".time", body).forEach(function (cell) {
        texts.forEach(function (pair) {
          const mark = document.createElement("span");
          mark.className = "axis " + pair[0];
          mark.textContent = pair[1];
          cell.append(mark);
        });
      });
    }
    function choose(text) {
      const found = pick ? Array.from(pick.options).findIndex(function (one) { return one.text === text; }) : -1;
      if (found < 0) { return; }
      pick.value = found;
      changed();
    }
    function changed() { label = Number(pick.value); draw(); arrange(); }
    if (pick) { pick.addEventListener("change", changed); }
    sort.addEventListener("change", arrange);
    if (find) { find.addEventListener("input", search); }
    all("input[type=radio]", box).forEach(function (radio) { radio.addEventListener("change", panels); });
    all("a[href^='#" + box.id + "-']").forEach(function (link) {
      link.addEventListener("click", function () {
        const row = document.querySelector(link.hash);
        if (link.dataset.label) { choose(link.dataset.label); }
        if (row.hidden) { find.value = ""; search(); }
        row.focus({ preventScroll: true });
      });
    });
    search();
    tools.hidden = "few" in tools.dataset;
  }
  all(".explorer").forEach(explore);

  // Large files are compressed on the page, and come out as they were.
  all("a[download$='.gz']").forEach(function (link) {
    if (!window.DecompressionStream) { return; }
    const name = link.download.slice(0, -3);
    link.textContent = name;
    link.addEventListener("click", async function (event) {
      event.preventDefault();
      const packed = Uint8Array.from(atob(link.href.split(",")[1]), function (c) { return c.charCodeAt(0); });
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const whole = document.createElement("a");
      whole.href = URL.createObjectURL(await new Response(stream).blob());
      whole.download = name;
      whole.click();
    });
  });

  // Other tables: sorted by their headings, filtered by a text.
  function keyOf(row, column) {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") { return a - b; }
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }
  function sortBy(table, heading) {
    const headings = Array.from(heading.parentNode.cells);
    const column = headings.indexOf(heading);
    // Numbers start with the largest, texts with the first.
    const ways = heading.classList.contains("n") ? ["descending", "ascending"] : ["ascending", "descending"];
    const direction = heading.getAttribute("aria-sort") === ways[0] ? ways[1] : ways[0];
    headings.forEach(function (one) { one.removeAttribute("aria-sort"); });
    heading.setAttribute("aria-sort", direction);
    const body = table.tBodies[0], sign = direction === "ascending" ? 1 : -1;
    const pairs = Array.from(body.rows).map(function (row) { return [keyOf(row, column), row]; });
    pairs.sort(function (a, b) { return sign * compare(a[0], b[0]); });
    pairs.forEach(function (pair) { body.appendChild(pair[1]); });
  }
  all("table[data-sortable] thead button").forEach(function (one) {
    one.addEventListener("click", function () { sortBy(one.closest("table"), one.closest("th")); });
  });
  all("input[data-filter]").forEach(function (input) {
    const body = document.getElementById(input.dataset.filter).tBodies[0];
    input.addEventListener("input", function () {
      const wanted = input.value.toLowerCase();
      Array.from(body.rows).forEach(function (row) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      });
    });
  });
})();
