"use strict";
// Zooming into the path. Everything is drawn without this, too: the script redraws the same shapes for another stretch.
(() => {
  const WIDTH = 1000, HEIGHT = 100, EDGE = 10, MARGIN = 0.05, LEAST = 8, SPARSE = 160, WIDE_GAP = 0.004;
  const SECOND = 1e3, MINUTE = 6e4, HOUR = 3.6e6, DAY = 8.64e7, MONDAY = 4 * DAY;
  const MONTH = 30.436875 * DAY, YEAR = 365.2425 * DAY;
  const FIXED = [
    ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND), ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
    ...[1, 2, 3, 6, 12].map((n) => n * HOUR), ...[1, 2, 7, 14].map((n) => n * DAY),
  ];
  const NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  // Numbers

  const raised = (power) => String(power).replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");

  function fixed(value, decimals) {
    const text = value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    return text.startsWith("-") ? (/[1-9]/.test(text) ? "−" + text.slice(1) : text.slice(1)) : text;
  }

  function number(value, digits) {
    if (!Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const power = Number(Math.abs(value).toExponential(digits - 1).split("e")[1]);
    if (power >= -4 && power < 7) return fixed(value, Math.max(digits - 1 - power, 0));
    return `${fixed(value / 10 ** power, digits - 1)}×10${raised(power)}`;
  }

  const trimmed = (text) => (text.includes(".") && !text.includes("×") ? text.replace(/\.?0+$/, "") : text);

  // Ticks

  function roundStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= least * (1 - 1e-9));
  }

  const plain = (value, step) => fixed(value, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));

  function tickLabel(value, step, top) {
    if (Math.abs(value) < 1e-9 * step) return "0";
    if (top >= 1e12 || top < 1e-3) {
      const power = Math.floor(Math.log10(top) + 1e-9);
      return `${plain(value / 10 ** power, step / 10 ** power)}×10${raised(power)}`;
    }
    for (const [unit, word] of [[1e9, "bn"], [1e6, "mn"]]) {
      if (top >= unit * (1 - 1e-9) && step >= 0.0099 * unit) return plain(value / unit, step / unit) + word;
    }
    return plain(value, step);
  }

  function niceTicks(low, high, most) {
    let step = roundStep((high - low) / most), first, last;
    const bounds = () => { first = Math.ceil(low / step - 1e-9); last = Math.floor(high / step + 1e-9); };
    bounds();
    while (last - first + 1 > most) { step = roundStep(1.5 * step); bounds(); }
    while (last - first + 1 < 2) { step = roundStep(0.4 * step); bounds(); }
    const top = step * Math.max(Math.abs(first), Math.abs(last)), ticks = [];
    for (let k = first; k <= last; k++) ticks.push({ at: k * step, label: tickLabel(k * step, step, top) });
    return ticks;
  }

  function parts(instant, step) {
    const date = new Date(Math.floor(instant / DAY) * DAY), seconds = (instant - Math.floor(instant / DAY) * DAY) / SECOND;
    const two = (n) => String(Math.floor(n)).padStart(2, "0");
    let clock = `${two(seconds / 3600)}:${two((seconds / 60) % 60)}`;
    if (step < MINUTE) clock += `:${two(seconds % 60)}`;
    if (step < SECOND) clock += (seconds % 1).toFixed(Math.max(1, -Math.floor(Math.log10(step / SECOND) + 1e-9))).slice(1);
    return { year: date.getUTCFullYear(), month: date.getUTCMonth(), day: date.getUTCDate(), clock };
  }

  function labelled(places, step) {
    let before = null;
    return places.map((instant) => {
      const { year, month, day, clock } = parts(instant, step);
      let label, context = null;
      if (step >= YEAR * 0.99) label = String(year);
      else if (step >= MONTH * 0.99) { label = NAMES[month]; context = String(year); }
      else if (step >= DAY) { label = `${day} ${NAMES[month]}`; context = String(year); }
      else { label = clock; context = `${year} ${month} ${day}`; }
      if (context !== null && context !== before) label = step >= DAY ? `${label} ${year}` : `${day} ${NAMES[month]} ${clock}`;
      before = context;
      return { at: instant, label };
    });
  }

  function multiples(low, high, step, offset) {
    const out = [], last = Math.floor((high - offset) / step + 1e-9);
    for (let k = Math.ceil((low - offset) / step - 1e-9); k <= last; k++) out.push(offset + k * step);
    return out;
  }

  function calendar(low, high, months) {
    const out = [], since = (instant) => { const d = new Date(instant); return 12 * (d.getUTCFullYear() - 1970) + d.getUTCMonth(); };
    const offset = months < 12 ? 0 : ((12 * 1970) % months);
    const first = since(Math.floor(low)), last = since(Math.floor(high));
    for (let k = Math.ceil((first - 11 + offset) / months) * months - offset; k <= last; k += months) {
      const instant = new Date(0).setUTCFullYear(1970 + Math.floor(k / 12), ((k % 12) + 12) % 12, 1);
      if (instant >= low && instant <= high) out.push(instant);
    }
    return out;
  }

  function dateTicks(low, high, most) {
    for (;; most++) {
      const ticks = dateTicksOf(low, high, most);
      if (ticks.length >= 2) return ticks;
    }
  }

  function dateTicksOf(low, high, most) {
    const least = (high - low) / most;
    if (least < SECOND) return labelled(multiples(low, high, roundStep(least), 0), roundStep(least));
    for (const step of FIXED) {
      if (step >= least) return labelled(multiples(low, high, step, step >= 7 * DAY ? MONDAY : 0), step);
    }
    for (const months of [1, 2, 3, 6]) {
      if (months * MONTH >= least) {
        const places = calendar(low, high, months);
        if (places.length <= most + 1) return labelled(places, months * MONTH);
      }
    }
    const years = Math.max(1, Math.round(roundStep(least / YEAR)));
    return labelled(calendar(low, high, 12 * years), years * YEAR);
  }

  // The time axis

  function through(at, known, wanted) {
    let low = 0, high = known.length;
    while (low < high) { const middle = (low + high) >> 1; if (known[middle] < at) low = middle + 1; else high = middle; }
    const k = Math.min(Math.max(low - 1, 0), known.length - 2);
    return wanted[k] + ((at - known[k]) / (known[k + 1] - known[k])) * (wanted[k + 1] - wanted[k]);
  }

  function timeAxis(time) {
    const value = (row) => through(row, time.rows, time.values), row = (v) => through(v, time.values, time.rows);
    const step = (time.values.at(-1) - time.values[0]) / (time.rows.at(-1) - time.rows[0]);
    return {
      ticks(first, last, most) {
        const low = value(first), high = value(last);
        let found = time.kind === "date" ? dateTicks(low, high, most) : niceTicks(low, high, most);
        if (time.kind === "step") found = found.filter((tick) => Number.isInteger(tick.at));
        return found.map((tick) => ({ at: row(tick.at), label: tick.label }));
      },
      said(at) {
        const v = value(at);
        if (time.kind === "step") return `step ${fixed(Math.round(v), 0)}`;
        if (time.kind === "number") return trimmed(number(v, 6));
        const { year, month, day, clock } = parts(v, step);
        return step >= DAY && v % DAY === 0 ? `${day} ${NAMES[month]} ${year}` : `${day} ${NAMES[month]} ${year} ${clock}`;
      },
    };
  }

  // Data

  function unpacked(text) {
    if (text === undefined) return null;
    const binary = atob(text), bytes = new Uint8Array(binary.length);
    for (let k = 0; k < binary.length; k++) bytes[k] = binary.charCodeAt(k);
    return new Float32Array(bytes.buffer);
  }

  function stretch(packed) {
    const panels = packed.panels.map((p) => {
      const low = unpacked(p.low), middleLow = unpacked(p.middleLow), seenLow = unpacked(p.seenLow);
      return {
        low, high: unpacked(p.high), middleLow, middleHigh: unpacked(p.middleHigh) ?? middleLow,
        seenLow, seenHigh: unpacked(p.seenHigh) ?? seenLow, level: unpacked(p.level) ?? middleLow,
      };
    });
    return { start: packed.start, rows: packed.rows, width: packed.width, panels };
  }

  // Smallest and largest of groups of bins; what is not a number does not count.
  function extreme(values, first, last, sign) {
    let found = NaN;
    for (let k = first; k < last; k++) {
      const v = values[k];
      if (v === v && !(sign * v <= sign * found)) found = v;
    }
    return found;
  }

  function average(values, first, last) {
    let total = 0, count = 0;
    for (let k = first; k < last; k++) if (values[k] === values[k]) { total += values[k]; count += 1; }
    return count ? total / count : NaN;
  }

  window.nmaxReport = { niceTicks, dateTicks, number, fixed, extreme };

  const block = document.getElementById("path-data"), explorer = document.getElementById("explorer");
  if (!block || !explorer) return;
  const data = JSON.parse(block.textContent), time = timeAxis(data.time);
  const whole = stretch(data.whole), details = data.details.map(stretch);
  const stack = explorer.querySelector(".stack"), status = explorer.querySelector(".status");
  const panels = [...stack.querySelectorAll(".panel")].map((element, k) => {
    const field = element.querySelector(".field"), title = element.querySelector(".panel-title");
    const aside = title.querySelector(".panel-aside"), readout = document.createElement("span");
    const cross = document.createElement("div"), chosen = document.createElement("div");
    readout.className = "readout";
    cross.className = "cross";
    chosen.className = "chosen";
    cross.hidden = chosen.hidden = readout.hidden = true;
    title.append(readout);
    field.append(cross, chosen);
    return {
      k, field, aside, readout, cross, chosen, plot: element.querySelector(".plot"), svg: element.querySelector("svg"),
      across: element.querySelector(".x-ticks"), up: element.querySelector(".y-ticks"), exact: data.exact[k], name: data.names[k],
    };
  });
  const full = { a: -0.5, b: data.rows - 0.5 };
  let domain = { ...full }, drawn = null, waiting = false;

  const source = (d) => details.find((s) => d.a >= s.start - 0.5 && d.b <= s.start + s.rows - 0.5) ?? whole;

  // Drawing

  function grouped(from, d, pixels) {
    const { start, width, rows } = from, count = Math.ceil(rows / width);
    const first = Math.max(0, Math.floor((d.a + 0.5 - start) / width)), last = Math.min(count, Math.ceil((d.b + 0.5 - start) / width));
    const group = Math.max(1, Math.ceil((last - first) / pixels));
    const from0 = Math.max(0, (Math.floor(first / group) - 1) * group), groups = [];
    for (let k = from0; k < Math.min(count, last + group); k += group) {
      groups.push({ k, end: Math.min(k + group, count), row: Math.min(start + k * width + 0.5 * (group * width - 1), start + rows - 1) });
    }
    return { groups, binned: group * width };
  }

  function curves(panel, groups) {
    const over = (name, sign) => groups.map((g) => (panel[name] ? extreme(panel[name], g.k, g.end, sign) : NaN));
    return {
      low: over("low", -1), high: over("high", 1), middleLow: over("middleLow", -1), middleHigh: over("middleHigh", 1),
      seenLow: over("seenLow", -1), seenHigh: over("seenHigh", 1),
      level: groups.map((g) => (panel.level ? average(panel.level, g.k, g.end) : NaN)),
    };
  }

  function limits(lists, groups, d) {
    let low = Infinity, high = -Infinity;
    for (const list of lists) {
      list.forEach((v, k) => {
        if (v === v && groups[k].row >= d.a && groups[k].row <= d.b) { low = Math.min(low, v); high = Math.max(high, v); }
      });
    }
    if (low > high) return { low: 0, high: 1 };
    let wide = high - low;
    const top = Math.max(Math.abs(low), Math.abs(high));
    if (wide <= 1e-6 * top) { wide = 0.2 * top || 1; low -= 0.5 * wide; high += 0.5 * wide; }
    return { low: low - MARGIN * wide, high: high + MARGIN * wide };
  }

  const short = (v, digits) => String(Number(v.toFixed(digits)));

  function shapes(c, groups, d, y) {
    const x = (row) => short((WIDTH * (row - d.a)) / (d.b - d.a), 1);
    const up = (v) => short(Math.min(Math.max(HEIGHT * (1 - (v - y.low) / (y.high - y.low)), -1000), 1100), 2);
    const area = (low, high) => {
      let out = "", there = [], back = [];
      const close = () => { if (there.length) out += `M${there.join("L")}L${back.reverse().join("L")}Z`; there = []; back = []; };
      groups.forEach((g, k) => {
        if (low[k] === low[k] && high[k] === high[k]) { there.push(`${x(g.row)} ${up(high[k])}`); back.push(`${x(g.row)} ${up(low[k])}`); } else close();
      });
      close();
      return out;
    };
    let seen = "", count = 0;
    groups.forEach((g, k) => {
      if (c.seenLow[k] !== c.seenLow[k]) return;
      count += 1;
      const a = up(c.seenLow[k]), b = up(c.seenHigh[k]);
      seen += a === b ? `M${x(g.row)} ${a}h0` : `M${x(g.row)} ${a}V${b}`;
    });
    let gaps = "";
    for (const [start, stop] of data.gaps) {
      if (stop > d.a && start < d.b && stop - start > WIDE_GAP * (d.b - d.a)) gaps += `M${x(start - 0.5)} 0V${HEIGHT}H${x(stop - 0.5)}V0Z`;
    }
    let level = "", pen = "M";
    groups.forEach((g, k) => {
      if (c.level[k] === c.level[k]) { level += `${pen}${x(g.row)} ${up(c.level[k])}`; pen = "L"; } else pen = "M";
    });
    return { band: area(c.low, c.high), middle: area(c.middleLow, c.middleHigh), level, seen, count, gaps };
  }

  function path(svg, d, name) {
    if (!d) return;
    const element = document.createElementNS(svg.namespaceURI, "path");
    element.setAttribute("d", d);
    element.setAttribute("class", name);
    svg.append(element);
  }

  function label(parent, side, place, text, shift) {
    const span = document.createElement("span");
    span.textContent = text;
    span.style[side] = `${place}%`;
    if (shift) {
      const moved = place < 50 ? 50 * Math.min(1, place / EDGE) : 100 - 50 * Math.min(1, (100 - place) / EDGE);
      span.style.transform = `translateX(-${Math.max(moved, 0)}%)`;
    }
    parent.append(span);
  }

  function paint(panel, from, d, groups, binned) {
    const c = curves(from.panels[panel.k], groups), y = limits([c.low, c.high, c.seenLow, c.seenHigh], groups, d);
    const s = shapes(c, groups, d, y), size = binned > 1 ? "dense" : s.count <= SPARSE ? "sparse" : "usual";
    const ticks = time.ticks(d.a, d.b, Math.min(8, Math.max(3, Math.floor(panel.field.clientWidth / 100))));
    const levels = niceTicks(y.low, y.high, 4), svg = panel.svg;
    const height = (v) => 100 * (1 - (v - y.low) / (y.high - y.low)), across = (row) => (100 * (row - d.a)) / (d.b - d.a);
    svg.replaceChildren();
    path(svg, levels.map((t) => `M0 ${short(height(t.at), 2)}H1000`).join(""), "grid");
    path(svg, s.gaps, "gap");
    if (size === "dense" && !panel.exact) path(svg, s.seen, "seen dense");
    path(svg, s.band, "band");
    path(svg, s.middle, `middle ${size}`);
    if (size === "dense") path(svg, s.level, "level");
    if (size !== "dense" && !panel.exact) path(svg, s.seen, `seen ${size}`);
    path(svg, ticks.map((t) => `M${short(10 * across(t.at), 1)} 100v-4`).join(""), "tick");
    panel.across.replaceChildren();
    panel.up.replaceChildren();
    ticks.forEach((t) => label(panel.across, "left", across(t.at), t.label, true));
    levels.forEach((t) => label(panel.up, "top", height(t.at), t.label, false));
    return { c, longest: Math.max(0, ...levels.map((t) => t.label.length)) };
  }

  function draw() {
    waiting = false;
    const from = source(domain), pixels = Math.max(100, Math.min(2000, panels[0].field.clientWidth));
    const { groups, binned } = grouped(from, domain, pixels);
    const found = panels.map((panel) => paint(panel, from, domain, groups, binned));
    const gutter = Math.max(...found.map((one) => one.longest));
    panels.forEach((panel) => panel.plot.style.setProperty("--gutter", `${gutter}ch`));
    drawn = { groups, curves: found.map((one) => one.c) };
    const first = Math.max(0, Math.ceil(domain.a)), last = Math.min(data.rows - 1, Math.floor(domain.b));
    const all = domain.a <= full.a && domain.b >= full.b;
    const end = data.time.kind === "step" ? time.said(last).replace("step ", "") : time.said(last), begin = time.said(first);
    const detail = binned > 1 ? `bins of ${fixed(binned, 0)} rows` : "every row";
    status.textContent = `${begin[0].toUpperCase()}${begin.slice(1)} to ${end}: ${all ? "the whole series, " : ""}${detail}`;
    stack.dataset.first = String(first);
    stack.dataset.last = String(last);
    controls("out").disabled = controls("all").disabled = all;
    controls("left").disabled = domain.a <= full.a;
    controls("right").disabled = domain.b >= full.b;
    controls("in").disabled = domain.b - domain.a <= least(domain) + 1e-9;
  }

  function redraw() {
    if (!waiting) { waiting = true; requestAnimationFrame(draw); }
  }

  // Moving

  const least = (d) => Math.min(source(d).width === 1 ? LEAST : LEAST * whole.width, full.b - full.a);

  function show(a, b) {
    let span = Math.min(Math.max(b - a, LEAST), full.b - full.a);
    const place = (wanted) => {
      const middle = 0.5 * (a + b), start = Math.min(Math.max(middle - 0.5 * wanted, full.a), full.b - wanted);
      return { a: start, b: start + wanted };
    };
    domain = place(span);
    if (span < least(domain)) domain = place(least(domain));
    redraw();
  }

  function zoom(factor, at = 0.5 * (domain.a + domain.b)) {
    show(at - (at - domain.a) * factor, at + (domain.b - at) * factor);
  }

  const move = (share) => {
    const by = Math.min(Math.max(share * (domain.b - domain.a), full.a - domain.a), full.b - domain.b);
    show(domain.a + by, domain.b + by);
  };

  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => show(full.a, full.b),
    start: () => show(full.a, full.a + (domain.b - domain.a)), end: () => show(full.b - (domain.b - domain.a), full.b),
  };
  const keys = {
    "+": "in", "=": "in", "-": "out", "_": "out", ArrowLeft: "left", ArrowRight: "right", Home: "start", End: "end", 0: "all", Escape: "all",
  };
  const controls = (name) => explorer.querySelector(`[data-do="${name}"]`);

  explorer.querySelector(".controls").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.do) actions[button.dataset.do]();
    else { const place = data.places[Number(button.dataset.place)]; show(place.start - 0.5, place.stop - 0.5); }
  });

  stack.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    actions[keys[event.key]]();
  });

  // Pointing

  function rowAt(panel, event) {
    const box = panel.field.getBoundingClientRect();
    return domain.a + (domain.b - domain.a) * Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  }

  function point(row) {
    if (!drawn) return;
    let best = 0;
    drawn.groups.forEach((g, k) => { if (Math.abs(g.row - row) < Math.abs(drawn.groups[best].row - row)) best = k; });
    const group = drawn.groups[best], place = (100 * (group.row - domain.a)) / (domain.b - domain.a);
    panels.forEach((panel, k) => {
      const c = drawn.curves[k], range = (low, high) => (low === high ? number(low, 4) : `${number(low, 4)} to ${number(high, 4)}`);
      const said = [];
      if (c.middleLow[best] === c.middleLow[best]) {
        said.push(`median ${range(c.middleLow[best], c.middleHigh[best])}`);
        if (c.low[best] !== c.high[best]) said.push(`90 % ${number(c.low[best], 4)} to ${number(c.high[best], 4)}`);
      }
      if (!panel.exact && c.seenLow[best] === c.seenLow[best]) said.push(`observed ${range(c.seenLow[best], c.seenHigh[best])}`);
      panel.readout.textContent = `${time.said(Math.round(group.row))}: ${said.join("; ")}`;
      panel.readout.hidden = panel.cross.hidden = place < 0 || place > 100;
      panel.aside.hidden = !panel.readout.hidden;
      panel.cross.style.left = `${place}%`;
    });
  }

  function unpoint() {
    panels.forEach((panel) => { panel.readout.hidden = panel.cross.hidden = true; panel.aside.hidden = false; });
  }

  let drag = null;
  panels.forEach((panel) => {
    panel.field.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      drag = { row: rowAt(panel, event), x: event.clientX, moved: false };
      panel.field.setPointerCapture(event.pointerId);
    });
    panel.field.addEventListener("pointermove", (event) => {
      const row = rowAt(panel, event);
      point(row);
      if (!drag) return;
      drag.moved ||= Math.abs(event.clientX - drag.x) > 4;
      if (!drag.moved) return;
      const [a, b] = [Math.min(row, drag.row), Math.max(row, drag.row)].map((r) => (100 * (r - domain.a)) / (domain.b - domain.a));
      panels.forEach((other) => { other.chosen.hidden = false; other.chosen.style.left = `${a}%`; other.chosen.style.width = `${b - a}%`; });
    });
    const end = (event, zooming) => {
      panels.forEach((other) => { other.chosen.hidden = true; });
      const row = rowAt(panel, event);
      if (drag && drag.moved && zooming) show(Math.min(row, drag.row), Math.max(row, drag.row));
      drag = null;
    };
    panel.field.addEventListener("pointerup", (event) => end(event, true));
    panel.field.addEventListener("pointercancel", (event) => end(event, false));
    panel.field.addEventListener("pointerleave", unpoint);
    panel.field.addEventListener("dblclick", () => actions.all());
    panel.field.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(Math.min(Math.max(event.deltaY, -60), 60) / 100), rowAt(panel, event));
    }, { passive: false });
  });

  document.documentElement.classList.add("scripted");
  explorer.querySelector(".controls").hidden = false;
  new ResizeObserver(redraw).observe(stack);
  draw();
})();
