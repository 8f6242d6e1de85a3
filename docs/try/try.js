// KDEyML for two classes in a browser: kernels and likelihood by kdey's own core, compiled to
// WebAssembly, and the analytic interval by the formulas of kdey/intervals (moments.py, profile.py),
// which are scalars where there are two classes. Below them the page itself (index.md).
// tests/documents/test_try.py compares the answers with those of Python.
"use strict";

(() => {
  const FLOOR = 1e-12; // smallest posterior in a logarithm, as in kdey/calibration.py
  const PSEUDO = 0.75, POOLED = 5, UNSTABLE = 5, ADAPTING = 4; // kdey/intervals/moments.py
  const TINY = 1e-12, RIDGE = 1e-10; // kdey/intervals/profile.py
  const MOST_ROWS = 5000, SPREAD_ROWS = 1000; // of a class, for means and for spreads
  const Z = 1.959963984540054, TAIL = 0.025;

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const mean = (values) => sum(values) / values.length;
  const clip = (value) => Math.min(1, Math.max(0, value));

  // --- the core -----------------------------------------------------------------------------

  async function loadCore(base64) {
    const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    const system = {}; // what the C library would ask of an operating system
    for (const { name } of WebAssembly.Module.imports(module)) system[name] = () => 0;
    system.proc_exit = () => { throw new Error("kdey's core stopped: the page is out of memory"); };
    const core = (await WebAssembly.instantiate(module, { wasi_snapshot_preview1: system })).exports;
    core._initialize();

    // Calls a function of kdey.h. Arrays are copied in, and those of `out` are copied back.
    function call(name, given, out) {
      const places = new Map();
      for (const array of [...given, ...out]) {
        if (!ArrayBuffer.isView(array)) continue;
        const place = core.malloc(Math.max(array.byteLength, 8));
        new array.constructor(core.memory.buffer, place, array.length).set(array);
        places.set(array, place);
      }
      const status = core[name](...[...given, ...out].map((one) => places.get(one) ?? one));
      for (const array of out) {
        array.set(new array.constructor(core.memory.buffer, places.get(array), array.length));
      }
      for (const place of places.values()) core.free(place);
      if (status !== 0) throw new Error(`${name} of kdey's core failed with status ${status}`);
    }

    return {
      // log sum_r exp(-|x - y_r|^2 / 2 h^2) for every class, row-major
      logSums(queries, references, counts, bandwidth) {
        const m = queries.length / 2, n = references.length / 2;
        const offsets = BigInt64Array.from([0n, BigInt(counts[0]), BigInt(n)]);
        const out = new Float64Array(2 * m);
        call("kdey_class_log_sums", [queries, references, 1n, 1n, BigInt(m), BigInt(n), 2n, offsets, 2n,
          Float64Array.of(bandwidth), 1n, 0, 0, 0n, 1n, 0n, 1n], [out]);
        return out;
      },
      // the shares of two classes that explain rows of log densities best
      mixture(logs) {
        const m = logs.length / 2, rows = new Float64Array(2 * m), scales = new Float64Array(m);
        call("kdey_scale_rows", [logs, BigInt(m), 2n, 1n], [rows, scales, new Uint8Array(m)]);
        const shares = new Float64Array(2);
        call("kdey_solve_mixture", [rows, scales, BigInt(m), 2n,
          BigInt64Array.from({ length: m }, (_, i) => BigInt(i)), BigInt64Array.of(0n, BigInt(m)),
          0, 1n, 0, 1e-8, 200n, 1n],
          [shares, new Float64Array(1), new Float64Array(1), new BigInt64Array(1)]);
        return shares[1];
      },
    };
  }

  // --- what is learnt from labelled scores ----------------------------------------------------

  const points = (scores) => Float64Array.from(scores.flatMap((score) => [1 - score, score]));
  const odds = (score) =>
    Math.log(Math.max(score, FLOOR)) - Math.log(Math.max(1 - score, FLOOR));
  const sigmoid = (value) => 1 / (1 + Math.exp(-value));

  // Temperature and bias by Newton's method, to labels of which one in all is taken to be wrong.
  function calibrate(scores, labels) {
    const n = scores.length, wrong = 1 / (n + 1), x = scores.map(odds);
    const target = labels.map((label) => (1 - wrong) * label + wrong / 2);
    const softplus = (t) => Math.max(t, 0) + Math.log1p(Math.exp(-Math.abs(t)));
    const loss = (scale, bias) =>
      mean(x.map((value, i) => softplus(scale * value + bias) - target[i] * (scale * value + bias)));
    let scale = 1, bias = 0;
    for (let step = 0; step < 200; ++step) {
      let g0 = 0, g1 = 0, h00 = RIDGE, h01 = 0, h11 = RIDGE;
      x.forEach((value, i) => {
        const q = sigmoid(scale * value + bias), r = q - target[i], w = q * (1 - q);
        g0 += r * value; g1 += r; h00 += w * value * value; h01 += w * value; h11 += w;
      });
      const det = h00 * h11 - h01 * h01;
      let down = [-(h11 * g0 - h01 * g1) / det, -(h00 * g1 - h01 * g0) / det];
      if (scale + down[0] < 0) down = [-scale, -(g1 - h01 * scale) / h11]; // the bound of the scale
      let size = 1;
      const before = loss(scale, bias);
      while (size > 1e-12 && loss(scale + size * down[0], bias + size * down[1]) > before) size /= 2;
      scale += size * down[0];
      bias += size * down[1];
      if (Math.abs(down[0] * g0 + down[1] * g1) / n < 1e-12) break;
    }
    return (score) => sigmoid(scale * odds(score) + bias);
  }

  // At most so many evenly spaced entries.
  function spaced(values, most) {
    const n = Math.min(most, values.length);
    const at = (i) => Math.floor(n > 1 ? (i * (values.length - 1)) / (n - 1) : 0);
    return Array.from({ length: n }, (_, i) => values[at(i)]);
  }

  function fit(core, scores, labels, bandwidth) {
    const parts = [0, 1].map((label) => scores.filter((_, i) => labels[i] === label));
    const counts = parts.map((part) => part.length);
    const calibrated = calibrate(scores, labels);
    const prior = mean(scores.map(calibrated));
    // Densities of both classes up to a factor, the larger one is 1.
    const densities = (score) => {
      const both = [(1 - calibrated(score)) / (1 - prior), calibrated(score) / prior];
      const largest = Math.max(...both);
      return both.map((value) => value / largest);
    };
    const rows = parts.map((part) => spaced(part, MOST_ROWS).map(densities));
    return { core, counts, bandwidth, densities, rows, references: points(parts.flat()) };
  }

  // --- the answer -------------------------------------------------------------------------------

  // Share of class 1 among new items: estimate, 95 % interval, and the count of scores above 1/2.
  function estimate(model, scores) {
    const { core, counts, bandwidth } = model;
    const logs = core.logSums(points(scores), model.references, counts, bandwidth);
    for (let i = 0; i < logs.length; ++i) logs[i] -= Math.log(counts[i % 2]);
    const share = core.mixture(logs);
    const [low, high] = interval(model, scores.map(model.densities), share);
    return { share, low, high, count: mean(scores.map((score) => (score > 0.5 ? 1 : 0))) };
  }

  const smoothed = (share, n, each) => (n * share + each) / (n + 2 * each);
  // A value of class 1 and one of class 0, mixed by a share of class 1.
  const mixed = ([zero, one], share) => (1 - share) * zero + share * one;

  // Means and variances within classes of phi, the posterior of class 1 adapted to a prevalence.
  function moments(rows, prevalence) {
    const phi = ([zero, one]) =>
      (prevalence * one) / (prevalence * one + (1 - prevalence) * zero);
    const counts = rows.map((part) => part.length);
    const means = rows.map((part) => mean(part.map(phi)));
    const apart = means[1] - means[0];
    const unbiased = rows.map((part, label) => {
      const values = spaced(part, SPREAD_ROWS).map(phi), centre = mean(values);
      return (mean(values.map((value) => (value - centre) ** 2)) * counts[label]) / (counts[label] - 1);
    });
    const pooled = sum(unbiased.map((v, l) => v * (counts[l] - 1))) / (sum(counts) - 2);
    const within = unbiased.map((v, l) =>
      (counts[l] * v + POOLED * pooled) / (counts[l] + POOLED) + (PSEUDO / counts[l]) * (apart ** 2 / 2));
    const raised = mean(counts.map((n) => Math.sqrt(1 + (UNSTABLE / n) ** 2))) ** 2;
    const templates = within.map((v, l) => (raised * v) / counts[l]);
    return { phi, means, apart, within, templates, freedom: counts.map((n) => n - 1) };
  }

  function interval(model, densities, share) {
    const m = densities.length, counts = model.counts;
    const typical = 2 / (1 / counts[0] + 1 / counts[1]);
    const adapted = smoothed(share, Math.min(m, typical), ADAPTING / 2);
    const { phi, means, apart, within, templates, freedom } = moments(model.rows, adapted);
    const q = mean(densities.map(phi));
    const middle = clip((q - means[0]) / apart); // the moment estimate
    // The variance of q at a share t: by the items of the sample, the templates, and the labels.
    const variance = (t) => {
      const parts = [1 - t, t].map((a, l) => (a * within[l]) / m + a * a * templates[l]);
      const total = sum(parts) + (t * (1 - t) * apart ** 2) / m;
      return { total, freedom: total ** 2 / sum(parts.map((part, l) => part ** 2 / freedom[l])) };
    };
    const mix = smoothed(middle, m, 0.5), atFit = variance(mix).total;
    const size = 2 * atFit + TINY, eigenvalue = size + RIDGE * size;
    const distance = (t) => (2 * (q - mixed(means, t)) ** 2) / eigenvalue;
    const least = distance(middle), small = TINY * apart ** 2;
    const excess = (t) => {
      const at = variance(t), scale = (at.total + small) / (atFit + small);
      return Math.sqrt(Math.max(distance(t) - least, 0) / scale) - quantile(at.freedom);
    };
    // Error-free labels would not say more.
    const n = m + Z * Z, centre = (m * share + (Z * Z) / 2) / n;
    const half = (Z * Math.sqrt(m * share * (1 - share) + (Z * Z) / 4)) / n;
    return [
      Math.min(crossing(excess, middle, 0), share, Math.max(centre - half, 0)),
      Math.max(crossing(excess, middle, 1), share, Math.min(centre + half, 1)),
    ];
  }

  // Where a function becomes positive between a point and an end; the end if nowhere.
  function crossing(excess, inside, end) {
    if (excess(end) <= 0) return end;
    let near = inside, far = end;
    for (let step = 0; step < 40; ++step) {
      const t = (near + far) / 2;
      if (excess(t) <= 0) near = t;
      else far = t;
    }
    return far;
  }

  // The upper quantile of Student's t at TAIL: an expansion, and few degrees of freedom by bisection
  // over the angle whose tangent is t / sqrt(f), at which the density is a power of a cosine.
  function quantile(freedom) {
    const f = Math.max(freedom, 1);
    if (f >= 60) {
      return Z + (Z ** 3 + Z) / 4 / f + (5 * Z ** 5 + 16 * Z ** 3 + 3 * Z) / 96 / f / f;
    }
    const mass = (angle) => { // Simpson's rule
      const at = (i) => Math.cos((angle * i) / 128) ** (f - 1) * (i % 128 ? (i % 2 ? 4 : 2) : 1);
      return (sum(Array.from({ length: 129 }, (_, i) => at(i))) * angle) / 384;
    };
    const wanted = (1 - 2 * TAIL) * mass(Math.PI / 2);
    const angle = crossing((value) => mass(value) - wanted, 0, Math.PI / 2);
    return Math.sqrt(f) * Math.tan(angle);
  }

  // --- a table of scores and labels ------------------------------------------------------------

  const MOST_ITEMS = 20000, FEWEST_LABELS = 5;

  // The cells of a text with commas, semicolons or tabs between them.
  function readTable(text) {
    const first = text.slice(0, text.search(/[\r\n]|$/));
    const mark = [",", ";", "\t"].reduce((a, b) =>
      (first.split(b).length > first.split(a).length ? b : a));
    const cell = new RegExp(`("(?:[^"]|"")*"|[^${mark}\\r\\n]*)(${mark}|\\r?\\n|$)`, "g");
    const rows = [[]];
    for (const [, raw, end] of text.replace(/^\ufeff/, "").matchAll(cell)) {
      const value = /^".*"$/s.test(raw) ? raw.slice(1, -1).replaceAll('""', '"') : raw;
      rows.at(-1).push(value.trim());
      if (end !== mark) rows.push([]);
    }
    const [names, ...items] = rows.filter((row) => row.some((value) => value !== ""));
    if (!names || !items.length) throw new Error("The file has no rows below a line of column names.");
    return { names, items };
  }

  // The columns that look most like scores and labels, as positions.
  function guessColumns({ names, items }) {
    const columns = names.map((_, i) => [...new Set(items.map((row) => row[i] ?? ""))].filter(Boolean));
    const isScore = (values) => values.length && values.every((value) => value >= 0 && value <= 1);
    const label = columns.findIndex((values) => values.length === 2);
    const score = columns.findIndex((values, i) => i !== label && isScore(values));
    return { score: Math.max(score, 0), label: label < 0 ? names.length - 1 : label };
  }

  // Labelled scores, their labels and the scores without a label. Throws what is wrong with them.
  function splitTable({ names, items }, { score, label }) {
    const values = items.map((row) => Number(row[score] || NaN));
    const bad = values.findIndex((value) => !(value >= 0 && value <= 1));
    if (bad >= 0) {
      throw new Error(`Scores must be numbers between 0 and 1. Row ${bad + 1} has ` +
        `"${items[bad][score] ?? ""}" in the column "${names[score]}".`);
    }
    const labels = items.map((row) => row[label] ?? "");
    const classes = [...new Set(labels)].filter(Boolean).sort();
    if (classes.length !== 2) {
      throw new Error(`The column "${names[label]}" has ${classes.length} different labels, and this ` +
        "page answers for two. The package takes any number.");
    }
    const of = (name) => values.filter((_, i) => labels[i] === name);
    classes.sort((a, b) => mean(of(a)) - mean(of(b))); // scores are those of the second class
    const few = classes.find((name) => of(name).length < FEWEST_LABELS);
    if (few !== undefined) {
      throw new Error(`"${few}" labels ${of(few).length} row(s). At least ${FEWEST_LABELS} of each ` +
        "class are needed, and 50 are better.");
    }
    const sample = of("");
    if (!sample.length) {
      throw new Error("Every row has a label. Leave the label empty where the share is wanted.");
    }
    if (items.length > MOST_ITEMS) {
      throw new Error(`The page takes at most ${MOST_ITEMS} rows. The package has no such limit.`);
    }
    const known = [...of(classes[0]), ...of(classes[1])];
    const codes = known.map((_, i) => (i < of(classes[0]).length ? 0 : 1));
    return { classes, scores: known, labels: codes, sample };
  }

  globalThis.kdeyTry = { loadCore, fit, estimate, readTable, guessColumns, splitTable };
  if (typeof document !== "undefined") start(globalThis.kdeyTryData);

  // --- the page -----------------------------------------------------------------------------------

  async function start(data) {
    const demo = document.getElementById("kdey-try-demo");
    const file = document.getElementById("kdey-try-file");
    const say = (part, text) => { part.querySelector(".kdey-try-message").textContent = text; };
    try {
      if (!data.core) throw new Error(data.missing);
      const core = await loadCore(data.core);
      startDemo(demo, core, data);
      startFile(file, core, data.bandwidth, (text) => say(file, text));
      for (const part of [demo, file]) part.querySelector("form").hidden = false;
      say(demo, "");
      say(file, "");
    } catch (error) {
      for (const part of [demo, file]) say(part, error.message);
    }
  }

  const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
  const away = (share, truth) => `${(100 * Math.abs(share - truth)).toFixed(1)} points off`;

  // Every split of the items into labelled and new ones is as good as another.
  function startDemo(part, core, { scores, labels, labelled, bandwidth }) {
    const form = part.querySelector("form"), repeated = part.querySelector(".kdey-try-repeated");
    const { share, size, again, hundred } = form.elements;
    const split = () => {
      const order = drawn([...scores.keys()], scores.length);
      const [known, rest] = [order.slice(0, labelled), order.slice(labelled)];
      const model = fit(core, known.map((i) => scores[i]), known.map((i) => labels[i]), bandwidth);
      return { model, pool: [0, 1].map((label) =>
        rest.filter((i) => labels[i] === label).map((i) => scores[i])) };
    };
    const draw = ({ model, pool }) => {
      const n = Number(size.value), ones = Math.round((n * share.value) / 100);
      const sample = [...drawn(pool[0], n - ones), ...drawn(pool[1], ones)];
      return { truth: ones / n, ...estimate(model, sample) };
    };
    let current = split();
    const show = () => {
      const answer = draw(current);
      form.elements["share-shown"].value = percent(share.value / 100);
      form.elements["size-shown"].value = size.value;
      repeated.textContent = "";
      figure(part, answer, `Of ${size.value} new beans, ${percent(answer.truth)} are seker. ` +
        `Counting says ${percent(answer.count)}, ${away(answer.count, answer.truth)}. ` +
        `kdey says ${percent(answer.share)}, ${away(answer.share, answer.truth)}, with the 95 % ` +
        `interval ${percent(answer.low)} to ${percent(answer.high)}.`);
    };
    const repeat = () => {
      const answers = Array.from({ length: 100 }, () => draw(split()));
      const off = (name) => (100 * mean(answers.map((one) => Math.abs(one[name] - one.truth)))).toFixed(1);
      const held = answers.filter((one) => one.low <= one.truth && one.truth <= one.high).length;
      repeated.textContent = `In 100 such draws, counting is ${off("count")} points off on average ` +
        `and kdey ${off("share")}. ${held} of the 100 intervals contain the true share.`;
    };
    share.addEventListener("input", show);
    size.addEventListener("input", show);
    again.addEventListener("click", () => {
      current = split();
      show();
    });
    hundred.addEventListener("click", repeat);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }

  // So many different entries, at random.
  function drawn(values, n) {
    const rest = [...values];
    for (let i = 0; i < n; ++i) {
      const other = i + Math.floor(Math.random() * (rest.length - i));
      [rest[i], rest[other]] = [rest[other], rest[i]];
    }
    return rest.slice(0, n);
  }

  function startFile(part, core, bandwidth, say) {
    const form = part.querySelector("form"), { file, score, label, example } = form.elements;
    let table;
    const guarded = (work) => {
      part.querySelector("figure").hidden = true;
      say("");
      try {
        work();
      } catch (error) {
        say(error.message);
      }
    };
    const answer = () => guarded(() => {
      const columns = { score: Number(score.value), label: Number(label.value) };
      const { classes, scores, labels, sample } = splitTable(table, columns);
      const found = estimate(fit(core, scores, labels, bandwidth), sample);
      const weak = found.high - found.low > 0.9 ? " The scores hardly tell the classes apart." : "";
      figure(part, found, `Of ${sample.length} rows without a label, counting scores above one half ` +
        `says that ${percent(found.count)} are "${classes[1]}". kdey says ${percent(found.share)}, with ` +
        `the 95 % interval ${percent(found.low)} to ${percent(found.high)}, from ${scores.length} ` +
        `labels.${weak}`);
    });
    const open = (text) => guarded(() => {
      table = readTable(text);
      const guess = guessColumns(table);
      for (const [select, chosen] of [[score, guess.score], [label, guess.label]]) {
        select.replaceChildren(...table.names.map((name, i) => new Option(name, i, false, i === chosen)));
        select.closest("label").hidden = false;
      }
      answer();
    });
    const read = async (files) => { if (files.length) open(await files[0].text()); };
    file.addEventListener("click", () => { file.value = ""; }); // so that the same file can be read again
    file.addEventListener("change", () => read(file.files));
    score.addEventListener("change", answer);
    label.addEventListener("change", answer);
    example.addEventListener("click", () => open(exampleTable()));
    form.addEventListener("submit", (event) => event.preventDefault());
    part.addEventListener("dragover", (event) => event.preventDefault());
    part.addEventListener("drop", (event) => {
      event.preventDefault();
      read(event.dataTransfer.files);
    });
  }

  // 200 labelled reviews, half of them complaints, and 300 new ones, of which 15 % are.
  function exampleTable() {
    const normal = () => sum(Array.from({ length: 12 }, Math.random)) - 6;
    const row = (complaint, labelled) => {
      const label = labelled ? (complaint ? "complaint" : "other") : "";
      return `${sigmoid(normal() + (complaint ? 1 : -1)).toFixed(3)},${label}`;
    };
    const known = Array.from({ length: 200 }, (_, i) => row(i % 2, true));
    const fresh = Array.from({ length: 300 }, (_, i) => row(i < 45, false));
    return ["score,label", ...known, ...fresh].join("\n");
  }

  // Draws an answer between 0 and 100 %, and says it.
  function figure(part, { count, share, low, high, truth }, text) {
    const place = (value) => `${22 + 74 * value}%`;
    const make = (name, attributes, content = "") => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      node.textContent = content;
      return node;
    };
    const line = (x1, x2, y1, y2, kind) =>
      make("line", { x1: place(x1), x2: place(x2), y1, y2, class: kind });
    const word = (x, y, anchor, content) =>
      make("text", { x, y, "text-anchor": anchor }, content);
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    const drawing = make("svg", { width: "100%", height: 130, "aria-hidden": true });
    drawing.append(
      ...ticks.map((tick) => line(tick, tick, 10, 105, "grid")),
      ...ticks.map((tick) => word(place(tick), 124, "middle", `${100 * tick} %`)),
      ...(truth === undefined ? [] : [line(truth, truth, 4, 105, "truth"),
        word(place(truth), 14, truth > 0.5 ? "end" : "start", truth > 0.5 ? "true share\u2002" : "\u2002true share")]),
      word(0, 47, "start", "counted"),
      make("circle", { cx: place(count), cy: 42, r: 6, class: "count" }),
      word(0, 85, "start", "kdey"),
      line(low, high, 80, 80, "interval"),
      make("circle", { cx: place(share), cy: 80, r: 6, class: "share" }),
    );
    const caption = document.createElement("figcaption");
    caption.textContent = text;
    caption.setAttribute("aria-live", "polite");
    const node = part.querySelector("figure");
    node.replaceChildren(drawing, caption);
    node.hidden = false;
  }
})();
