/* The panel's page. It sends and receives OSC messages as JSON arrays over a WebSocket (haloconv(1), section PANEL). */
"use strict";

const $ = id => document.getElementById(id);
const RETRY_MS = [300, 1000, 2000, 5000], PING_MS = 5000, SILENT_MS = 12000, SEND_MS = 40, BUSY_MS = 500;
const PANELS = ["impulse", "impulse-db", "step", "magnitude", "phase", "group-delay", "decay", "spectrogram", "waterfall"];
const MINUS = "\u2212", SILENCE = -150;

const state = {hello: {masks: []}, mask: "", number: 0, bypass: 0, ab: 0, gains: {}};

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const round = (x, digits) => Number(x.toFixed(digits));
const isOff = value => typeof value !== "number" || value <= SILENCE;
const fixed = (x, digits) => x.toFixed(digits).replace("-", MINUS);
const db = value => isOff(value) ? "off" : fixed(value, 1) + " dB";
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/* ---- what a screen reader says, and errors ----------------------------------------------------------------------- */

function say(text) {
  $("status").textContent = text;
}

function complain(text, id) {
  const old = [...$("alerts").children].find(e => id ? e.id === id : e.firstChild.textContent === text);
  if (old) return void (old.firstChild.textContent = text);
  const dismiss = make("button", {type: "button"}, "Dismiss");
  const box = make("div", id ? {id} : {}, make("span", {}, text), dismiss);
  dismiss.onclick = () => box.remove();
  $("alerts").append(box);
  while ($("alerts").children.length > 3) $("alerts").firstChild.remove();
  if (!id) setTimeout(() => box.remove(), 15000);
}

/* ---- connection -------------------------------------------------------------------------------------------------- */

let socket = null, tries = 0, retry = 0, heard = 0, pings = 0, focused = null, token = "";

function storage(act) { /* a browser may forbid it */
  try { return act(); } catch { return null; }
}

function readToken() {
  const text = location.hash.slice(1);
  if (text && !$(text)) {
    token = text;
    storage(() => sessionStorage.setItem("token", token));
    history.replaceState(null, "", location.pathname);
    return true;
  }
  token = token || storage(() => sessionStorage.getItem("token")) || "";
  return false;
}

function send(...message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/* A control that is dragged sends its last value a few times a second. */
const waiting = new Map();
function sendSoon(...message) {
  const path = message[0], isNew = !waiting.has(path);
  if (!isNew) return void waiting.set(path, message);
  waiting.set(path, null);
  send(...message);
  setTimeout(() => {
    const last = waiting.get(path);
    waiting.delete(path);
    if (last) sendSoon(...last);
  }, SEND_MS);
}

function connect() {
  clearTimeout(retry);
  if (socket) socket.onclose = socket.onmessage = null, socket.close();
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`, "haloconv");
  heard = Date.now();
  socket.onopen = () => {
    $("log").replaceChildren();
    if (token) send("/token", token);
    send("/ping", ++pings);
  };
  socket.onmessage = event => {
    heard = Date.now();
    const [path, ...values] = JSON.parse(event.data);
    if (Object.hasOwn(handlers, path)) handlers[path](...values);
  };
  socket.onclose = closed;
}

function closed(event) {
  if (!$("all").disabled) focused = document.activeElement;
  $("all").disabled = true;
  $("engine").textContent = "Not connected";
  if (!$("ask").hidden) return;
  const why = event && event.reason ? `haloconv closed the connection: ${event.reason}.` : "haloconv does not answer.";
  complain(`${why} The panel tries again until it does.`, "gone");
  retry = setTimeout(connect, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]);
}

function askToken() {
  $("ask").hidden = false;
  $("token").focus();
  if (token) complain("haloconv refused this token.");
  token = "";
  storage(() => sessionStorage.removeItem("token"));
}

function connected() {
  tries = 0;
  $("ask").hidden = true;
  if (!$("all").disabled) return;
  $("all").disabled = false;
  if ($("gone")) $("gone").remove(), say("Connected again");
  if (focused && document.activeElement === document.body) focused.focus();
}

setInterval(() => {
  if (!socket || socket.readyState !== WebSocket.OPEN) return;
  send("/ping", ++pings);
  if (Date.now() - heard < SILENT_MS) return;
  socket.onclose = null; /* it may take a minute to come */
  socket.close();
  closed();
}, PING_MS);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && socket && socket.readyState === WebSocket.CLOSED && $("ask").hidden) connect();
});
addEventListener("hashchange", () => { if (readToken()) connect(); });
$("ask").onsubmit = event => {
  event.preventDefault();
  token = $("token").value.trim().replace(/^.*#/, "");
  storage(() => sessionStorage.setItem("token", token));
  $("token").value = "";
  $("ask").hidden = true;
  connect();
};

/* ---- lists: one stop of the Tab key; arrows move, Enter acts ----------------------------------------------------- */

class List {
  constructor(element, act) {
    this.element = element, this.names = [], this.selected = -1;
    element.onclick = event => {
      const i = this.buttons.indexOf(event.target.closest("button"));
      if (i >= 0) this.stop(i), act(i);
    };
    element.onkeydown = event => {
      const shown = this.buttons.filter(b => !b.parentNode.hidden), at = shown.indexOf(document.activeElement);
      const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1}[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      const button = shown[clamp(to, 0, shown.length - 1)];
      this.stop(this.buttons.indexOf(button));
      button.focus();
    };
  }
  get buttons() {
    return [...this.element.querySelectorAll("button")];
  }
  stop(i) {
    this.buttons.forEach((b, k) => { b.tabIndex = k === i ? 0 : -1; });
  }
  show(names, titles) {
    if (JSON.stringify(names) === JSON.stringify(this.names)) return;
    this.names = names;
    this.element.replaceChildren(...names.map((name, i) => make("li", {role: "presentation"},
      make("button", {type: "button", role: "option", "aria-selected": "false", title: titles[i]}, name))));
    this.select(this.selected);
  }
  select(i) {
    const isSame = i === this.selected && this.element.querySelector("[aria-selected=true]");
    this.selected = i;
    if (isSame) return;
    const buttons = this.buttons;
    buttons.forEach((b, k) => b.setAttribute("aria-selected", k === i));
    if (!this.element.contains(document.activeElement)) this.stop(Math.max(0, i));
    const {element} = this;
    if (buttons[i]) element.scrollTop = buttons[i].offsetTop - element.offsetTop - element.clientHeight / 2;
  }
  find(text) {
    const {buttons} = this, isShown = b => b && !b.parentNode.hidden, part = text.toLowerCase();
    buttons.forEach((b, i) => { b.parentNode.hidden = !this.names[i].toLowerCase().includes(part); });
    this.stop(isShown(buttons[this.selected]) ? this.selected : buttons.findIndex(isShown));
  }
}

const maskList = new List($("mask-list"), i => send("/mask", i + 1));
const presetList = new List($("preset-list"), i => send("/preset", state.hello.presets[i]));
$("find").oninput = () => maskList.find($("find").value);

/* The last part of a path, unless two paths of the list have the same. */
function shortNames(paths) {
  const last = paths.map(path => path.replace(/.*\//, ""));
  return paths.map((path, i) => last.indexOf(last[i]) === last.lastIndexOf(last[i]) ? last[i] : path);
}
const nameOf = path => maskList.names[state.hello.masks.indexOf(path)] || path.replace(/.*\//, "");

function fill(select, names, values) {
  const before = select.value;
  if (JSON.stringify(names) === JSON.stringify([...select.options].map(o => o.text))) return;
  select.replaceChildren(...names.map((name, i) => new Option(name, values[i])));
  if (values.map(String).includes(before)) select.value = before;
}

/* ---- values: a slider and a number ------------------------------------------------------------------------------- */

class Value {
  /* row: {label, unit, min, max, most, step, off, initial}; set(value) sends it: a number or "off" */
  constructor(parent, id, row, set) {
    this.row = row, this.set = set, this.last = row.initial, this.value = row.initial, this.busy = 0;
    const name = `${row.label}, ${row.unit}`;
    this.range = make("input", {type: "range", id: `${id}-range`, min: row.min, max: row.max, step: row.step,
      "aria-label": row.label});
    this.number = make("input", {type: "number", id, min: row.off ? -80 : row.min, max: row.most ?? row.max,
      step: "any"});
    this.box = make("div", {class: row.off ? "value has-off" : "value"}, make("label", {for: id}, name), this.range,
      this.number);
    if (row.off) {
      this.off = make("button", {type: "button", id: `${id}-off`, "aria-label": `${row.label} off`,
        "aria-pressed": "false", class: "warn"}, "Off");
      this.off.onclick = () => this.change(isOff(this.value) ? this.last : "off");
      this.box.append(this.off);
    }
    this.range.oninput = () => this.change(Number(this.range.value));
    this.number.oninput = () => { this.isTyping = true; };
    this.number.onblur = () => { this.isTyping = false; };
    this.number.onchange = () => {
      this.isTyping = false;
      const typed = this.number.valueAsNumber;
      if (Number.isNaN(typed)) this.draw();
      else this.change(clamp(typed, Number(this.number.min), Number(this.number.max)));
    };
    parent.append(this.box);
    this.draw();
  }
  change(value) {
    this.busy = Date.now();
    this.show(value, true);
    this.set(value);
  }
  /* A value of the server does not move a control that is being used; it is shown afterwards. */
  show(value, isOwn) {
    clearTimeout(this.later);
    if (!isOwn && Date.now() - this.busy < BUSY_MS)
      return void (this.later = setTimeout(() => this.show(value), BUSY_MS));
    if (this.row.off && isOff(value)) value = "off";
    if (value !== "off") this.last = value;
    if (value === this.value) return;
    this.value = value;
    this.draw();
  }
  draw() {
    const off = this.value === "off", shown = String(round(this.last, 2));
    this.range.value = this.last;
    this.range.setAttribute("aria-valuetext", off ? "off" : `${shown} ${this.row.unit}`);
    if (!this.isTyping) this.number.value = shown;
    this.box.classList.toggle("is-off", off);
    if (this.off) this.off.setAttribute("aria-pressed", off);
  }
}

const GAIN = {unit: "dB", min: -60, max: 20, most: 60, step: 0.5, off: true};
const gains = {};
for (const [path, label, initial] of [["/gain", "Output", 0], ["/wet", "Wet (convolved)", 0],
  ["/dry", "Dry (input)", -20]])
  gains[path] = new Value($("gain-list"), path.slice(1), {...GAIN, label, initial}, value => sendSoon(path, value));

function stepGain(path, by) { /* as keys of the terminal do */
  const {value} = gains[path];
  if (!isOff(value)) gains[path].change(round(Math.min(value + by, 40), 2));
  else if (by > 0) gains[path].change(-20);
}

/* ---- state: masks, A/B, bypass ----------------------------------------------------------------------------------- */

function setPressed(button, on) {
  button.setAttribute("aria-pressed", Boolean(on));
}

function hello(all) {
  state.hello = {masks: [], presets: [], ...all};
  const {masks, presets} = state.hello, names = shortNames(masks), numbers = masks.map((_, i) => i + 1);
  connected();
  $("name").textContent = all.name || "haloconv";
  $("engine").textContent = [all.device || all.backend, all.rate && `${all.rate / 1000} kHz`,
    all.block && `${all.block} frames`, `${all.n_in} in, ${all.n_out} out`, all.version].filter(Boolean).join(" · ");
  maskList.show(names, masks);
  presetList.show(presets, presets);
  $("find").hidden = masks.length <= 8;
  maskList.find($("find").value);
  $("no-mask").hidden = masks.length > 0;
  $("presets").hidden = presets.length === 0;
  $("drop").hidden = !all.can_upload;
  $("meters").classList.toggle("many", Math.max(all.n_in, all.n_out) > 24);
  for (const id of ["a", "b", "plot-mask"]) fill($(id), names, numbers);
  if ($("a").value === $("b").value && masks.length > 1) $("b").value = Number($("a").value) % masks.length + 1;
  for (const id of ["ab-start", "ab"]) $(id).disabled = masks.length < 2;
  $("plot-draw").disabled = masks.length === 0;
  $("scene").hidden = !all.sources;
  showMask();
}

function showMask() {
  const name = nameOf(state.mask);
  $("mask").textContent = name || "–";
  document.title = `${name} – ${state.hello.name || "haloconv"}`;
  maskList.select(state.hello.masks.indexOf(state.mask));
}

function mask(path, number) {
  const before = state.mask;
  Object.assign(state, {mask: path, number});
  showMask();
  showCompared();
  if (before && before !== path) say(`${nameOf(path)} plays`);
  if (before !== path && number > 0 && document.activeElement !== $("plot-mask")) $("plot-mask").value = number;
}

function showBypass(on) {
  state.bypass = on;
  setPressed($("bypass"), on);
  $("badge").hidden = !on;
  $("badge").textContent = on ? "Bypassed" : "";
}

let compared = [0, SILENCE, SILENCE];
function showCompared() {
  const [plays, a, b] = compared, number = state.hello.masks.indexOf(state.mask) + 1;
  $("plays-a").classList.toggle("plays", plays === 1);
  $("plays-b").classList.toggle("plays", plays === 2);
  $("ab-end").disabled = !plays;
  $("ab-text").textContent = plays ? `${"AB"[plays - 1]} plays. A ${db(a)}, B ${db(b)}` : "Off";
  if (plays && number) $(plays === 1 ? "a" : "b").value = number;
}

$("prev").onclick = () => send("/prev");
$("next").onclick = () => send("/next");
$("reload").onclick = () => send("/reload");
$("bypass").onclick = () => {
  showBypass(state.bypass ? 0 : 1); /* at once, so that a second press ends it */
  send("/bypass", state.bypass);
};
$("ab-start").onclick = () => send("/ab", Number($("a").value), Number($("b").value));
$("ab").onclick = () => send("/ab");
$("ab-end").onclick = () => send("/ab", "off");

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["text", "quiet", "accent", "in", "out", "warn", "bad", "line", "sunk", "panel", "control"])
    colours[name] = style.getPropertyValue(`--${name}`);
}

/* Canvases are drawn once in a frame of the screen, and not while the page is hidden. */
const dirty = new Set();
let frame = 0;
function redraw(...pictures) {
  for (const picture of pictures) dirty.add(picture);
  if (!frame && !document.hidden) frame = requestAnimationFrame(drawAll);
}
function drawAll() {
  frame = 0;
  const all = [...dirty];
  dirty.clear();
  for (const picture of all) picture.draw();
}

class Picture {
  constructor(canvas, paint) {
    this.canvas = canvas, this.paint = paint;
    new ResizeObserver(() => redraw(this)).observe(canvas);
  }
  draw() {
    const {canvas} = this, w = canvas.clientWidth, h = canvas.clientHeight, scale = devicePixelRatio || 1;
    if (!w || !h) return;
    if (canvas.width !== Math.round(w * scale)) canvas.width = Math.round(w * scale);
    if (canvas.height !== Math.round(h * scale)) canvas.height = Math.round(h * scale);
    const g = canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    this.paint(g, w, h);
  }
}

function line(g, colour, points, dash = []) {
  g.strokeStyle = colour;
  g.setLineDash(dash);
  g.beginPath();
  points.forEach(([x, y], i) => i ? g.lineTo(x, y) : g.moveTo(x, y));
  g.stroke();
  g.setLineDash([]);
}

function label(g, text, x, y, align = "left", colour = colours.quiet) {
  g.fillStyle = colour;
  g.textAlign = align;
  g.fillText(text, x, y);
}

function mark(g, text, left, right, y) { /* a line of a scale */
  line(g, colours.line, [[left, y], [right, y]]);
  label(g, text, left - 5, y + 4, "right");
}

/* ---- meters ------------------------------------------------------------------------------------------------------ */

const LOWEST = -60, HIGHEST = 6, HOLD_MS = 1500, FALL_DB_S = 24, SCALE_W = 26;

class Meter {
  constructor(id) {
    Object.assign(this, {name: id, box: $(id), text: $(`${id}-text`), levels: [], held: [], clips: new Set(), next: 0});
    this.picture = new Picture(this.box.firstElementChild, (g, w, h) => this.paint(g, w, h));
  }
  set(levels, now) {
    if (levels.length !== this.levels.length) {
      this.held = levels.map(() => ({db: SILENCE, at: 0}));
      this.box.firstElementChild.style.width = levels.length > 48 ? `${SCALE_W + 6 * levels.length}px` : "";
    }
    levels.forEach((level, i) => {
      const held = this.held[i];
      if (level >= held.db) this.held[i] = {db: level, at: now};
      else if (now - held.at > HOLD_MS) held.db = Math.max(level, held.db - FALL_DB_S * (now - this.at) / 1000);
      if (level > 0) this.clips.add(i + 1);
    });
    this.levels = levels;
    this.at = now;
    if (now >= this.next) this.tell(now);
    redraw(this.picture, loudest);
  }
  tell(now) {
    this.next = now + 300;
    const loudest = this.held.reduce((best, held, i) => held.db > this.held[best].db ? i : best, 0);
    const level = this.held.length ? this.held[loudest].db : SILENCE;
    const text = level > -120 ? `${fixed(level, 1)} dB` : "silent";
    this.text.textContent = text;
    this.box.setAttribute("aria-valuenow", Math.round(level));
    this.box.setAttribute("aria-valuetext", level > -120 ? `${text}, channel ${loudest + 1}` : text);
  }
  paint(g, w, h) {
    const n = this.levels.length, foot = n <= 24 ? 14 : 2, high = h - foot - 4;
    const y = level => 4 + high * (1 - (clamp(level, LOWEST, HIGHEST) - LOWEST) / (HIGHEST - LOWEST));
    for (const level of [0, -12, -24, -36, -48]) mark(g, fixed(level, 0), SCALE_W, w, y(level));
    const step = Math.min((w - SCALE_W) / Math.max(1, n), 48), gap = step > 8 ? Math.min(4, step / 6) : 1;
    this.levels.forEach((level, i) => {
      const x = SCALE_W + i * step, width = Math.max(1, step - gap), held = this.held[i].db;
      g.fillStyle = colours.sunk;
      g.fillRect(x, 4, width, high);
      for (const [from, to, colour] of [[LOWEST, -6, "accent"], [-6, 0, "warn"], [0, HIGHEST, "bad"]]) {
        if (level <= from) break;
        g.fillStyle = colours[colour];
        g.fillRect(x, y(Math.min(level, to)), width, y(from) - y(Math.min(level, to)));
      }
      g.fillStyle = held > 0 ? colours.bad : colours.text;
      if (held > LOWEST) g.fillRect(x, y(held) - 1, width, 2);
      if (this.clips.has(i + 1)) g.fillStyle = colours.bad, g.fillRect(x, 0, width, 4);
      if (n <= 24) label(g, i + 1, x + width / 2, h - 2, "center");
    });
  }
}
const meters = [new Meter("in"), new Meter("out")];

/* On a phone the head of the page has the loudest input and output. */
const loudest = new Picture($("loudest"), (g, w, h) => meters.forEach((meter, i) => {
  const level = Math.max(SILENCE, ...meter.levels), share = (clamp(level, LOWEST, 0) - LOWEST) / -LOWEST;
  g.fillStyle = colours.line;
  g.fillRect(0, i * h / 2, w, h / 2 - 2);
  g.fillStyle = level > 0 ? colours.bad : i ? colours.out : colours.in;
  g.fillRect(0, i * h / 2, w * share, h / 2 - 2);
}));

function showClips() {
  const list = clips => clips.size > 8 ? plural(clips.size, "channel") : [...clips].sort((a, b) => a - b).join(", ");
  const parts = meters.filter(meter => meter.clips.size).map(meter => `${meter.name} ${list(meter.clips)}`);
  const text = parts.length ? `Clipped: ${parts.join("; ")}` : "No clipping";
  if ($("clip").textContent !== text) $("clip").textContent = text;
}
$("clear").onclick = () => {
  for (const meter of meters) meter.clips.clear(), meter.levels = []; /* new levels then begin with new peaks */
  showClips();
};

/* ---- spectrum ---------------------------------------------------------------------------------------------------- */

const spectra = {in: [], out: []};
const spectrum = new Picture($("spectrum-plot"), (g, w, h) => {
  const low = -100, left = 30, right = w - 4, foot = h - 16;
  const x = hz => left + (right - left) * Math.log(hz / 20) / Math.log(1000);
  const y = level => 6 + (foot - 6) * clamp(level, low, 0) / low;
  for (const level of [0, -20, -40, -60, -80])
    mark(g, fixed(level, 0), left, right, y(level));
  for (const hz of [20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000]) {
    line(g, colours.line, [[x(hz), 6], [x(hz), foot]]);
    const isLast = hz === 20000, text = hz < 1000 ? hz : `${hz / 1000}k`;
    if (w > 420 || /^(20|10+)$/.test(hz)) label(g, text, x(hz), h - 3, isLast ? "right" : "center");
  }
  const bands = state.hello.bands || [];
  const points = levels => levels.slice(0, bands.length).map((level, i) => [x(clamp(bands[i], 20, 20000)), y(level)]);
  g.lineWidth = 1.75;
  const out = points(spectra.out);
  if (out.length) {
    g.globalAlpha = 0.14;
    g.fillStyle = colours.out;
    g.beginPath();
    g.moveTo(out[0][0], foot);
    for (const point of out) g.lineTo(...point);
    g.lineTo(out[out.length - 1][0], foot);
    g.fill();
    g.globalAlpha = 1;
  }
  line(g, colours.in, points(spectra.in), [5, 3]);
  line(g, colours.out, out);
  g.lineWidth = 1;
});

/* ---- load and late blocks ---------------------------------------------------------------------------------------- */

const PAST_S = 120, past = [];
const load = new Picture($("load-plot"), (g, w, h) => {
  const now = Date.now(), left = 30, top = Math.max(100, ...past.map(p => p.load));
  const x = at => w - 2 - (w - left - 2) * (now - at) / (1000 * PAST_S);
  const y = percent => 6 + (h - 10) * (1 - percent / top);
  for (const percent of [0, 50, 100]) mark(g, percent, left, w, y(percent));
  for (const point of past) {
    if (!point.late && !point.xruns) continue;
    g.fillStyle = point.late ? colours.bad : colours.warn;
    g.fillRect(x(point.at) - 1, 6, 2, h - 10);
  }
  g.lineWidth = 1.5;
  line(g, colours.accent, past.map(point => [x(point.at), y(point.load)]));
  g.lineWidth = 1;
});

let counts = null;
function addLoad(percent, late, xruns, now) {
  const before = counts || {late, xruns}, last = past[past.length - 1];
  const more = (count, old) => Math.max(0, count - old);
  const point = {at: now, load: percent, late: more(late, before.late), xruns: more(xruns, before.xruns)};
  counts = {late, xruns};
  if (last && now - last.at < 250) { /* one point a quarter of a second has the maximum */
    last.load = Math.max(last.load, percent), last.late += point.late, last.xruns += point.xruns;
  } else {
    past.push(point);
    while (past[0].at < now - 1000 * PAST_S) past.shift();
    $("load-text").textContent = `${fixed(percent, 1)} % · ${plural(late, "late block")} · ${plural(xruns, "xrun")}`;
    redraw(load);
  }
}

/* ---- sources and listener ---------------------------------------------------------------------------------------- */

const DEGREES = Math.PI / 180, NOSE = 34, NEAR = 26;
const scene = {sources: [], ypr: [0, 0, 0], at: [0, 0, 0], selected: 0, moved: new Map(), drag: null, radius: 2};
const wrap = azimuth => azimuth - 360 * Math.ceil((azimuth - 180) / 360);
const side = azimuth => Math.abs(azimuth) < 0.5 ? "ahead"
  : `${Math.abs(Math.round(azimuth))}° ${azimuth > 0 ? "left" : "right"}`;

function roundScale(metres) {
  const power = 10 ** Math.floor(Math.log10(metres));
  return power * [1, 1.5, 2, 3, 5, 7, 10].find(n => n * power >= metres * 0.999);
}

function place(w, h) { /* metres to pixels: x ahead is up, y left is left */
  const scale = (Math.min(w, h) / 2 - 14) / scene.radius;
  const pixel = (x, y) => [w / 2 - y * scale, h / 2 - x * scale];
  return {scale, pixel, metres: (px, py) => [(h / 2 - py) / scale, (w / 2 - px) / scale]};
}

function flat([azimuth, elevation, distance]) {
  const r = distance * Math.cos(elevation * DEGREES);
  return [r * Math.cos(azimuth * DEGREES), r * Math.sin(azimuth * DEGREES)];
}

const circle = new Picture($("circle").firstElementChild, (g, w, h) => {
  const {scale, pixel} = place(w, h), [cx, cy] = pixel(0, 0), dot = scene.sources.length > 32 ? 6 : 11;
  for (const part of [0.5, 1]) {
    g.strokeStyle = part === 1 ? colours.control : colours.line;
    g.beginPath();
    g.arc(cx, cy, part * scene.radius * scale, 0, 7);
    g.stroke();
    label(g, `${round(part * scene.radius, 2)} m`, cx + 4, cy + part * scene.radius * scale - 4);
  }
  line(g, colours.line, [[cx, cy - scene.radius * scale], [cx, cy + scene.radius * scale]]);
  line(g, colours.line, [[cx - scene.radius * scale, cy], [cx + scene.radius * scale, cy]]);
  const [lx, ly] = pixel(scene.at[0], scene.at[1]), yaw = scene.ypr[0] * DEGREES;
  g.fillStyle = colours.quiet;
  g.beginPath();
  g.arc(lx, ly, 8, 0, 7);
  g.fill();
  g.lineWidth = 2;
  line(g, colours.text, [[lx, ly], [lx - NOSE * Math.sin(yaw), ly - NOSE * Math.cos(yaw)]]);
  g.lineWidth = 1;
  g.fillStyle = colours.text;
  g.beginPath();
  g.arc(lx - NOSE * Math.sin(yaw), ly - NOSE * Math.cos(yaw), 5, 0, 7);
  g.fill();
  const order = scene.sources.map((_, i) => i).filter(i => i !== scene.selected);
  for (const i of [...order, scene.selected]) {
    const source = scene.sources[i];
    if (!source) continue;
    const [x, y] = pixel(...flat(source)), isSelected = i === scene.selected, r = isSelected ? 12 : dot;
    g.fillStyle = isSelected ? colours.accent : colours.panel;
    g.strokeStyle = source[4] ? colours.line : isSelected ? colours.text : colours.accent;
    g.lineWidth = 2;
    g.beginPath();
    g.arc(x, y, r, 0, 7);
    g.fill();
    g.stroke();
    g.lineWidth = 1;
    if (r > 8) label(g, i + 1, x, y + 4, "center", isSelected ? colours.panel : colours.text);
  }
});

const sourceRows = {};
const aed = () => scene.sources[scene.selected];
for (const [i, key, row] of [[0, "azimuth", {label: "Azimuth", unit: "°", min: -180, max: 180, step: 1, initial: 0}],
  [1, "elevation", {label: "Elevation", unit: "°", min: -90, max: 90, step: 1, initial: 0}],
  [2, "distance", {label: "Distance", unit: "m", min: 0.1, max: 10, most: 1000, step: 0.1, initial: 1}]])
  sourceRows[key] = new Value($("source-list"), `source-${key}`, row, value => {
    const position = aed().slice(0, 3);
    position[i] = value;
    move(scene.selected, position);
  });
const sourceGain = {...GAIN, label: "Gain of the source", initial: 0};
sourceRows.gain = new Value($("source-list"), "source-gain", sourceGain, value => {
  aed()[3] = value;
  scene.moved.set(scene.selected, Date.now());
  sendSoon(`/source/${scene.selected + 1}/gain`, value);
});
const head = ["Yaw", "Pitch", "Roll"].map((name, i) => new Value($("head-list"), `head-${name.toLowerCase()}`,
  {label: name, unit: "°", min: i === 1 ? -90 : -180, max: i === 1 ? 90 : 180, step: 1, initial: 0}, value => {
    scene.ypr[i] = value;
    turn();
  }));

function move(i, position) {
  const rounded = position.map(value => round(value, 2));
  scene.sources[i].splice(0, 3, ...rounded);
  scene.moved.set(i, Date.now());
  sendSoon(`/source/${i + 1}/aed`, ...rounded);
  showSource();
}

function turn() {
  scene.moved.set("head", Date.now());
  sendSoon("/listener/ypr", ...scene.ypr.map(angle => round(angle, 1)));
  showSource();
}

function select(i) {
  scene.selected = clamp(i, 0, scene.sources.length - 1);
  for (const row of Object.values(sourceRows)) row.busy = 0;
  showSource();
}

function showSource() {
  const source = aed();
  if (!source) return;
  $("source").value = scene.selected + 1;
  ["azimuth", "elevation", "distance", "gain"].forEach((key, i) => sourceRows[key].show(source[i]));
  head.forEach((row, i) => row.show(scene.ypr[i]));
  setPressed($("mute"), source[4]);
  $("circle").setAttribute("aria-valuenow", Math.round(source[0]));
  $("circle").setAttribute("aria-valuetext",
    `source ${scene.selected + 1}: ${side(source[0])}, ${round(source[2], 2)} m`);
  redraw(circle);
}

/* What was moved here a moment ago stays where it is: a message of the server may be older. */
function showScene(sources, ypr, at = [0, 0, 0]) {
  const now = Date.now();
  for (const [key, time] of scene.moved) if (now - time >= BUSY_MS) scene.moved.delete(key);
  clearTimeout(scene.later);
  if (scene.moved.size) scene.later = setTimeout(() => showScene(sources, ypr, at), BUSY_MS);
  const isOwn = key => scene.moved.has(key);
  scene.sources = sources.map((source, i) => isOwn(i) && scene.sources[i] ? scene.sources[i] : [...source]);
  if (!isOwn("head")) scene.ypr = [...ypr];
  scene.at = at;
  const numbers = sources.map((_, i) => i + 1);
  fill($("source"), numbers.map(String), numbers);
  if (scene.selected >= sources.length) scene.selected = 0;
  const farthest = Math.max(0.5, Math.hypot(at[0], at[1]), ...scene.sources.map(s => Math.hypot(...flat(s))));
  if (scene.drag === null) scene.radius = roundScale(1.15 * farthest);
  showSource();
}

function pointed(event) {
  const box = $("circle").getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

$("circle").onpointerdown = event => {
  const box = $("circle").getBoundingClientRect(), {pixel} = place(box.width, box.height), [px, py] = pointed(event);
  const [lx, ly] = pixel(scene.at[0], scene.at[1]), yaw = scene.ypr[0] * DEGREES;
  const far = ([x, y]) => Math.hypot(x - px, y - py);
  let best = {far: NEAR, what: null};
  scene.sources.forEach((source, i) => {
    const distance = far(pixel(...flat(source))) - (i === scene.selected ? 2 : 0); /* of two equals the selected one */
    if (distance < best.far) best = {far: distance, what: i};
  });
  const nose = far([lx - NOSE * Math.sin(yaw), ly - NOSE * Math.cos(yaw)]);
  if (nose < Math.min(best.far, 14)) best = {far: nose, what: "head"};
  if (best.what === null || $("all").disabled) return;
  scene.drag = best.what;
  if (best.what !== "head") select(best.what);
  $("circle").setPointerCapture(event.pointerId);
  $("circle").focus({preventScroll: true});
  event.preventDefault();
};
$("circle").onpointermove = event => {
  if (scene.drag === null) return;
  const box = $("circle").getBoundingClientRect(), [x, y] = place(box.width, box.height).metres(...pointed(event));
  if (scene.drag === "head") {
    scene.ypr[0] = round(Math.atan2(y - scene.at[1], x - scene.at[0]) / DEGREES, 1);
    return turn();
  }
  const source = scene.sources[scene.drag], level = Math.cos(source[1] * DEGREES);
  const r = clamp(Math.hypot(x, y), 0.05, scene.radius);
  move(scene.drag, [Math.atan2(y, x) / DEGREES, source[1], level > 0.1 ? r / level : source[2]]);
};
$("circle").onpointerup = $("circle").onpointercancel = () => { scene.drag = null; };
$("circle").onkeydown = event => {
  const source = aed(), small = event.shiftKey, turnBy = small ? 1 : 5, factor = small ? 1.02 : 1.1;
  if (!source || event.ctrlKey || event.altKey || event.metaKey || $("all").disabled) return;
  const [azimuth, elevation, distance] = source;
  const acts = {
    ArrowLeft: () => move(scene.selected, [wrap(azimuth + turnBy), elevation, distance]),
    ArrowRight: () => move(scene.selected, [wrap(azimuth - turnBy), elevation, distance]),
    ArrowUp: () => move(scene.selected, [azimuth, elevation, Math.max(distance * factor, 0.05)]),
    ArrowDown: () => move(scene.selected, [azimuth, elevation, distance / factor]),
    PageUp: () => select(scene.selected - 1),
    PageDown: () => select(scene.selected + 1)
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
};
$("source").onchange = () => select(Number($("source").value) - 1);
$("mute").onclick = () => {
  aed()[4] = aed()[4] ? 0 : 1;
  scene.moved.set(scene.selected, Date.now());
  send(`/source/${scene.selected + 1}/mute`, aed()[4]);
  showSource();
};
$("recentre").onclick = () => send("/recentre");

/* ---- plot, upload, log, statistics ------------------------------------------------------------------------------- */

const withToken = () => token ? {Authorization: `Bearer ${token}`} : {};

async function plot() {
  const [number, kind, image] = [$("plot-mask").value, $("plot-kind").value, $("plot-image")];
  const [name, what] = [$("plot-mask"), $("plot-kind")].map(select => select.selectedOptions[0].text);
  $("plot-text").textContent = "Drawing …";
  try {
    const answer = await fetch(`/plot?mask=${number}${kind && `&kind=${kind}`}`, {headers: withToken()});
    if (!answer.ok) throw new Error((await answer.json()).error);
    URL.revokeObjectURL(image.src);
    image.src = URL.createObjectURL(await answer.blob());
    image.alt = `${name}: ${what}`;
    image.hidden = false;
    $("plot-text").textContent = image.alt;
  } catch (error) {
    image.hidden = true;
    $("plot-text").textContent = `No plot: ${error.message}`;
  }
}
fill($("plot-kind"), ["usual plots", ...PANELS], ["", ...PANELS]);
$("plot-draw").onclick = plot;
$("plot-mask").onchange = $("plot-kind").onchange = () => { if (!$("plot-image").hidden) plot(); };

function upload(file) {
  return new Promise(done => {
    const request = new XMLHttpRequest(), text = $("upload-text");
    const end = message => {
      $("upload").hidden = true;
      text.textContent = message;
      done();
    };
    text.textContent = `Sending ${file.name}`;
    $("upload").hidden = false;
    $("upload").value = 0;
    request.upload.onprogress = event => { $("upload").value = event.loaded / event.total; };
    request.upload.onload = () => { text.textContent = `haloconv reads ${file.name}`; };
    request.onload = () => {
      const answer = storage(() => JSON.parse(request.responseText)) || {};
      if (request.status < 300 && answer.mask) return end(`${file.name} is in the list.`);
      end("");
      complain(`${file.name}: ${answer.error || `status ${request.status}`}`);
    };
    request.onerror = () => end(`${file.name} was not sent: the connection ended.`);
    request.open("POST", `/upload?name=${encodeURIComponent(file.name)}`);
    for (const [name, value] of Object.entries(withToken())) request.setRequestHeader(name, value);
    request.send(file);
  });
}
async function uploadAll(files) {
  for (const file of files) await upload(file);
}
$("file").onchange = () => {
  uploadAll([...$("file").files]);
  $("file").value = "";
};
addEventListener("dragover", event => {
  event.preventDefault();
  $("drop").classList.add("over");
});
addEventListener("dragleave", event => { if (!event.relatedTarget) $("drop").classList.remove("over"); });
addEventListener("drop", event => {
  event.preventDefault();
  $("drop").classList.remove("over");
  if (!$("drop").hidden && !$("all").disabled) uploadAll([...event.dataTransfer.files]);
});

function log(level, text) {
  const list = $("log"), isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 30;
  list.append(make("li", {class: level}, text));
  while (list.children.length > 200) list.firstChild.remove();
  if (isAtEnd) list.scrollTop = list.scrollHeight;
}

function showStats(text) {
  const shown = value => value === null ? "–" : Array.isArray(value) ? value.map(shown).join(", ")
    : typeof value === "object" ? Object.entries(value).map(([key, each]) => `${key} ${shown(each)}`).join(", ")
      : typeof value === "number" ? String(round(value, 3)) : String(value);
  const rows = Object.entries(JSON.parse(text)).filter(([key]) => key !== "scene" && key !== "over");
  $("stats-list").replaceChildren(...rows.flatMap(([key, value]) =>
    [make("dt", {}, key.replace(/_/g, " ")), make("dd", {}, shown(value))]));
}
$("stats").ontoggle = () => { if ($("stats").open) send("/stats"); };
$("stats-again").onclick = () => send("/stats");

/* ---- messages of the server, keys -------------------------------------------------------------------------------- */

const handlers = {
  "/hello": hello,
  "/mask": mask,
  "/gain": value => gains["/gain"].show(value),
  "/wet": value => gains["/wet"].show(value),
  "/dry": value => gains["/dry"].show(value),
  "/bypass": showBypass,
  "/ab/state": (...values) => {
    compared = values;
    showCompared();
  },
  "/meters": (ins, outs, percent, late, xruns) => {
    const now = Date.now();
    meters[0].set(ins, now);
    meters[1].set(outs, now);
    showClips();
    addLoad(percent, late, xruns, now);
  },
  "/spectrum": (ins, outs) => {
    Object.assign(spectra, {in: ins, out: outs});
    redraw(spectrum);
  },
  "/scene": showScene,
  "/log": log,
  "/stats": showStats,
  "/error": (path, why) => path === "/token" ? askToken() : complain(why)
};

const KEYS = {
  b: () => $("bypass").click(), n: () => $("next").click(), p: () => $("prev").click(), r: () => $("reload").click(),
  a: () => $("ab").click(), A: () => $("ab-end").click(), c: () => { if (!$("scene").hidden) $("recentre").click(); },
  "+": () => stepGain("/gain", 1), "=": () => stepGain("/gain", 1), "-": () => stepGain("/gain", -1),
  W: () => stepGain("/wet", 1), w: () => stepGain("/wet", -1),
  D: () => stepGain("/dry", 1), d: () => stepGain("/dry", -1)
};
document.addEventListener("keydown", event => {
  const types = "input:not([type=range], [type=checkbox], [type=file]), select";
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches(types)) return;
  if (!$("keys").checked || $("all").disabled || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
$("keys").checked = storage(() => localStorage.getItem("keys")) !== "off";
$("keys").onchange = () => storage(() => localStorage.setItem("keys", $("keys").checked ? "on" : "off"));

function redrawAll() {
  readColours();
  redraw(meters[0].picture, meters[1].picture, loudest, spectrum, load, circle);
}
matchMedia("(prefers-color-scheme: light)").addEventListener("change", redrawAll);
document.addEventListener("visibilitychange", redrawAll);
redrawAll();
readToken();
connect();
