/* The panel's page. It sends and receives OSC messages as JSON arrays over a WebSocket: PANEL in haloconv-osc(7). */
"use strict";

const $ = id => document.getElementById(id);
const RETRY_MS = [300, 1000, 2000, 5000], PING_MS = 5000, SILENT_MS = 12000, SEND_MS = 40, OWN_MS = 500;
const KEYS = "bnpraAc+=-WwDd", REPEATED_KEYS = "+=-WwDd";
const MINUS = "\u2212", SILENCE = -150;

const state = {hello: {masks: [], ready: []}, mask: "", bypass: 0};

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
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/* ---- what a screen reader says, and errors ----------------------------------------------------------------------- */

function write(element, text) { /* a screen reader may say what is written, even if it is the same */
  if (element.textContent !== text) element.textContent = text;
}
function announce(text) { /* a new element, which is said even if its text is that of the last one */
  const said = make("span", {}, text);
  $("status").append(said);
  setTimeout(() => said.remove(), 2000);
}

const errors = new Map(); /* those that are shown, by their text */
function removeError(text) {
  const {box, timer} = errors.get(text);
  clearTimeout(timer);
  box.remove();
  errors.delete(text);
}
function showError(message) {
  const text = state.hello.masks.reduce((short, path, i) => short.replaceAll(path, () => maskList.names[i]), message);
  if (!errors.has(text)) {
    const dismiss = make("button", {type: "button"}, "Dismiss"), box = make("div", {}, make("span", {}), dismiss);
    dismiss.onclick = () => removeError(text);
    errors.set(text, {box, times: 0});
    $("alerts").append(box);
  }
  const error = errors.get(text);
  error.times++;
  write(error.box.firstChild, error.times > 1 ? `${text} (${error.times} times)` : text);
  clearTimeout(error.timer);
  error.timer = setTimeout(() => removeError(text), 15000);
  if (errors.size > 3) removeError(errors.keys().next().value);
}

/* ---- connection -------------------------------------------------------------------------------------------------- */

const LOST = "haloconv does not answer. This page tries again until it does.";
const ENDED = "The session has ended. This page waits for the next one.";
let socket = null, tries = 0, retry = 0, lastMessageMs = 0, pings = 0, focused = null, token = "", version = "";
let reason = LOST; /* why there is no connection */

function attempt(act) { /* a browser may forbid storage, and an answer may be no JSON */
  try { return act(); } catch { return null; }
}

function readToken() {
  const text = location.hash.slice(1);
  if (text && !$(text)) {
    token = text;
    attempt(() => sessionStorage.setItem("token", token));
    history.replaceState(null, "", location.pathname);
    return true;
  }
  token = token || attempt(() => sessionStorage.getItem("token")) || "";
  return false;
}

function send(...message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/* A control that is dragged sends its last value a few times a second. */
const waiting = new Map();
function sendSoon(...message) {
  const path = message[0];
  if (waiting.has(path)) return void waiting.set(path, message);
  waiting.set(path, null);
  send(...message);
  setTimeout(() => {
    const last = waiting.get(path);
    waiting.delete(path);
    if (last) sendSoon(...last);
  }, SEND_MS);
}

function sendWaiting() {
  for (const [path, message] of waiting) if (message) waiting.set(path, null), send(...message);
}

function disconnect() {
  socket.onclose = socket.onmessage = null; /* `onclose` may come a minute later */
  socket.close();
}

function connect() {
  clearTimeout(retry);
  if (socket) disconnect();
  socket = new WebSocket(`ws://${location.host}/ws`, "haloconv");
  lastMessageMs = performance.now();
  socket.onopen = () => {
    $("log").replaceChildren();
    if (token) send("/token", token);
    send("/ping", ++pings);
  };
  socket.onmessage = event => {
    lastMessageMs = performance.now();
    const [path, ...values] = JSON.parse(event.data);
    if (Object.hasOwn(handlers, path)) handlers[path](...values);
  };
  socket.onclose = closed;
}

function closed() {
  if (!$("panel").disabled) focused = document.activeElement;
  $("panel").disabled = true;
  clearValues();
  if (!$("ask").hidden) return;
  write($("gone"), reason);
  if (reason !== ENDED) reason = LOST;
  retry = setTimeout(connect, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]);
}

function clearValues() {
  $("engine").textContent = "Not connected";
  state.mask = "";
  showMask();
  for (const meter of meters) meter.clear();
  Object.assign(spectra, {in: [], out: []});
  past.length = 0;
  counts = null;
  $("load-text").textContent = "–";
  $("stats-list").replaceChildren();
  scene.drag = null;
  redrawAll();
}

function askToken() {
  $("ask").hidden = false;
  write($("gone"), "");
  $("token").focus();
  if (token) showError("haloconv refused this token.");
  token = "";
  attempt(() => sessionStorage.removeItem("token"));
}

function connected() {
  tries = 0;
  reason = LOST;
  $("ask").hidden = true;
  if (!$("panel").disabled) return;
  $("panel").disabled = false;
  if ($("gone").textContent) write($("gone"), ""), announce("Connected again");
  if ($("stats").open) send("/stats");
  if (focused && document.activeElement === document.body) focused.focus();
}

setInterval(() => {
  if (!socket || socket.readyState > WebSocket.OPEN) return;
  send("/ping", ++pings);
  if (performance.now() - lastMessageMs < SILENT_MS) return;
  disconnect();
  closed();
}, PING_MS);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && socket && socket.readyState === WebSocket.CLOSED && $("ask").hidden) connect();
});
addEventListener("hashchange", () => { if (readToken()) connect(); });
$("ask").onsubmit = event => {
  event.preventDefault();
  token = $("token").value.trim().replace(/^.*#/, "");
  attempt(() => sessionStorage.setItem("token", token));
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
      if (i >= 0) this.setTabStop(i), act(i);
    };
    element.onkeydown = event => {
      const shown = this.buttons.filter(b => !b.parentNode.hidden), at = shown.indexOf(document.activeElement);
      const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1}[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      this.focus(this.buttons.indexOf(shown[clamp(to, 0, shown.length - 1)]));
    };
  }
  get buttons() {
    return [...this.element.querySelectorAll("button")];
  }
  setTabStop(i) {
    this.buttons.forEach((b, k) => { b.tabIndex = k === i ? 0 : -1; });
  }
  focus(i) {
    this.setTabStop(i);
    this.buttons[i].focus();
  }
  show(names, titles) {
    if (JSON.stringify(names) === JSON.stringify(this.names)) return;
    const at = this.buttons.indexOf(document.activeElement), named = names.indexOf(this.names[at]);
    this.names = names;
    this.element.replaceChildren(...names.map((name, i) => make("li", {role: "presentation"},
      make("button", {type: "button", role: "option", "aria-selected": "false", title: titles[i]}, name))));
    this.select(this.selected);
    if (at >= 0 && names.length) this.focus(named >= 0 ? named : Math.min(at, names.length - 1));
  }
  select(i) {
    const isSame = i === this.selected && this.element.querySelector("[aria-selected=true]");
    this.selected = i;
    if (isSame) return;
    const buttons = this.buttons;
    buttons.forEach((b, k) => b.setAttribute("aria-selected", k === i));
    const {element} = this;
    if (!element.contains(document.activeElement)) this.setShownStop();
    if (this.isShown(i)) element.scrollTop = buttons[i].offsetTop - element.offsetTop - element.clientHeight / 2;
  }
  isShown(i) {
    return i in this.buttons && !this.buttons[i].parentNode.hidden;
  }
  setShownStop() {
    const first = this.buttons.findIndex(b => !b.parentNode.hidden);
    this.setTabStop(this.isShown(this.selected) ? this.selected : first);
  }
  find(text) { /* returns whether a name has the text */
    const part = text.toLowerCase(), fits = this.names.map(name => name.toLowerCase().includes(part));
    this.buttons.forEach((b, i) => { b.parentNode.hidden = !fits[i]; });
    this.setShownStop();
    return fits.includes(true);
  }
}

const maskList = new List($("mask-list"), i => send("/mask", i + 1));
const presetList = new List($("preset-list"), i => send("/preset", state.hello.presets[i]));
$("preset-save").onclick = () => {
  const name = prompt("Name of the preset (empty: a free one)", ""), {presets} = state.hello;
  if (name === null || presets.includes(name) && !confirm(`Replace ${name}?`)) return;
  send("/preset/save", ...name ? [name] : [], ...presets.includes(name) ? ["replace"] : []);
};
function find() {
  const isFound = maskList.find($("find").value), {masks} = state.hello;
  $("no-mask").hidden = isFound;
  write($("no-mask"), masks.length ? "No mask matches." : "The list has no mask.");
}
$("find").oninput = find;

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

/* Remembers what was changed here a moment ago: a message of the server may be older, and is shown afterwards. */
class Changes {
  constructor() {
    this.changedAt = new Map();
  }
  add(key) {
    this.changedAt.set(key, performance.now());
  }
  has(key) {
    return performance.now() - (this.changedAt.get(key) ?? -Infinity) < OWN_MS;
  }
  forget() {
    this.changedAt.clear();
  }
  showLater(show) { /* replaces what was to be shown */
    clearTimeout(this.later);
    if ([...this.changedAt.keys()].some(key => this.has(key))) this.later = setTimeout(show, OWN_MS);
  }
}

class Value {
  /* row: {label, unit, min, max, step, typed, digits, off, initial, reset}: typed numbers may have wider limits; a
   * double click sets `reset`, or else `initial`. set(value) sends it: a number or "off" */
  constructor(parent, id, row, set) {
    this.row = row, this.set = set, this.last = this.value = row.initial, this.changes = new Changes();
    const name = `${row.label}, ${row.unit}`, [min, max] = row.typed ?? [row.min, row.max];
    this.range = make("input", {type: "range", id: `${id}-range`, min: row.min, max: row.max, step: row.step,
      "aria-label": row.label});
    this.number = make("input", {type: "number", id, min, max, step: "any"});
    this.box = make("div", {class: row.off ? "value has-off" : "value"}, make("label", {for: id}, name), this.range,
      this.number);
    if (row.off) {
      this.off = make("button", {type: "button", id: `${id}-off`, "aria-label": `${row.label} off`,
        "aria-pressed": "false", class: "warn"}, "Off");
      this.off.onclick = () => this.change(isOff(this.value) ? this.last : "off");
      this.box.append(this.off);
    }
    this.range.oninput = () => this.change(Number(this.range.value));
    this.range.ondblclick = () => this.change(row.reset ?? row.initial);
    this.number.oninput = () => { this.isTyping = true; };
    this.number.onblur = () => {
      this.isTyping = false;
      this.draw();
    };
    this.number.onchange = () => {
      const typed = this.number.valueAsNumber;
      this.isTyping = false;
      if (!Number.isNaN(typed)) this.change(clamp(typed, min, max));
      this.draw(); /* even if the value is as it was */
    };
    parent.append(this.box);
    this.draw();
  }
  change(value) {
    this.changes.forget();
    this.show(value);
    this.changes.add("value");
    this.set(value);
  }
  show(value) {
    this.changes.showLater(() => this.show(value));
    if (this.changes.has("value")) return;
    if (this.row.off && isOff(value)) value = "off";
    if (value !== "off") this.last = value;
    if (value === this.value) return;
    this.value = value;
    this.draw();
  }
  draw() {
    const off = this.value === "off", shown = String(round(this.last, this.row.digits ?? 2));
    this.range.value = this.last;
    this.range.setAttribute("aria-valuetext", off ? "off" : `${shown} ${this.row.unit}`);
    if (!this.isTyping) this.number.value = shown;
    this.box.classList.toggle("is-off", off);
    if (this.off) this.off.setAttribute("aria-pressed", off);
  }
}

const GAIN = {unit: "dB", min: -60, max: 20, typed: [-80, 60], step: 0.5, off: true};
const gains = {};
for (const [path, label, initial] of [["/gain", "Output", 0], ["/wet", "Wet (convolved)", 0],
  ["/dry", "Dry (input)", -20]])
  gains[path] = new Value($("gain-list"), path.slice(1), {...GAIN, label, initial, reset: path === "/dry" ? "off" : 0},
    value => sendSoon(path, value));

/* ---- state: masks, A/B, bypass ----------------------------------------------------------------------------------- */

function setPressed(button, on) {
  button.setAttribute("aria-pressed", Boolean(on));
}

function hello(fields) {
  state.hello = {masks: [], presets: [], plots: [], ready: [], ...fields};
  const {masks, presets, plots, ready, n_in, n_out} = state.hello;
  const names = shortNames(masks), numbers = masks.map((_, i) => i + 1);
  connected();
  $("name").textContent = fields.name || "haloconv";
  $("engine").textContent = [fields.device || fields.backend, fields.rate && `${fields.rate / 1000} kHz`,
    fields.block && `${fields.block} frames`, `${n_in} in, ${n_out} out`, fields.version].filter(Boolean).join(" · ");
  maskList.show(names, masks);
  presetList.show(presets, presets);
  $("find").hidden = masks.length <= 8;
  find();
  $("drop").hidden = !fields.can_upload;
  $("meters").classList.toggle("many", Math.max(n_in, n_out) > 24);
  for (const id of ["a", "b"]) fill($(id), ready.map(number => names[number - 1]), ready);
  if ($("a").value === $("b").value && ready.length > 1)
    $("b").value = ready[(ready.indexOf(Number($("a").value)) + 1) % ready.length];
  $("compare").hidden = masks.length < 2;
  for (const id of ["ab-start", "ab"]) $(id).disabled = ready.length < 2;
  fill($("plot-mask"), names, numbers);
  fill($("plot-kind"), ["Overview", ...plots.map(plotName)], ["", ...plots]);
  $("plot-draw").disabled = masks.length === 0;
  $("scene").hidden = !fields.sources;
  $("plot").hidden = Boolean(fields.sources);
  showMask();
  showPair();
  showComparison();
}

function showMask() {
  const name = nameOf(state.mask);
  $("mask").textContent = name || "–";
  document.title = [name, state.hello.name || "haloconv"].filter(Boolean).join(" – ");
  maskList.select(state.hello.masks.indexOf(state.mask));
}

function mask(path) {
  const before = state.mask, number = state.hello.masks.indexOf(path) + 1;
  state.mask = path;
  showMask();
  if (before && before !== path) announce(`${nameOf(path)} plays`);
  if (before !== path && number && document.activeElement !== $("plot-mask")) $("plot-mask").value = number;
}

function showBypass(on) {
  state.bypass = on;
  setPressed($("bypass"), on);
  $("badge").hidden = !on;
  $("badge").textContent = on ? "Bypassed" : "";
}

const comparison = {plays: 0, db: [SILENCE, SILENCE], masks: [0, 0]};
function showComparison() {
  const {plays} = comparison, isReady = state.hello.ready.length > 1;
  const lowered = comparison.db.map(value => isOff(value) ? "off" : `turned down by ${fixed(Math.abs(value), 1)} dB`);
  $("plays-a").classList.toggle("plays", plays === 1);
  $("plays-b").classList.toggle("plays", plays === 2);
  $("ab-end").disabled = !plays;
  write($("ab"), plays === 1 ? "Play B" : "Play A");
  write($("ab-text"), plays ? `${"AB"[plays - 1]} plays. A ${lowered[0]}, B ${lowered[1]}`
    : isReady ? "No comparison" : "No comparison: fewer than two masks are kept ready");
}
function showPair() {
  const [a, b] = comparison.masks;
  if (a) $("a").value = a, $("b").value = b;
}
function startComparison() {
  send("/ab", Number($("a").value), Number($("b").value));
}
function switchComparison() {
  if (comparison.masks[0]) send("/ab");
  else startComparison();
}

$("prev").onclick = () => send("/prev");
$("next").onclick = () => send("/next");
$("reload").onclick = () => send("/reload");
$("bypass").onclick = () => {
  showBypass(state.bypass ? 0 : 1); /* at once, so that a second press ends it */
  send("/bypass", state.bypass);
};
$("ab-start").onclick = startComparison;
$("ab").onclick = switchComparison;
$("a").onchange = $("b").onchange = () => { if (comparison.masks[0]) startComparison(); };
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
  for (const picture of all) {
    try { picture.draw(); } catch (error) { reportError(error); } /* the others are drawn */
  }
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

const LOWEST = -60, HIGHEST = 6, HOLD_MS = 1500, FALL_DB_S = 24, SCALE_W = 30;

class Meter {
  constructor(id) {
    Object.assign(this, {name: id, box: $(id), text: $(`${id}-text`), levels: [], held: [], clips: new Set(), next: 0});
    this.picture = new Picture(this.box.firstElementChild, (g, w, h) => this.paint(g, w, h));
  }
  set(levels, now) {
    if (levels.length !== this.levels.length) {
      this.held = levels.map(() => ({db: SILENCE, at: 0}));
      this.next = 0;
      this.box.firstElementChild.style.minWidth = `${SCALE_W + 6 * levels.length}px`;
    }
    levels.forEach((level, i) => {
      const held = this.held[i];
      if (level >= held.db) this.held[i] = {db: level, at: now};
      else if (now - held.at > HOLD_MS) held.db = Math.max(level, held.db - FALL_DB_S * (now - this.at) / 1000);
      if (level > 0) this.clips.add(i + 1);
    });
    this.levels = levels;
    this.at = now;
    if (now >= this.next) this.showPeak(now);
    redraw(this.picture, loudest);
  }
  clear() { /* new levels then begin with new peaks */
    this.levels = this.held = [];
    this.showPeak(0);
    redraw(this.picture, loudest);
  }
  showPeak(now) {
    this.next = now + 300;
    const loudest = this.held.reduce((best, held, i) => held.db > this.held[best].db ? i : best, 0);
    const level = this.held.length ? this.held[loudest].db : SILENCE;
    const text = level > -120 ? `peak ${fixed(level, 1)} dBFS` : this.held.length ? "silent" : "–";
    this.text.textContent = text;
    this.box.setAttribute("aria-valuenow", Math.round(level));
    this.box.setAttribute("aria-valuetext", level > -120 ? `${text}, channel ${loudest + 1}` : text);
  }
  paint(g, w, h) {
    const n = this.levels.length, high = h - 18;
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
      if (step >= 18 || i % 8 === 7) label(g, i + 1, Math.min(x + width / 2, w - 8), h - 2, "center");
    });
  }
}
const meters = [new Meter("in"), new Meter("out")];

/* On a phone the head of the page has the loudest input and output. */
const loudest = new Picture($("loudest"), (g, w, h) => meters.forEach((meter, i) => {
  const left = 26, top = i * h / 2, level = Math.max(SILENCE, ...meter.levels);
  const share = (clamp(level, LOWEST, 0) - LOWEST) / -LOWEST;
  g.fillStyle = colours.line;
  g.fillRect(left, top + 2, w - left, h / 2 - 4);
  g.fillStyle = level > 0 ? colours.bad : i ? colours.out : colours.in;
  g.fillRect(left, top + 2, (w - left) * share, h / 2 - 4);
  label(g, i ? "Out" : "In", 0, top + h / 4 + 4);
}));

function showClips() {
  const list = clips => clips.size > 24 ? plural(clips.size, "channel") : [...clips].sort((a, b) => a - b).join(", ");
  const parts = meters.filter(meter => meter.clips.size).map(meter => `${meter.name} ${list(meter.clips)}`);
  write($("clip"), parts.length ? `Over 0 dBFS: ${parts.join("; ")}` : "Nothing over 0 dBFS");
}
$("clear").onclick = () => {
  for (const meter of meters) meter.clips.clear(), meter.clear();
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
  const points = levels => levels.slice(0, bands.findLastIndex(hz => hz <= 20000) + 1)
    .map((level, i) => [x(Math.max(bands[i], 20)), y(level)]);
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
  const now = performance.now(), left = SCALE_W, maxLoad = Math.max(...past.map(p => p.load));
  const top = [4, 10, 20, 50, 100].find(percent => percent >= maxLoad) ?? maxLoad;
  const x = at => w - 2 - (w - left - 2) * (now - at) / (1000 * PAST_S);
  const y = percent => 6 + (h - 24) * (1 - percent / top);
  for (const percent of [0, top / 2, top]) mark(g, `${round(percent, 0)}`, left, w, y(percent));
  label(g, "2 minutes ago", left, h - 3);
  label(g, "now", w, h - 3, "right");
  for (const point of past) {
    if (!point.late && !point.xruns) continue;
    g.fillStyle = point.late ? colours.bad : colours.warn;
    g.fillRect(x(point.at) - 1, 6, 2, h - 24);
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
    $("load-text").textContent =
      `${fixed(percent, 1)} % of a block's time · ${plural(late, "late block")} · ${plural(xruns, "xrun")}`;
    redraw(load);
  }
}

/* ---- sources and listener ---------------------------------------------------------------------------------------- */

const DEGREES = Math.PI / 180, NOSE = 34, NEAR = 26;
const MIN_DISTANCE = 0.05, MAX_DISTANCE = 10000; /* metres; only a typed number is nearer */
const scene = {sources: [], ypr: [0, 0, 0], at: [0, 0, 0], selected: 0, changes: new Changes(), drag: null, radius: 2};
const wrap = azimuth => azimuth - 360 * Math.ceil((azimuth - 180) / 360);
const side = azimuth => Math.abs(azimuth) < 0.5 ? "ahead"
  : `${Math.abs(Math.round(azimuth))}° ${azimuth > 0 ? "left" : "right"}`;

function roundScale(metres) {
  const power = 10 ** Math.floor(Math.log10(metres));
  return power * [1, 1.5, 2, 3, 5, 7, 10].find(n => n * power >= metres * 0.999);
}

function circleScale(w, h) { /* metres to pixels: x ahead is up, y left is left */
  const scale = (Math.min(w, h) / 2 - 14) / scene.radius;
  const pixel = (x, y) => [w / 2 - y * scale, h / 2 - x * scale];
  return {scale, pixel, metres: (px, py) => [(h / 2 - py) / scale, (w / 2 - px) / scale]};
}

function topView([azimuth, elevation, distance]) {
  const r = distance * Math.cos(elevation * DEGREES);
  return [r * Math.cos(azimuth * DEGREES), r * Math.sin(azimuth * DEGREES)];
}

const circle = new Picture($("circle").firstElementChild, (g, w, h) => {
  const {scale, pixel} = circleScale(w, h), [cx, cy] = pixel(0, 0), dot = scene.sources.length > 32 ? 6 : 11;
  for (const part of [0.5, 1]) {
    g.strokeStyle = part === 1 ? colours.control : colours.line;
    g.beginPath();
    g.arc(cx, cy, part * scene.radius * scale, 0, 7);
    g.stroke();
    label(g, `${round(part * scene.radius, 2)} m`, cx + 4, cy + part * scene.radius * scale - 4);
  }
  line(g, colours.line, [[cx, cy - scene.radius * scale], [cx, cy + scene.radius * scale]]);
  line(g, colours.line, [[cx - scene.radius * scale, cy], [cx + scene.radius * scale, cy]]);
  const [lx, ly] = pixel(scene.at[0], scene.at[1]), [nx, ny] = nosePixel(pixel);
  g.fillStyle = colours.quiet;
  g.beginPath();
  g.arc(lx, ly, 8, 0, 7);
  g.fill();
  g.lineWidth = 2;
  line(g, colours.text, [[lx, ly], [nx, ny]]);
  g.lineWidth = 1;
  g.fillStyle = colours.text;
  g.beginPath();
  g.arc(nx, ny, 5, 0, 7);
  g.fill();
  const order = scene.sources.map((_, i) => i).filter(i => i !== scene.selected);
  for (const i of [...order, scene.selected]) {
    const source = scene.sources[i];
    if (!source) continue;
    const [x, y] = pixel(...topView(source)), isSelected = i === scene.selected, r = isSelected ? 12 : dot;
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
  [2, "distance", {label: "Distance", unit: "m", min: 0.1, max: 10, typed: [0, MAX_DISTANCE], step: 0.1,
    digits: 3, initial: 1}]])
  sourceRows[key] = new Value($("source-list"), `source-${key}`, row, value => {
    const position = aed().slice(0, 3);
    position[i] = value;
    move(scene.selected, position);
  });
const sourceGain = {...GAIN, label: "Gain of the source", initial: 0};
sourceRows.gain = new Value($("source-list"), "source-gain", sourceGain, value => {
  aed()[3] = value;
  scene.changes.add(scene.selected);
  sendSoon(`/source/${scene.selected + 1}/gain`, value);
});
const head = ["Yaw", "Pitch", "Roll"].map((name, i) => new Value($("head-list"), `head-${name.toLowerCase()}`,
  {label: name, unit: "°", min: i === 1 ? -90 : -180, max: i === 1 ? 90 : 180, step: 1, initial: 0}, value => {
    scene.ypr[i] = value;
    turn();
  }));

function move(i, [azimuth, elevation, distance]) {
  const rounded = [round(azimuth, 2), round(elevation, 2), round(distance, 4)];
  scene.sources[i].splice(0, 3, ...rounded);
  scene.changes.add(i);
  sendSoon(`/source/${i + 1}/aed`, ...rounded);
  showSource();
}

function turn() {
  scene.changes.add("head");
  sendSoon("/listener/ypr", ...scene.ypr.map(angle => round(angle, 1)));
  showSource();
}

function select(i) {
  scene.selected = clamp(i, 0, scene.sources.length - 1);
  for (const row of Object.values(sourceRows)) row.changes.forget();
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

function showScene(sources, ypr, at = [0, 0, 0]) {
  const {changes} = scene;
  changes.showLater(() => showScene(sources, ypr, at));
  scene.sources = sources.map((source, i) => changes.has(i) && scene.sources[i] ? scene.sources[i] : [...source]);
  if (!changes.has("head")) scene.ypr = [...ypr];
  scene.at = at;
  const numbers = sources.map((_, i) => i + 1);
  fill($("source"), numbers.map(String), numbers);
  if (scene.selected >= sources.length) scene.selected = 0;
  const farthest = Math.max(0.5, Math.hypot(at[0], at[1]), ...scene.sources.map(s => Math.hypot(...topView(s))));
  if (scene.drag === null) scene.radius = roundScale(1.15 * farthest);
  showSource();
}

/* The position of an event on the circle, in pixels, and the circle's scale. */
function pointed(event) {
  const box = $("circle").getBoundingClientRect();
  return {at: [event.clientX - box.left, event.clientY - box.top], ...circleScale(box.width, box.height)};
}

function nosePixel(pixel) {
  const [x, y] = pixel(scene.at[0], scene.at[1]), yaw = scene.ypr[0] * DEGREES;
  return [x - NOSE * Math.sin(yaw), y - NOSE * Math.cos(yaw)];
}

/* The source or nose under a press, or null. what: a source's index or "head"; offset: from the press to its middle. */
function grabbed(event) {
  const {at: from, pixel} = pointed(event), things = scene.sources.map((source, what) =>
    ({what, middle: pixel(...topView(source)), near: NEAR, bonus: what === scene.selected ? 2 : 0}));
  things.push({what: "head", middle: nosePixel(pixel), near: 14, bonus: 0});
  let best = null;
  for (const {what, middle: [x, y], near, bonus} of things) {
    const offset = [x - from[0], y - from[1]], far = Math.hypot(...offset) - bonus; /* of two equals the selected one */
    if (far < Math.min(near, best?.far ?? near)) best = {what, from, offset, far};
  }
  return $("panel").disabled ? null : best;
}

/* One pointer drags at a time: further fingers and other buttons of the mouse do nothing. */
$("circle").onpointerdown = event => {
  const thing = event.button === 0 && (scene.drag?.pointer ?? event.pointerId) === event.pointerId && grabbed(event);
  if (!thing) return;
  scene.drag = {...thing, pointer: event.pointerId};
  if (scene.drag.what !== "head") select(scene.drag.what);
  $("circle").setPointerCapture(event.pointerId);
  $("circle").focus({preventScroll: true});
  event.preventDefault();
};
/* A finger beside the sources scrolls the page. */
$("circle").addEventListener("touchstart", event => {
  if (scene.drag || grabbed(event.changedTouches[0])) event.preventDefault();
}, {passive: false});
$("circle").onpointermove = event => {
  const {drag} = scene, {at: [px, py], metres} = pointed(event);
  if (drag?.pointer !== event.pointerId) return;
  drag.isMoving ||= Math.hypot(px - drag.from[0], py - drag.from[1]) >= 4;
  if (!drag.isMoving) return;
  const [x, y] = metres(px + drag.offset[0], py + drag.offset[1]);
  if (drag.what === "head") {
    scene.ypr[0] = round(Math.atan2(y - scene.at[1], x - scene.at[0]) / DEGREES, 1);
    return turn();
  }
  const source = scene.sources[drag.what], level = Math.cos(source[1] * DEGREES);
  const r = clamp(Math.hypot(x, y), MIN_DISTANCE, scene.radius);
  move(drag.what, [Math.atan2(y, x) / DEGREES, source[1], level > 0.1 ? r / level : source[2]]);
};
$("circle").onpointerup = $("circle").onpointercancel = $("circle").onlostpointercapture = event => {
  if (scene.drag?.pointer === event.pointerId) scene.drag = null;
};
$("circle").oncontextmenu = event => { if (scene.drag) event.preventDefault(); };
$("circle").onkeydown = event => {
  const source = aed(), small = event.shiftKey, turnBy = small ? 1 : 5, factor = small ? 1.02 : 1.1;
  if (!source || event.ctrlKey || event.altKey || event.metaKey || $("panel").disabled) return;
  const [azimuth, elevation, distance] = source;
  const step = metres => move(scene.selected, [azimuth, elevation, clamp(metres, MIN_DISTANCE, MAX_DISTANCE)]);
  const acts = {
    ArrowLeft: () => move(scene.selected, [wrap(azimuth + turnBy), elevation, distance]),
    ArrowRight: () => move(scene.selected, [wrap(azimuth - turnBy), elevation, distance]),
    ArrowUp: () => step(distance * factor),
    ArrowDown: () => step(distance / factor),
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
  scene.changes.add(scene.selected);
  send(`/source/${scene.selected + 1}/mute`, aed()[4]);
  showSource();
};
$("recentre").onclick = () => send("/recentre");

/* ---- plot, upload, log, statistics ------------------------------------------------------------------------------- */

const RESPONSES = {impulse: "Impulse response", "impulse-db": "Impulse response (dB)", step: "Step response"};
const plotName = kind => RESPONSES[kind] ?? kind[0].toUpperCase() + kind.slice(1).replace("-", " ");
const withToken = () => token ? {Authorization: `Bearer ${token}`} : {};

async function plot() {
  const [number, kind, image] = [$("plot-mask").value, $("plot-kind").value, $("plot-image")];
  const [name, what] = [$("plot-mask"), $("plot-kind")].map(select => select.selectedOptions[0]?.text);
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
$("plot-draw").onclick = plot;
$("plot-mask").onchange = $("plot-kind").onchange = () => { if (!$("plot-image").hidden) plot(); };

const MAX_UPLOAD = 2 ** 26; /* bytes: PANEL_MAX_BODY */
function upload(file) {
  if (file.size > MAX_UPLOAD) { /* the answer could be lost while the browser sends */
    showError(`${file.name}: has more than ${MAX_UPLOAD / 2 ** 20} MiB; use a shorter mask`);
    return Promise.resolve();
  }
  return new Promise(done => {
    const request = new XMLHttpRequest(), text = $("upload-text");
    const end = message => {
      $("upload").hidden = true;
      text.textContent = message;
      done();
    };
    const more = uploads.length - 1;
    text.textContent = `Sending ${file.name}${more ? `, then ${more} more` : ""}`;
    $("upload").hidden = false;
    $("upload").value = 0;
    request.upload.onprogress = event => { $("upload").value = event.loaded / event.total; };
    request.upload.onload = () => { text.textContent = `haloconv reads ${file.name}`; };
    request.onload = () => {
      const answer = attempt(() => JSON.parse(request.responseText)) || {};
      if (request.status < 300 && answer.mask) return end(`${file.name} is in the list.`);
      const why = answer.error || `status ${request.status}`;
      end("");
      showError(why.startsWith(file.name) ? why : `${file.name}: ${why}`);
    };
    request.onerror = () => end(`${file.name} was not sent: the connection ended.`);
    request.open("POST", `/upload?name=${encodeURIComponent(file.name)}`);
    for (const [name, value] of Object.entries(withToken())) request.setRequestHeader(name, value);
    request.send(file);
  });
}
const uploads = []; /* the file that is being sent, and those that wait */
async function uploadAll(files) {
  if (uploads.push(...files) > files.length) return; /* the loop of an earlier call sends them */
  for (; uploads.length; uploads.shift()) await upload(uploads[0]);
}
$("file").onchange = () => {
  uploadAll([...$("file").files]);
  $("file").value = "";
};
const hasFiles = event => event.dataTransfer?.types.includes("Files");
addEventListener("dragover", event => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  $("drop").classList.add("over");
});
addEventListener("dragleave", event => { if (!event.relatedTarget) $("drop").classList.remove("over"); });
addEventListener("drop", event => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  $("drop").classList.remove("over");
  if (!$("drop").hidden && !$("panel").disabled) uploadAll([...event.dataTransfer.files]);
});

function log(level, text) {
  const list = $("log"), isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 30;
  list.append(make("li", {class: level}, text));
  while (list.children.length > 200) list.firstChild.remove();
  if (isAtEnd) list.scrollTop = list.scrollHeight;
}

/* Keys of the statistics, with the words and the unit that are shown. */
const STATISTICS = [["state", "State"], ["seconds", "Running", "s"], ["blocks", "Blocks"], ["frames", "Frames"],
  ["period_us", "Time of a block", "µs"], ["p50", "Callback, median", "µs"], ["p99", "Callback, 99 % of blocks", "µs"],
  ["p99.9", "Callback, 99.9 % of blocks", "µs"], ["max", "Callback, longest", "µs"], ["late", "Late blocks"],
  ["lost", "Lost blocks"], ["overruns", "Overruns"], ["xruns", "Xruns"], ["last_xrun", "Last xrun", "s"],
  ["swaps", "Changes of the mask"], ["ready", "Masks kept ready"], ["engines", "Engines started"],
  ["clipped", "Output samples over 0 dBFS"], ["non_finite", "Input samples replaced by 0"],
  ["overflowed", "Output samples replaced by 0"],
  ["ducked", "Turned down against feedback", "times"], ["loudness_lufs", "Loudness of A and B", "LUFS"],
  ["backend", "Backend"], ["device", "Device"], ["method", "Method"], ["rate", "Rate", "Hz"],
  ["block", "Block", "frames"], ["mask", "Mask"]];
function showStats(text) {
  const all = JSON.parse(text), values = {...all, ...all.callback_us, ...all.ab};
  const shown = value => Array.isArray(value) ? value.map(shown).join(" and ")
    : typeof value === "number" ? fixed(round(value, 1), value % 1 ? 1 : 0) : String(value);
  $("stats-list").replaceChildren(...STATISTICS.filter(([key]) => values[key] != null).flatMap(([key, name, unit]) =>
    [make("dt", {}, name), make("dd", {}, unit ? `${shown(values[key])} ${unit}` : shown(values[key]))]));
}
$("stats").ontoggle = () => { if ($("stats").open) send("/stats"); };
$("stats-again").onclick = () => send("/stats");

/* ---- messages of the server, keys -------------------------------------------------------------------------------- */

const handlers = {
  "/hello": fields => {
    if (version && version !== fields.version) return location.reload(); /* this page is that of another program */
    version = fields.version;
    hello(fields);
  },
  "/unsubscribe": () => { reason = ENDED; },
  "/mask": mask,
  "/gain": value => gains["/gain"].show(value),
  "/wet": value => gains["/wet"].show(value),
  "/dry": value => gains["/dry"].show(value),
  "/bypass": showBypass,
  "/ab/state": (plays, ...db) => {
    if (plays !== comparison.plays) announce(plays ? `${"AB"[plays - 1]} plays` : "The comparison has ended");
    Object.assign(comparison, {plays, db});
    showComparison();
  },
  "/ab/masks": (...masks) => {
    comparison.masks = masks;
    showPair();
  },
  "/meters": (ins, outs, percent, late, xruns) => {
    const now = performance.now();
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
  "/error": (path, why) => {
    if (path === "/token") return askToken();
    if (path === "/subscribe") return void (reason = `haloconv takes no more pages: ${why}. This page tries again.`);
    if (path === "/ab") showPair(); /* the choice was refused */
    showError(why);
  },
  "/preset/saved": (name, text) => announce(text)
};

document.addEventListener("keydown", event => {
  const types = "input:not([type=range], [type=checkbox], [type=file]), select";
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches(types)) return;
  if (!$("keys").checked || $("panel").disabled || event.key.length > 1 || !KEYS.includes(event.key)) return;
  event.preventDefault();
  if (event.repeat && !REPEATED_KEYS.includes(event.key)) return;
  sendWaiting(); /* a key steps from the value that is shown */
  if (event.key === "a" && !$("ab").disabled) switchComparison(); /* with the pair that is chosen here */
  else send("/key", event.key);
});
$("keys").checked = attempt(() => localStorage.getItem("keys")) !== "off";
$("keys").onchange = () => attempt(() => localStorage.setItem("keys", $("keys").checked ? "on" : "off"));

function redrawAll() {
  readColours();
  redraw(meters[0].picture, meters[1].picture, loudest, spectrum, load, circle);
}
for (const query of ["(prefers-color-scheme: light)", "(forced-colors: active)"])
  matchMedia(query).addEventListener("change", redrawAll);
document.addEventListener("visibilitychange", redrawAll);
redrawAll();
readToken();
connect();
