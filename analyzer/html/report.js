/* Draws the figures of one capture, or of two. Everything shown is computed here from sites over time, so
 * that any window of the capture can be viewed. Names come from the captured program and are only ever
 * inserted as text. read.js reads the figures; names.js shortens names, and instances.js merges those that differ in
 * template arguments; search.js finds, editor.js opens sources, rows.js has what is below a row; lifetimes.js draws what needs single events, diff.js what only comparisons have, verdict.js what
 * stands on top, strip.js the timeline below, generations.js what of it is still live; tree.js makes the trees of the flame
 * graph, graph.js draws one, minimap.js the whole above it, sandwich.js two of them around one function, colours.js
 * says what colours mean, flame.js has the graph of all stacks and details of frames, spark.js a line in those; start.js
 * sets up the page. */
const data = await readFigures();
const $ = id => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'class') element.className = value;
    else if (key.startsWith('aria-') || key === 'role' || key === 'scope') element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

/* An item of a legend. Without a colour it is hatched; a name of a property (--accent) stands for its value. */
function legendItem(colour, ...words) {
  const swatch = make('span', {class: colour ? 'swatch' : 'swatch hatched', 'aria-hidden': 'true'});
  if (colour) swatch.style.background = colour.startsWith('--') ? `var(${colour})` : colour;
  return make('li', {}, swatch, ' ', ...words);
}

/* ---------------------------------------------------------------- formatting figures */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
/* Scaled figures are no whole numbers: what rounds to nothing has no sign. */
const whole = value => Math.abs(value) < 0.5 ? 0 : value;
function bytes(size) {
  const value = whole(size);
  let amount = Math.abs(value), unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) { amount /= 1024; unit++; }
  const digits = unit === 0 || amount >= 100 ? 0 : 1;
  return (value < 0 ? '−' : '') + amount.toFixed(digits) + ' ' + UNITS[unit];
}
const count = value => Math.round(whole(value)).toLocaleString('en');
function seconds(value) {
  if (value < 60) return value.toFixed(value < 10 ? 2 : 1) + ' s';
  const minutes = Math.floor(value / 60), hours = Math.floor(minutes / 60);
  const two = n => String(Math.floor(n)).padStart(2, '0');
  return hours ? `${hours}h${two(minutes % 60)}m${two(value % 60)}s` : `${minutes}m${two(value % 60)}s`;
}
const plural = (value, one, many = `${one}s`) => `${count(value)} ${Math.round(value) === 1 ? one : many}`;
const signed = value => (whole(value) > 0 ? '+' : '') + bytes(value);
const signedCount = value => (whole(value) > 0 ? '+' : whole(value) < 0 ? '−' : '') + count(Math.abs(value));
const percent = (part, whole) => whole ? (100 * part / whole).toFixed(1) + ' %' : '';

/* In a comparison each site belongs to one of two heaps; the page shows one metric of both. */
const comparing = data.format === 'limpet-diff-html', SIDES = ['old', 'new'];
/* A trace of `limpet pages`: nothing was loaded into the program, and who touched a page first is known, not what
 * uses it now. */
const ofPages = comparing ? !!data.of_pages : data.capture.mode === 'pages';
const LIVE = ofPages ? 'resident' : 'live';
const FIRST_TOUCH = 'A page counts for the stack that touched it first: another function may keep it.';
/* Temporary allocations are unknown in sampled captures. */
const NO_TEMPORARY = (comparing ? SIDES.some(side => data[side].sampled) : data.totals.temporary_allocations === null) ? 'not known when sampled' : '';
const unless = (unknown, format) => value => value === null || unknown() ? '–' : format(value);
const noTemporary = () => NO_TEMPORARY !== '', noPeak = () => !!figures && figures.noPeak;

/* change: formats a difference; flow: counted over time, not held at one moment. */
const METRICS = {
  live: {words: ofPages ? 'pages first touched, resident at the end' : 'bytes live at the end', short: ofPages ? 'Resident' : 'Live', format: bytes, change: signed},
  peak: {words: ofPages ? 'pages first touched, resident at the peak' : 'bytes at the peak', short: 'At peak', format: unless(noPeak, bytes), change: signed},
  growth: {words: 'growth', short: 'Growth', format: signed, change: signed, flow: true},
  allocated: {words: ofPages ? 'bytes of new pages' : 'bytes allocated', short: ofPages ? 'Touched' : 'Allocated', format: bytes, change: signed, flow: true},
  allocations: {words: ofPages ? 'new pages' : 'allocations', short: ofPages ? 'Pages touched' : 'Allocations', format: count, change: signedCount, flow: true},
  temporary: {words: ofPages ? 'temporary pages' : 'temporary allocations', short: 'Temporary', format: unless(noTemporary, count), change: unless(noTemporary, signedCount), flow: true},
};
/* Of a window: what was allocated in it and is left when the capture ends. */
if (!comparing && data.kept.survivors) METRICS.survived = {words: ofPages ? 'pages first touched, resident at the end of the capture' : 'bytes allocated, live at the end of the capture', short: 'Survived', format: bytes, change: signed, flow: true};
/* Each page that is returned is free before the next one comes, or not: that says nothing of the program. */
const hasTemporary = !ofPages && !NO_TEMPORARY;
if (ofPages && data.sort !== 'temporary') delete METRICS.temporary;
const sites = !comparing ? data.sites :
  SIDES.flatMap(side => data[side].sites.node.map((node, at) => ({node, side, at})));
/* Whether figures are of two sides: two captures, or two windows of one. */
const inTwo = () => comparing || view.base !== null;
const sideName = side => comparing ? side : {old: 'A', new: 'B'}[side];
const COLUMNS_OF_TWO = {
  change: {short: 'Change', format: value => ofTwo(view.metric).change(value), order: Math.abs},
  old: {get short() { return capital(sideName('old')); }, format: value => ofTwo(view.metric).format(value)},
  new: {get short() { return capital(sideName('new')); }, format: value => ofTwo(view.metric).format(value)},
};
const columnsShown = () => inTwo() ? COLUMNS_OF_TWO : METRICS;

/* ---------------------------------------------------------------- frames, stacks, sites */

const {frames, addresses, nodes, strings} = data;
const frameName = f => frames.function[f] >= 0 ? strings[frames.function[f]] : null;
const frameFile = f => frames.file[f] >= 0 ? strings[frames.file[f]] : null;
const frameModule = f => frames.module[f] >= 0 ? strings[frames.module[f]] : null;
const base = path => path.slice(path.lastIndexOf('/') + 1);
/* Pages may have come without a fault, which is all that is known of them. */
const NO_FRAMES = ofPages ? '(came without a fault, or stack unknown)' : '(stack unknown)';
function nameOf(f) {
  if (f < 0) return NO_FRAMES;
  const name = frameName(f);
  if (name) return name;
  const module = frameModule(f);
  return module ? `${base(module)}+0x${frames.offset[f]}` : `0x${frames.offset[f]}`;
}
const FOLD = {program: 0, allocator: 1, library: 2, start: 3};
const isJit = f => frames.function[f] < 0 && frames.module[f] < 0;
/* Each stands for a run of unnamed frames: code of a JIT compiler, or unknown code. */
const JIT = frames.function.length, UNKNOWN = JIT + 1;
for (const name of ['[jit]', '(unknown code)'])
  for (const [column, value] of Object.entries({function: strings.push(name) - 1, file: -1, line: 0, module: -1, offset: '0', inlined: 0, made: 0, kind: FOLD.program}))
    frames[column].push(value);
const codeOf = f => frames.made[f] ? JIT : UNKNOWN;
/* As the step of "Names" has it; a label has no parameters. */
const partsOfNames = Object.fromEntries(Object.keys(NAME_STEPS).map(step => [step, new Map()]));
function shownName(name) {
  const {of} = NAME_STEPS[view.names], known = partsOfNames[view.names];
  if (!of) return name;
  let words = known.get(name);
  if (words === undefined) known.set(name, words = of(name));
  return words;
}
const short = name => brief(view.names === 'full' ? withoutParameters(name) : shownName(name));
/* Frames of one function. `base`: the name of what several functions have in common. */
class FunctionGroup {
  constructor(what) { Object.assign(this, what, {labels: {}}); }
  get short() { return this.labels[view.names] ||= short(this.base || this.name); }
}

/* Frames of the same function form one group, whatever the line. */
let groupOf = new Int32Array(frames.function.length), groups = [];
{
  const known = new Map();
  for (let f = 0; f < groupOf.length; f++) {
    /* The addresses and paths of two builds of a program differ. */
    const key = frames.function[f] < 0 ? nameOf(f) : comparing ? frames.function[f] : `${frames.function[f]}/${frames.module[f]}`;
    let group = known.get(key);
    if (group === undefined) {
      group = groups.length;
      groups.push(new FunctionGroup({frame: f, name: nameOf(f), module: frameModule(f), kind: frames.kind[f]}));
      known.set(key, group);
    }
    groupOf[f] = group;
  }
}

/* A stack, innermost first. */
function stackOf(node) {
  const stack = [];
  for (; node > 0; node = nodes.parent[node])
    for (const f of addresses[nodes.address[node]] || []) stack.push(f);
  return stack;
}
/* Drops noise: allocators, libraries below the program's innermost own function, and functions that
 * start threads. A stack of nothing but noise stays as it is. */
function folded(stack) {
  const first = stack.findIndex(f => frames.kind[f] === FOLD.program);
  if (first < 0) return stack;
  return stack.filter((f, i) => i >= first && frames.kind[f] !== FOLD.start && frames.kind[f] !== FOLD.allocator);
}

/* Call paths: a tree of groups, outermost first. Every recorded node maps to a path, raw and folded. A
 * path's number is higher than its parent's. */
const paths = {parent: [0], group: [-1], frame: [-1]};
let rawPath = new Int32Array(nodes.parent.length), foldedPath = new Int32Array(nodes.parent.length);
{
  const known = new Map();
  const internPath = (parent, f) => {
    const key = parent * groups.length + groupOf[f];
    let id = known.get(key);
    if (id === undefined) {
      id = paths.parent.push(parent) - 1;
      paths.group.push(groupOf[f]);
      paths.frame.push(f);
      known.set(key, id);
    }
    return id;
  };
  /* The folded path so far, and its part up to the program's innermost own function. */
  const kept = new Int32Array(nodes.parent.length), own = new Int32Array(nodes.parent.length);
  for (let n = 1; n < nodes.parent.length; n++) {
    const above = nodes.parent[n], list = addresses[nodes.address[n]] || [];
    let raw = rawPath[above], run = kept[above], program = own[above];
    for (let i = list.length - 1; i >= 0; i--) {
      const f = list[i], kind = frames.kind[f];
      raw = internPath(raw, f);
      if (kind === FOLD.start || kind === FOLD.allocator) continue;
      if (!isJit(f)) run = internPath(run, f);
      else if (paths.frame[run] !== codeOf(f)) run = internPath(run, codeOf(f));
      if (kind === FOLD.program) program = run;
    }
    rawPath[n] = raw;
    kept[n] = run;
    own[n] = program;
    foldedPath[n] = program || raw;
  }
}
for (const key in paths) paths[key] = Int32Array.from(paths[key]);
const nodeOf = Int32Array.from(sites, ({node}) => node);
const pathOf = site => (view.noise ? rawPath : foldedPath)[nodeOf[site]];
/* The whole name of a frame of a path, which may stand for several functions. */
const wholeName = f => f >= 0 && groups[groupOf[f]].base ? groups[groupOf[f]].name : nameOf(f);
const shownFrame = f => f >= 0 && groups[groupOf[f]].base ? groups[groupOf[f]].short : shownName(nameOf(f));
const shortFrame = f => f >= 0 ? groups[groupOf[f]].short : NO_FRAMES;
/* Innermost first. */
function framesOf(path) {
  const list = [];
  for (; path; path = paths.parent[path]) list.push(paths.frame[path]);
  return list;
}
let searchable = groups.map(g => searchText(g.name, frameFile(g.frame) || '', g.module || ''));

/* ---------------------------------------------------------------- the window that is shown */

const edges = data.buckets || [0, 0]; /* seconds; bucket b is [edges[b], edges[b + 1]) */
const bucketCount = edges.length - 1;
/* Live bytes at each edge, and calls between edges. */
const liveAt = new Float64Array(bucketCount + 1);
const rates = {allocations: new Float64Array(bucketCount), temporary: new Float64Array(bucketCount)};
for (const site of comparing ? [] : sites) {
  site.b.forEach((b, i) => {
    liveAt[b + 1] += site.ab[i] - site.fb[i];
    rates.allocations[b] += site.a[i];
    rates.temporary[b] += site.t[i];
  });
}
for (let b = 1; b <= bucketCount; b++) liveAt[b] += liveAt[b - 1];
/* Figures within the steps, computed from every event; null: unknown. */
const moments = comparing ? null : data.moments;
/* The highest live bytes of each step, and when; bytes null: unknown. */
const highest = comparing ? [] : data.highest.bytes.map((bytes, b) => ({bytes, seconds: data.highest.seconds[b]}));
if (moments) {
  let b = 0;
  const known = highest.map(high => high.bytes !== null);
  moments.highest.forEach((bytes, i) => {
    while (b + 1 < bucketCount && moments.seconds[i] > edges[b + 1]) b++;
    if (!known[b] && (highest[b].bytes === null || bytes > highest[b].bytes)) highest[b] = {bytes, seconds: moments.seconds[i]};
  });
}
/* Why no part of the time can be chosen; '': one can. */
const noPart = bucketCount > 1 || comparing ? '' : 'No window can be selected: ' + (
  data.capture.estimated ? 'figures are estimated for the whole capture only.' :
  data.kept.inOne && data.capture.damaged_blocks ? 'the trace is damaged, and its parts do not add up to the whole.' :
  data.kept.inOne ? 'the parts that were kept do not add up to the whole.' :
  data.capture.compact ? 'sums are kept per minute, and there is only one minute.' :
  'the capture is shorter than one step of the trace.');

/* from, to: the window, in steps; base: the one that it is compared with, [from, to], or null. */
const view = {from: 0, to: bucketCount, base: null, metric: 'live', noise: false, direction: 'down', find: '', state: '', only: false, colour: 'name', layers: 'function', names: USUAL_NAMES, merged: false};
let figures = null;

/* The steps of a window, and the edge where most was live in it. */
function windowOf(from, to) {
  let peakEdge = from;
  for (let b = from; b <= to; b++) if (liveAt[b] > liveAt[peakEdge]) peakEdge = b;
  return {from, to, peakEdge, whole: from === 0 && to === bucketCount};
}
/* Figures of a site, or of a thread, in a window. */
function seriesFigures(series, {from, to, peakEdge, whole}) {
  let start = 0, end = 0, peak = 0, liveCount = 0, allocated = 0, allocations = 0, temporary = 0, survived = 0;
  for (let i = 0; i < series.b.length; i++) {
    const b = series.b[i], delta = series.ab[i] - series.fb[i];
    if (b >= to) break;
    if (b < from) start += delta;
    else { allocated += series.ab[i]; allocations += series.a[i]; temporary += series.t[i]; }
    if (b < peakEdge) peak += delta;
    end += delta;
    liveCount += series.a[i] - series.f[i];
  }
  if (series.s) series.s.forEach((step, i) => { if (step >= from && step < to) survived += series.sb[i]; });
  /* Bytes at the exact moment of the peak are known for the whole capture only. */
  if (whole) peak = series.peak;
  return {live: end, liveCount, peak, growth: end - start, allocated, allocations, temporary, survived};
}

function compute() {
  performance.mark('limpet-computed');
  if (comparing) { figures = compareFigures(); return; }
  const shown = windowOf(view.from, view.to), {whole, peakEdge} = shown;
  if (view.base) { figures = {...compareFigures(), window: shown, whole: false, peakEdge, noPeak: false}; return; }
  const total = {live: 0, liveCount: 0, peak: 0, growth: 0, allocated: 0, allocations: 0, temporary: 0, survived: 0};
  const bySite = sites.map(site => {
    const one = seriesFigures(site, shown);
    for (const key in total) total[key] += one[key];
    return one;
  });
  figures = {bySite, total, window: shown, whole, peakEdge, noPeak: whole && !data.kept.peak, high: whole ?
    {bytes: data.hidden && !data.kept.peak ? null : data.totals.peak_bytes, seconds: data.totals.peak_seconds, exact: true} : highestIn(view.from, view.to)};
  if (whole) figures.total.peak = data.totals.peak_bytes;
}
/* exact: the highest value of each step is known; otherwise the ends of the steps are used. */
function highestIn(from, to) {
  const high = {bytes: liveAt[from], seconds: edges[from], exact: true};
  for (let b = from; b < to; b++) {
    const known = highest[b].bytes !== null, one = known ? highest[b] : {bytes: liveAt[b + 1], seconds: edges[b + 1]};
    if (one.bytes > high.bytes) Object.assign(high, one);
    high.exact &&= known;
  }
  return high;
}
const mainKey = () => inTwo() ? 'change' : view.metric;
/* The columns of function and caller tables. */
const shownKeys = () => inTwo() ? Object.keys(COLUMNS_OF_TWO) : [view.metric];
const weight = site => figures.bySite[site][mainKey()];
const stackShown = site => framesOf(pathOf(site));

/* ---------------------------------------------------------------- tables */

/* The filter text of each table, by the id of its container; it survives a redraw. */
const filters = new Map();

/* columns: {title, value(row), order(value): by which it sorts, if not by the value; format(value, row), number, cell(row), search(words): a function that says of a
 * row whether it matches; text(row): instead of the value, for a copy; whole: what 100 % is, of which each figure has its
 * share as a bar; bar: it is nothing but one; minor: a narrow screen has no room for it}. No more than MOST rows are drawn at a time. */
const STEP = 100, MOST = 1000, FEW = 5, FILTER_DELAY_MS = 150;
/* On paper: as many rows as somebody reads. */
const PRINTED = 40, PRINTED_WIDTH = 680;
let printing = false;
const collator = new Intl.Collator();
/* Says of a row whether a cell of it contains the words. Cells with figures all have units in them: these are
 * searched only for words with a digit. */
function rowFilter(columns, words) {
  const tests = columns.map(c => {
    if (c.search) return c.search(words);
    if (c.number && !/\d/.test(words)) return () => false;
    return row => String(c.format ? c.format(c.value(row), row) : c.value(row)).toLowerCase().includes(words);
  });
  return row => tests.some(test => test(row));
}
function sortRows(list, column, descending) {
  const sign = descending ? -1 : 1;
  let keys = list.map(column.order ? row => column.order(column.value(row)) : column.value);
  if (typeof keys[0] === 'string') {
    const rank = new Map([...new Set(keys)].sort(collator.compare).map((key, i) => [key, i]));
    keys = keys.map(key => rank.get(key));
  }
  /* Numbers are sorted alone, which is fast; each row goes to the first free place of its number. */
  const own = new Float64Array(list.length), taken = new Int32Array(own.length), rows = new Array(own.length);
  for (let i = 0; i < own.length; i++) own[i] = sign * keys[i] || 0;
  const sorted = own.slice().sort();
  for (let i = 0; i < own.length; i++) {
    let low = 0;
    for (let high = own.length; low < high;) {
      const middle = low + high >> 1;
      if (sorted[middle] < own[i]) low = middle + 1;
      else high = middle;
    }
    rows[low + taken[low]++] = list[i];
  }
  return rows;
}
function filterField(id, caption, renew) {
  let pending = 0;
  const field = make('input', {type: 'search', placeholder: 'Filter', spellcheck: false, autocomplete: 'off',
    'aria-label': `Filter: ${caption}`, value: filters.get(id) || '', oninput: () => {
      filters.set(id, field.value.trim().toLowerCase());
      clearTimeout(pending);
      pending = setTimeout(renew, FILTER_DELAY_MS);
    }});
  return field;
}
/* At most so many rows are copied. */
const COPIED = 10000;
function inTabs(columns, list) {
  const kept = columns.filter(c => !c.bar), clean = text => String(text ?? '').replace(/[\t\r\n]+/g, ' ');
  return [kept.map(c => c.title), ...list.slice(0, COPIED).map(row => kept.map(c => c.text ? c.text(row) : c.value(row)))]
    .map(cells => cells.map(clean).join('\t')).join('\n') + '\n';
}
/* A row below this one shows what `more` makes of it, and goes with the next click. */
function toggleBelow(button, row, more) {
  const line = button.closest('tr'), open = button.getAttribute('aria-expanded') === 'true';
  button.setAttribute('aria-expanded', String(!open));
  if (open) line.nextSibling.remove();
  else line.after(make('tr', {class: 'below'}, make('td', {colSpan: line.cells.length}, ...more(row))));
}
const shareBehind = (cell, part, whole) => {
  const share = whole > 0 ? Math.max(0, Math.min(100, 100 * part / whole)) : 0;
  cell.classList.add('shared');
  cell.style.backgroundSize = `${share.toFixed(1)}% 3px`;
};
const tableRow = (columns, classOf, row) => make('tr', {}, ...columns.map((c, i) => {
  const cell = make('td', {class: classOf(c, i)});
  if (c.whole !== undefined) shareBehind(cell, c.value(row), c.whole);
  if (c.cell) cell.append(...c.cell(row));
  else cell.textContent = c.format ? c.format(c.value(row), row) : c.value(row);
  return cell;
}));
function table(into, caption, columns, rows, sorted = 0, descending = true) {
  let first = 0, shown = printing ? PRINTED : STEP, list = [];
  const head = make('tr'), body = make('tbody');
  /* What a narrow screen has no room for: figures beside names, but the one that sorts. */
  const named = columns.some(c => c.class === 'name'), main = () => columns[sorted].number ? sorted : columns.findIndex(c => c.number);
  const classOf = (c, i) => [c.number ? 'number' : c.class || '', c.minor ?? (named && c.class !== 'name' && i !== main()) ? 'minor' : ''].filter(Boolean).join(' ');
  const box = make('div', {class: 'wide', tabIndex: 0, role: 'region', 'aria-label': caption});
  /* Filters and sorts. */
  function renew() {
    const words = filters.get(into.id), matches = words && rowFilter(columns, words);
    list = sortRows(matches ? rows.filter(matches) : rows, columns[sorted], descending);
    first = 0;
    shown = printing ? PRINTED : STEP;
    drawHead();
    drawRows();
  }
  function drawHead() {
    head.replaceChildren(...columns.map((c, i) => {
      const cell = make('th', {scope: 'col', class: classOf(c, i)});
      const mark = i === sorted ? (descending ? ' ▾' : ' ▴') : '';
      cell.setAttribute('aria-sort', i === sorted ? (descending ? 'descending' : 'ascending') : 'none');
      cell.append(make('button', {type: 'button', textContent: c.title + mark, title: c.hint || '', onclick: () => {
        descending = i === sorted ? !descending : !!c.number;
        sorted = i;
        renew();
        head.children[i].firstChild.focus();
      }}));
      return cell;
    }));
  }
  function drawRows() {
    body.replaceChildren(...list.slice(first, first + shown).map(row => tableRow(columns, classOf, row)));
    const rest = list.length - first - shown;
    more.hidden = rest <= 0;
    more.textContent = shown < MOST ? `Show more (${count(rest)} more)` : `Next ${count(Math.min(MOST, rest))} (${count(rest)} more)`;
    start.hidden = !first;
    left.textContent = filters.get(into.id) ? `${count(list.length)} of ${count(rows.length)}` : '';
    cut.textContent = printing && rest > 0 ? `the first ${count(shown)} of ${count(list.length)}` : '';
  }
  const more = make('button', {type: 'button', onclick: () => {
    if (shown < MOST) shown = Math.min(MOST, shown * 4);
    else {
      first += MOST;
      box.scrollTop = 0;
    }
    drawRows();
  }});
  const start = make('button', {type: 'button', textContent: 'First rows', onclick: () => { first = 0; drawRows(); }});
  const left = make('span', {class: 'note', role: 'status'}), cut = make('span', {class: 'note printed'});
  const filter = filterField(into.id, caption, renew);
  const copy = make('button', {type: 'button', class: 'small', textContent: 'Copy as TSV', title: 'The rows that the filter keeps, for a spreadsheet',
    onclick: () => copyBy(copy, inTabs(columns, list))});
  box.append(make('table', {}, make('thead', {}, head), body));
  into.replaceChildren(make('div', {class: 'caption'}, make('span', {class: 'note', textContent: caption}),
    ...(rows.length > FEW || filters.get(into.id) ? [filter, left] : []), cut, start, copy), box, more);
  renew();
}

const shareBar = (part, whole) => {
  const bar = make('span', {class: 'share', 'aria-hidden': 'true'});
  bar.style.width = `${whole ? Math.max(0, Math.min(100, 100 * part / whole)) : 0}px`;
  return bar;
};

function showStack({site, stacks: many, sum}) {
  const stack = stackOf(sites[site].node), kept = new Set(folded(stack));
  const list = make('ol', {class: 'frames'}, ...framesOnce(stack, (f, words) => {
    const item = make('li', {class: kept.has(f) ? '' : 'noise'});
    item.append(make('button', {type: 'button', class: 'link', textContent: shownName(nameOf(f)), title: brief(nameOf(f), 1000), onclick: () => {
      $('stack').close();
      showFunction(groupOf[f]);
    }}), words, ' ', sourceLink(f), frames.inlined[f] ? make('span', {class: 'note', textContent: ' (inlined)'}) : '');
    return item;
  }));
  const rows = inTwo() ? compareMetrics(site) : Object.entries(METRICS).map(([key, m]) => make('tr', {},
    make('td', {textContent: m.words}), make('td', {class: 'number', textContent: m.format(sum[key])})));
  $('stack-flame').onclick = () => { $('stack').close(); showStackInFlame(pathOf(site)); };
  $('stack-body').replaceChildren(make('table', {}, make('tbody', {}, ...rows)),
    make('p', {class: 'note', textContent: many > 1 ? `${count(many)} recorded stacks that look alike; this is the largest:` : ''}), list);
  $('stack').showModal();
}

/* Recorded stacks that look alike are one row: the sum, the one with the largest share, and if there are several, all. */
function mergeAlike(sites) {
  const rows = [], known = new Int32Array(paths.parent.length);
  for (const site of sites) {
    const path = pathOf(site), row = rows[known[path] - 1], one = figures.bySite[site];
    if (!row) {
      known[path] = rows.push({site, stacks: 1, sum: one});
      continue;
    }
    /* Most stacks look like no other, and need no sum of their own. */
    if (row.stacks++ === 1) Object.assign(row, {sum: {...row.sum}, sites: [row.site]});
    row.sites.push(site);
    for (const key in one) row.sum[key] += one[key];
    if (Math.abs(weight(site)) > Math.abs(weight(row.site))) row.site = site;
  }
  return rows;
}

/* For columns of stacks and of functions: which rows match. */
const searchPaths = pathOfRow => words => {
  const found = pathsWith(g => searchable[g].all.includes(words));
  return row => found[pathOfRow(row)] === 1;
};
const searchGroups = groupOfRow => words => row => groupOfRow(row) >= 0 && searchable[groupOfRow(row)].all.includes(words);

/* The figure that is looked at has its share as a bar. */
const shared = key => !inTwo() && key === view.metric ? {whole: figures.total[key]} : {};
/* Where noise is shown, each call of a recursion is, too. A place counts where it is shown. */
const sameFunction = (f, g) => !view.noise && groupOf[f] === groupOf[g];
const samePlace = (f, g) => !view.noise && (f === g || frames.function[f] >= 0 && ['function', 'file', 'line', 'module', 'inlined'].every(key => frames[key][f] === frames[key][g]));
const functionsInLine = list => callsInLine(list, sameFunction, shortFrame);
const framesOnce = (list, item) => seriesOf(list, samePlace).flatMap(series => series.calls.map((f, i) =>
  item(f, i === series.calls.length - 1 && series.times > 1 ? make('span', {class: 'note', textContent: seriesInWords(series)}) : '')));
/* The frames of a path, each with its place. */
const framesInList = list => make('ol', {class: 'frames'}, ...framesOnce(list, (f, words) => make('li', {},
  make('button', {type: 'button', class: 'link', textContent: shownFrame(f), title: brief(wholeName(f), 1000), onclick: () => showFunction(groupOf[f])}), words, ' ', sourceLink(f))));
/* A stack in one line; a button shows its frames below. */
function stackColumnOf(pathOfRow, show) {
  const nameAt = row => framesOf(pathOfRow(row))[0];
  return {title: 'Stack', class: 'name', value: row => pathOfRow(row) ? wholeName(paths.frame[pathOfRow(row)]) : '',
    text: row => framesOf(pathOfRow(row)).map(wholeName).join(' <- ') || NO_FRAMES, search: searchPaths(pathOfRow), cell: row => {
      const first = nameAt(row), [words, ...rest] = functionsInLine(framesOf(pathOfRow(row))).slice(0, 6), name = first === undefined ? NO_FRAMES : wholeName(first);
      const fold = foldButton(row, `frames of ${brief(name)}`, one => belowStack(one, pathOfRow(one), show));
      return [make('div', {class: 'one-line'}, make('button', {type: 'button', onclick: () => show(row), textContent: words || NO_FRAMES, title: brief(name, 1000)}),
        first === undefined ? '' : sourceLink(first), make('span', {class: 'where', textContent: rest.map(f => '← ' + f).join(' ')}), first === undefined ? '' : fold)];
    }};
}

function drawSites() {
  const found = foundSites(search.terms);
  const shown = shownKeys(), rows = mergeAlike(sites.map((_, i) => i).filter(i => !found || found(i))).filter(row => shown.some(key => row.sum[key] !== 0));
  /* Of the whole capture all that survived is what is live. */
  const known = columnsShown(), keys = Object.keys(known).filter(key => key !== 'survived' || key === view.metric || !figures.whole);
  const columns = keys.map(key => ({title: known[key].short, number: true, value: row => row.sum[key], format: known[key].format, order: known[key].order, ...shared(key)}));
  if (inTwo()) columns.push({title: 'State', value: row => stateWord(stateOf(row.sum))});
  columns.push(...originColumns(), withVia(stackColumnOf(row => pathOf(row.site), showStack)));
  table($('sites'), plural(rows.length, 'stack') + (KINDS.thread && termsOfKinds('thread').length ? ', with what all threads allocated there; Threads has figures of each' : ''), columns, rows, keys.indexOf(mainKey()));
}

/* ---------------------------------------------------------------- functions: self, all, callers */

/* For each key and function: the figures where it is innermost, and where it is anywhere on the stack. */
function functionFigures(found = null) {
  const keys = shownKeys(), zeros = () => Object.fromEntries(keys.map(key => [key, new Float64Array(groups.length)]));
  const self = zeros(), all = zeros(), seen = new Int32Array(groups.length).fill(-1);
  sites.forEach((_, site) => {
    const one = figures.bySite[site];
    if (!keys.some(key => one[key]) || found && !found(site)) return;
    let path = pathOf(site);
    if (path) for (const key of keys) self[key][paths.group[path]] += one[key];
    for (; path; path = paths.parent[path]) {
      const g = paths.group[path];
      if (seen[g] === site) continue;
      seen[g] = site;
      for (const key of keys) all[key][g] += one[key];
    }
  });
  return {self, all};
}

let chosen = -1;
function showFunction(group) {
  chooseFunction(group);
  visit('functions');
  $('callers').scrollIntoView({block: 'nearest'});
}

function drawCallers() {
  if (chosen < 0) {
    $('callers').replaceChildren(make('p', {class: 'note', textContent: 'Choose a function to see who calls it and what it calls.'}));
    return;
  }
  const callers = new Map(), callees = new Map(), lines = new Map();
  const keys = shownKeys(), main = mainKey(), zeros = () => Object.fromEntries(keys.map(key => [key, 0]));
  const all = zeros(), self = zeros();
  const addTo = (sum, one) => { for (const key of keys) sum[key] += one[key]; };
  const add = (map, key, one) => {
    if (!map.has(key)) map.set(key, zeros());
    addTo(map.get(key), one);
  };
  sites.forEach((_, site) => {
    const one = figures.bySite[site];
    if (!keys.some(key => one[key])) return;
    const stack = stackShown(site), innermost = stack.findIndex(f => groupOf[f] === chosen);
    if (innermost < 0) return;
    let outermost = innermost;
    stack.forEach((f, i) => { if (groupOf[f] === chosen) outermost = i; });
    addTo(all, one);
    add(callers, outermost + 1 < stack.length ? groupOf[stack[outermost + 1]] : -1, one);
    if (innermost === 0) addTo(self, one);
    else add(callees, groupOf[stack[innermost - 1]], one);
    /* Once for each line, however often recursion repeats it. */
    for (const f of new Set(stack.filter(f => groupOf[f] === chosen))) add(lines, f, one);
  });
  const {words} = METRICS[view.metric], known = columnsShown(), {format} = known[main];
  const list = (id, title, map, column) => {
    const into = make('div', {id}), rows = [...map.entries()].map(([key, figures]) => ({key, figures}));
    const figure = key => ({title: known[key].short, number: true, value: row => row.figures[key], format: known[key].format, order: known[key].order});
    const columns = inTwo() ? keys.map(figure) :
      [figure(main), {title: 'Share', number: true, value: row => row.figures[main], format: value => percent(value, all[main])}];
    table(into, title, [...columns, {class: 'name', ...column}], rows);
    return into;
  };
  const named = title => ({title, value: row => row.key < 0 ? '(start of the stack)' : groups[row.key].name,
    search: searchGroups(row => row.key), cell: ({key}) => [key < 0 ? '(start of the stack)' :
      make('button', {type: 'button', textContent: groups[key].short, title: brief(groups[key].name, 1000), onclick: () => showFunction(key)})]});
  const g = groups[chosen];
  $('callers').replaceChildren(
    make('h2', {class: 'whole-name', textContent: g.name}), make('p', {}, sourceLink(g.frame)),
    make('p', {textContent: inTwo() ? `${changeInWords(all)} (${words}); by itself: ${changeInWords(self)}.` :
      `${format(all[main])} (${words}) passed through it, ${format(self[main])} by itself.`}),
    make('div', {class: 'bar'}, make('button', {type: 'button', textContent: 'Show in the flame graph', onclick: () => showInFlame(chosen)}),
      make('button', {type: 'button', textContent: 'Sandwich', title: 'Callers above, callees below', onclick: () => showSandwich(chosen)})),
    make('div', {class: 'pair'}, list('called-by', 'Called by', callers, named('Caller')), list('calls', 'Calls', callees, named('Callee'))),
    [...lines.keys()].some(f => frames.line[f]) ? list('lines', 'Lines', lines, {title: 'Line',
      value: ({key}) => `${frameFile(key) || ''}:${String(frames.line[key]).padStart(8, '0')}`,
      search: words => ({key}) => `${frameFile(key) || ''}:${frames.line[key]}`.toLowerCase().includes(words), cell: ({key}) => [sourceLink(key)]}) : '');
}

function drawFunctions() {
  const {self, all} = functionFigures(foundSites(termsOfKinds('thread'))), keys = shownKeys(), main = mainKey();
  const rows = groups.map((_, g) => g).filter(g => keys.some(key => all[key][g]) && rowFound(searchable[g]));
  const {words} = METRICS[view.metric], total = figures.total[main], known = columnsShown(), {format} = known[main];
  const columns = inTwo() ? keys.map(key => ({title: known[key].short, number: true, value: g => all[key][g], format: known[key].format, order: known[key].order})) : [
    {title: 'With callees', number: true, value: g => all[main][g], format, ...shared(main)},
    {title: 'Share', number: true, value: g => all[main][g], format: w => percent(w, total)}];
  drawCallers();
  table($('function-table'), `${plural(rows.length, 'function')} by ${words}`, [...columns,
    {title: inTwo() ? 'Change by itself' : 'Self', number: true, value: g => self[main][g], format, order: known[main].order},
    {title: 'Function', class: 'name', value: g => groups[g].name, search: searchGroups(g => g), cell: g => [make('div', {class: 'one-line'},
      make('button', {type: 'button', textContent: groups[g].short, title: brief(groups[g].name, 1000), onclick: () => showFunction(g)}),
      sourceLink(groups[g].frame), make('button', {type: 'button', class: 'fold around', textContent: '⇕', title: 'Callers above, callees below',
        'aria-label': `callers and callees of ${groups[g].short}`, onclick: () => showSandwich(g)}),
      foldButton(g, `nearest callers and callees of ${groups[g].short}`, belowFunction))]},
  ], rows);
}

/* ---------------------------------------------------------------- modules and sizes */

/* Builds of a program are in different directories. */
function moduleOf(site) {
  const path = pathOf(site), file = path ? frameModule(paths.frame[path]) || '(no module)' : NO_FRAMES;
  return comparing ? base(file) : file;
}
function drawModules() {
  const by = new Map(), known = columnsShown(), found = foundSites(termsOfKinds('fn', 'file', 'thread'));
  sites.forEach((_, site) => {
    if (found && !found(site)) return;
    const module = moduleOf(site), figure = figures.bySite[site];
    const one = by.get(module) || {module};
    for (const key in known) one[key] = (one[key] || 0) + figure[key];
    by.set(module, one);
  });
  const rows = [...by.values()].filter(r => Object.keys(known).some(key => r[key]) && rowFound({all: r.module.toLowerCase(), module: r.module.toLowerCase()}));
  const columns = Object.entries(known).map(([key, m]) => ({title: m.short, number: true, value: r => r[key], format: m.format, order: m.order, ...shared(key)}));
  columns.push({title: 'Module', class: 'name', value: r => r.module, cell: r => [make('div', {class: 'one-line'}, make('span', {textContent: r.module, title: r.module}),
    foldButton(r, `stacks of ${base(r.module)}`, ({module}) => belowModule(module, found)))]});
  table($('modules'), ofPages ? `${plural(rows.length, 'module')} that touched new pages first` :
    rows.length === 1 ? '1 module that calls an allocator' : `${count(rows.length)} modules that call an allocator`, columns, rows, Object.keys(known).indexOf(mainKey()));
}

function drawSizes() {
  const rows = data.sizes.map(size => {
    let allocations = 0, allocated = 0;
    size.b.forEach((b, i) => { if (b >= view.from && b < view.to) { allocations += size.a[i]; allocated += size.ab[i]; } });
    return {...size, allocations, allocated};
  }).filter(r => r.allocations);
  const most = Math.max(0, ...rows.map(r => r.allocations)), mostBytes = Math.max(0, ...rows.map(r => r.allocated));
  const all = make('div', {id: 'sizes-all'}), bySite = make('div', {id: 'sizes-by-stack'});
  $('sizes').replaceChildren(all, make('h2', {textContent: 'By stack'}), bySite);
  drawSiteSizes(bySite);
  table(all, `Allocations by requested size${data.hidden ? sinceKept() : ''}`, [
    {title: 'Size', number: true, value: r => r.from, format: (v, r) => r.from === r.to ? bytes(r.from) : `${bytes(r.from)} – ${bytes(r.to)}`},
    {title: 'Allocations', number: true, value: r => r.allocations, format: count},
    {title: 'of the most', bar: true, minor: true, value: r => r.allocations, cell: r => [shareBar(r.allocations, most)]},
    {title: 'Bytes', number: true, value: r => r.allocated, format: bytes},
    {title: 'of the most', bar: true, minor: true, value: r => r.allocated, cell: r => [shareBar(r.allocated, mostBytes)]},
    {title: 'Average', number: true, minor: true, value: r => r.allocated / r.allocations, format: bytes},
  ], rows, 0, false);
}

/* ---------------------------------------------------------------- overview */

const topRow = (rows, key) => rows.reduce((best, row) => row.sum[key] > (best ? best.sum[key] : 0) ? row : best, null);

/* As the report. */
const MARKS_SHOWN = 20;
const momentInWords = at => {
  const mark = (data.marks || []).find(one => one.time_s === at);
  return mark ? `${mark.name} (${seconds(at)})` : seconds(at);
};
const bornInWords = ({from_seconds: from, to_seconds: to}) => `what was ${ofPages ? 'first touched' : 'allocated'} between ` +
  `${from ? momentInWords(from) : 'the start'} and ${to === null ? 'the end' : momentInWords(to)}`;
/* The user's marks; of blocks that were made in a part of the time, that part: a page is read without its
 * command line. */
function addMoments(findings) {
  const marks = data.marks || [];
  if (data.born) findings.push(make('li', {textContent: `Only ${bornInWords(data.born)}.`}));
  if (marks.length) findings.push(make('li', {textContent:
    `Marks: ${marks.slice(0, MARKS_SHOWN).map(one => momentInWords(one.time_s)).join(', ')}` +
    `${marks.length > MARKS_SHOWN ? ` and ${marks.length - MARKS_SHOWN} more` : ''}.`}));
}

function drawOverview() {
  const {total} = figures, span = edges[view.to] - edges[view.from];
  const findings = [];
  const addFinding = (before, row, after) => {
    const stack = framesOf(foldedPath[sites[row.site].node]);
    findings.push(make('li', {}, before, make('button', {type: 'button', class: 'link',
      textContent: stack.length ? shortFrame(stack[0]) : NO_FRAMES, title: stack.length ? brief(wholeName(stack[0]), 1000) : '', onclick: () => showStack(row)}), after));
  };
  const capture = data.capture;
  findings.push(...lossesInWords());
  if (typeof capture.unseen_rss_share === 'number') findings.push(make('li', {class: 'warn',
    textContent: `Partial: ${percent(capture.unseen_rss_share, 1)} of the resident memory is out of reach; the figures are of the rest.`}));
  addMoments(findings);
  if (data.hidden) findings.push(make('li', {textContent: `Filtered: hides ${bytes(data.hidden.live_bytes)} ${LIVE} of ${plural(data.hidden.allocations, ofPages ? 'new page' : 'allocation')}, ${bytes(data.hidden.allocated_bytes)} in all.`}));
  if (capture.sample_bytes) findings.push(make('li', {textContent: `Sampled, one in ${bytes(capture.sample_bytes)}: all figures are estimated.`}));
  const growthWords = growthOfPages();
  if (growthWords) findings.push(make('li', {id: 'growth-of-pages', textContent: growthWords}));
  const rows = mergeAlike(sites.map((_, i) => i));
  const known = figures.whole && data.findings ? data.findings : null;
  for (const finding of known || []) {
    const row = rowOfFinding(finding, rows);
    findings.push(make('li', {}, ...breakable(finding.text), ...(row ? [' ', make('button', {type: 'button', class: 'link',
      textContent: 'stack', 'aria-label': `stack of ${finding.culprit}`, onclick: () => showStack(row)})] : [])));
  }
  const live = topRow(rows, 'live'), growth = topRow(rows, 'growth'), temporary = topRow(rows, 'temporary');
  if (live && !known) addFinding(`Of the ${bytes(total.live)} that are ${LIVE}, ${bytes(live.sum.live)} (${percent(live.sum.live, total.live)}) ${ofPages ? 'were first touched' : 'were allocated'} by one stack of `, live, '.');
  /* Blocks of one part of the time only become less after it. */
  if (growth && span > 0 && !known && !data.born) addFinding(`${signed(total.growth)} in ${seconds(span)}; ${bytes(growth.sum.growth)} of what grew ${ofPages ? 'was first touched by' : 'is of'} one stack of `, growth, '.');
  if (temporary && total.allocations && !known && !ofPages) addFinding(`${percent(total.temporary, total.allocations)} of all allocations are freed at once; ${count(temporary.sum.temporary)} of these are made by one stack of `, temporary, '.');
  if (!figures.bySite.some(one => one.allocations)) findings.push(make('li', {textContent: `Nothing was ${ofPages ? 'touched' : 'allocated'} in this time.`}));
  if (ofPages && !known) findings.push(make('li', {class: 'note', textContent: FIRST_TOUCH}));
  const {high} = figures;
  if (!figures.whole && high.bytes > liveAt[figures.peakEdge]) findings.push(make('li', {class: 'note',
    textContent: `The bytes of each stack are known at the ends of steps: those shown for the peak are of ${seconds(edges[figures.peakEdge])}, when ${bytes(liveAt[figures.peakEdge])} were ${LIVE}.`}));
  if (figures.noPeak) findings.push(make('li', {class: 'note',
    textContent: 'The bytes of each stack at the peak are unknown: only sums are kept for that time.'}));
  $('findings').replaceChildren(...findings);
  const tile = (name, value, why) => make('div', {}, make('dt', {textContent: name}), make('dd', {}, value, ...(why ? [make('small', {textContent: why})] : [])));
  /* As the text report: the order of threads may matter so little that the recorded peak is shown. */
  const {peak_bytes: most, peak_bytes_min: least, peak_bytes_max: highest} = data.totals;
  const nearPeak = !capture.losses.some(({inexact}) => inexact) && least !== null && highest - least <= most / 100;
  /* The bounds of a figure, where losses were counted. */
  const bound = (name, value, format) => {
    const {[`${name}_min`]: min, [`${name}_max`]: max} = data.totals;
    if (!figures.whole || min === undefined || min === max || (name === 'peak_bytes' && nearPeak)) return format(value);
    return min === null ? (max === null ? format(value) : `at most ${format(max)}`) :
      max === null ? `at least ${format(min)}` : `${format(min)} to ${format(max)}`;
  };
  /* As the text report: there are no bounds, and what was lost is not counted. */
  const doubt = figures.whole && data.totals.live_bytes_min === null && data.totals.live_bytes_max === null &&
    capture.losses.some(({reason, inexact}) => inexact && reason !== 'sampled') ? 'recorded; the true figure is not known' : '';
  $('tiles').replaceChildren(
    tile(ofPages ? 'Resident at the end' : 'Live at the end', bound('live_bytes', total.live, bytes), doubt), tile(ofPages ? 'Pages' : 'Live blocks', bound('live_allocations', total.liveCount, count)),
    tile(`Peak, at ${seconds(high.seconds)}`, high.bytes === null ? '–' : (high.exact ? '' : 'at least ') + bound('peak_bytes', high.bytes, bytes)),
    tile(ofPages ? 'New pages' : 'Growth', signed(total.growth)), tile(ofPages ? 'Touched' : 'Allocated', bytes(total.allocated)),
    tile(ofPages ? 'Pages touched' : 'Allocations', count(total.allocations)), tile('a second', span ? count(total.allocations / span) : '–'),
    ...(ofPages ? [] : [NO_TEMPORARY ? tile('Temporary', '–', NO_TEMPORARY) : tile('Temporary', percent(total.temporary, total.allocations) || '–')]));
}

/* Of touched pages: what the change of RSS is made of, in the words of the text report; '': not known. */
function growthOfPages() {
  const rss = data.timeline.rss.filter(v => v !== null), {live_bytes: live, foreign_freed_bytes: returned} = data.totals;
  if (!ofPages || !figures.whole || data.hidden || rss.length < 2) return '';
  const change = rss[rss.length - 1] - rss[0];
  return `RSS ${signed(change)}: these pages ${signed(live)}, older ones that were returned ${signed(-returned)}, files and what is not known ${signed(change - live + returned)}.`;
}

const lossesInWords = () => data.capture.losses.filter(({reason}) => reason !== 'sampled').map(loss => make('li', {class: 'warn',
  textContent: `${loss.incomplete ? 'The capture is not complete' : 'Figures are not exact'}: ${loss.words}${lossCount(loss.reason)}.`}));
/* The count of a loss, where there is one. */
function lossCount(reason) {
  const {capture, totals} = data;
  const number = {'dropped-events': capture.dropped_events, 'unseen-calls': capture.unseen_calls, 'untracked': totals.untracked_allocations,
    'inferred-frees': totals.inferred_frees, 'damaged': capture.damaged_blocks}[reason];
  return number ? ` (${count(number)})` : '';
}

/* The words of the text report. */
const ENDS = {running: 'still running', duration: 'ended after its duration', interrupt: 'ended by interrupt', stop: 'ended by limpet stop',
  'target-exit': 'ended when the target exited', 'target-exec': 'ended when the target executed another program',
  'target-killed': 'ended when the target was killed', 'disk-full': 'ended because the disk was full, or could not be written',
  'size-limit': 'ended at the size limit', 'collector-lost': 'the collector died'};

function drawAbout() {
  const rows = [];
  const row = (name, value) => { if (value !== null && value !== undefined && value !== '') rows.push(make('dt', {textContent: name}), make('dd', {textContent: String(value)})); };
  const {target, capture} = data;
  row('Program', `${target.command || ''}${target.pid === null ? '' : ` (${target.pid})`}`);
  row('Recorded by', capture.recorder);
  row('Executable', target.executable);
  row('Allocators', target.allocators);
  row('Host', [target.host, target.kernel].filter(Boolean).join(', '));
  row('Container', target.container);
  row('Captured', `by ${capture.mode}, for ${seconds(capture.duration_seconds)}, ${capture.end === null ? 'how it ended is not recorded' : ENDS[capture.end] || capture.end}`);
  row('Kept', data.kept.ofSums ? `events from ${seconds(edges[1])} on; before that, sums` : capture.compact ? 'sums per minute, no single events' : '');
  row('Events', `${count(capture.events)}${capture.dropped_events ? `, ${count(capture.dropped_events)} dropped` : capture.complete ? ', none lost' : ''}`);
  row('Stacks cut short', capture.truncated_stacks ? count(capture.truncated_stacks) : '');
  row('Stops of the target', capture.attach_stop_microseconds === null ? '' :
    `${(capture.attach_stop_microseconds / 1000).toFixed(2)} ms at attach, ${capture.detach_stop_microseconds === null ? 'none' : `${(capture.detach_stop_microseconds / 1000).toFixed(2)} ms`} at detach`);
  row(ofPages ? 'Older pages returned' : 'Frees of blocks from before', data.totals.foreign_frees ? `${count(data.totals.foreign_frees)} (${data.totals.foreign_freed_bytes === null ? 'of unknown size' : bytes(data.totals.foreign_freed_bytes)})` : '');
  row('Mapped by the program itself', data.totals.mapped_bytes ? bytes(data.totals.mapped_bytes) + (data.totals.mapped_bytes_min === data.totals.mapped_bytes_max ? '' : ', as recorded') : '');
  $('about').replaceChildren(...rows);
}

/* ---------------------------------------------------------------- over time */

let plots = [];
/* Series whose value covers the time from one point to the next. */
const STEPPED = new Set(['highest', 'allocations a second', 'pages a second', 'temporary']);
/* The point of a series under the pointer: for steps the one that covers it, for lines the nearest
 * with a value. */
function pointAt(plot, number, nearest, at) {
  const [times] = plot.data, list = plot.data[number];
  if (number === 0) return nearest;
  if (STEPPED.has(plot.series[number].label)) return nearest > 0 && times[nearest] > at ? nearest - 1 : nearest;
  let before = nearest, after = nearest;
  while (before > 0 && list[before] === undefined) before--;
  while (after < list.length - 1 && list[after] === undefined) after++;
  return list[after] === undefined || list[before] !== undefined && at - times[before] <= times[after] - at ? before : after;
}
function selectWindow(plot) {
  if (plot.select.width < 3) return;
  const from = plot.posToVal(plot.select.left, 'x'), to = plot.posToVal(plot.select.left + plot.select.width, 'x');
  plot.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
  setRange(from, to);
  remember();
}
/* The windows, in the colours that they have in the timeline. */
function shadeWindows({ctx: context, bbox: box, valToPos}) {
  const style = getComputedStyle(document.documentElement), at = step => valToPos(edges[step], 'x', true);
  context.save();
  context.globalAlpha = 0.16;
  for (const [colour, steps] of [['--base', view.base], ['--accent', figures.whole ? null : [view.from, view.to]]]) {
    if (!steps) continue;
    context.fillStyle = style.getPropertyValue(colour);
    context.fillRect(at(steps[0]), box.top, at(steps[1]) - at(steps[0]), box.height);
  }
  context.restore();
}
const ofWindows = () => comparing || noPart ? {} : {setSelect: [selectWindow], draw: [shadeWindows]};
const plotValue = format => (_, v) => v === null || v === undefined ? '–' : format(v);
const timeSeries = () => ({label: 'at', value: plotValue(v => v < 10 ? `${v.toFixed(3)} s` : seconds(v))});
const plotSeries = (label, colour, format, extra = {}) => ({label, stroke: colour, width: 1.5, points: {show: !comparing && !!data.capture.compact, size: 5}, value: plotValue(format), ...extra});
/* Series and columns of the plot of live bytes. */
function liveOverTime(cells) {
  const {timeline} = data, known = list => list.some(v => v !== null);
  const lines = [timeSeries(), plotSeries(ofPages ? 'new, resident' : 'live', '#1f77d0', bytes, {fill: '#1f77d022'})];
  /* With a filter, points between sums carry no figure; the ends of steps do. */
  const live = new Map(hasLivePoints() ? [[0, 0]] : edges.map((at, b) => [at, b || !data.kept.ofSums ? liveAt[b] : null]));
  if (moments) moments.seconds.forEach((at, i) => live.set(at, moments.live[i]));
  if (hasLivePoints()) timeline.seconds.forEach((at, i) => live.set(at, timeline.live[i]));
  const all = [...new Set([0, ...timeline.seconds, ...live.keys(), ...cells.ends])].sort((a, b) => a - b);
  /* undefined: no value at this point, and the line continues; null: a gap. */
  const columns = [all, all.map(at => live.get(at))];
  if (known(cells.highest)) {
    let cell = 0;
    lines.push(plotSeries('highest', '#6aa9e0', bytes, {width: 0.75, fill: '#6aa9e022', paths: uPlot.paths.stepped({align: 1})}));
    /* From each point to the next. */
    columns.push(all.map(at => {
      while (cell + 1 < cells.ends.length && at >= cells.ends[cell]) cell++;
      return cells.highest[cell];
    }));
  }
  const add = (label, colour, list, show = false) => {
    if (!known(list)) return;
    const byTime = new Map(list.map((value, i) => [timeline.seconds[i], value]));
    lines.push(plotSeries(label, colour, bytes, {show}));
    columns.push(all.map(at => byTime.get(at)));
  };
  add('mapped by itself', '#8e5bd0', timeline.mapped);
  add(ofPages ? 'RSS' : timeline.without_own_part ? 'RSS without limpet' : 'RSS with limpet', '#d06a1f', timeline.rss, true);
  add('cgroup', '#8a8f3c', timeline.cgroup);
  return [lines, columns];
}
/* What came in each interval, a second. An interval of much less than the usual length, as the one up to the first events
 * of a capture, shares its rate with the next one, or at the end with the one before: events have the time of the look
 * that found them, and all that a look finds, divided by a moment, is no rate. */
function ratesOf(ends, list) {
  const rates = list.map(() => null), known = list.map((value, i) => value === null ? 0 : ends[i] - (i ? ends[i - 1] : 0));
  const usual = known.reduce((sum, span) => sum + span, 0) / Math.max(1, list.filter(value => value !== null).length) / 2;
  const runs = [], short = run => ends[run.end - 1] - run.from < usual;
  list.forEach((value, i) => {
    const last = runs[runs.length - 1];
    if (value === null) return;
    if (last && last.end === i && short(last)) Object.assign(last, {end: i + 1, sum: last.sum + value});
    else runs.push({first: i, end: i + 1, from: i ? ends[i - 1] : 0, sum: value});
  });
  runs.forEach((run, n) => {
    const before = runs[n - 1];
    if (before && before.end === run.first && short(run)) Object.assign(run, {first: before.first, from: before.from, sum: before.sum + run.sum});
    const span = ends[run.end - 1] - run.from;
    if (span > 0) rates.fill(run.sum / span, run.first, run.end);
  });
  return rates;
}
function drawPlots() {
  const box = $('plots');
  plots.forEach(plot => plot.destroy());
  plots = [];
  if (typeof uPlot === 'undefined') {
    box.replaceChildren(make('p', {class: 'note', textContent: 'limpet was built without npm: no plots but the timeline.'}));
    return;
  }
  box.replaceChildren();
  const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue('--ink'), line = style.getPropertyValue('--line');
  const width = printing ? PRINTED_WIDTH : Math.max(280, box.clientWidth || 800);
  const axis = (values, size) => ({stroke: ink, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}, values, size});
  const down = values => axis(values, 34), up = values => axis(values, 76);
  const along = (_, ticks) => ticks.map(ticks.length > 1 && ticks[1] - ticks[0] < 0.01 ? v => `${+(v * 1e3).toPrecision(4)} ms` : seconds);
  const cursor = {drag: {x: !comparing && !noPart, y: false, setScale: false}, sync: {key: 'limpet', filters: {pub: type => !/^mouse(down|up)$/.test(type)}}, dataIdx: pointAt};
  const x = {time: false};
  const overTime = list => ({width, height: 190, series: list, scales: {x}, cursor, hooks: ofWindows(),
    axes: [down(along), {...up((_, ticks) => ticks.map(bytes)), incrs: Array.from({length: 50}, (_, i) => 2 ** i)}]});
  if (comparing) {
    const {labels, lists} = sidesOverTime();
    plots.push(new uPlot(overTime([timeSeries(), ...labels.map((label, i) => plotSeries(label, ['#8a8f98', '#2a8f5c'][i], bytes, {spanGaps: true}))]), lists, box));
    labelPlots([ofPages ? 'New resident pages over time, of both' : 'Live bytes over time, of both']);
    return;
  }
  const cells = drawnCells();
  const [lines, columns] = liveOverTime(cells);
  plots.push(new uPlot(overTime(lines), columns, box));
  const perSecond = list => {
    const rate = ratesOf(cells.ends, list);
    /* The last rate lasts until the end. */
    return [...rate, rate[rate.length - 1]];
  };
  const stepped = (label, colour) => plotSeries(label, colour, count, {paths: uPlot.paths.stepped({align: 1})});
  plots.push(new uPlot({width, height: 130, scales: {x}, cursor, hooks: ofWindows(),
    series: [timeSeries(), stepped(ofPages ? 'pages a second' : 'allocations a second', '#2a8f5c'), ...(hasTemporary ? [stepped('temporary', '#c44')] : [])],
    axes: [down(along), up((_, list) => list.map(v => v >= 1e6 ? `${v / 1e6} M` : v >= 1e3 ? `${v / 1e3} k` : v))]},
  [[0, ...cells.ends], perSecond(cells.allocations), ...(hasTemporary ? [perSecond(cells.temporary)] : [])], box));
  if (!noPart) plots.forEach(selectByTouch);
  for (const plot of plots) plot.setScale('x', {min: edges[0], max: edges[bucketCount]});
  labelPlots([ofPages ? 'New resident pages over time' : 'Live bytes over time', `${ofPages ? 'New pages' : 'Allocations'} a second over time`]);
}
/* uPlot follows the mouse alone. A finger that moves along the plot selects; up and down it scrolls the page. */
function selectByTouch(plot) {
  const {over} = plot;
  let begin = null;
  const at = event => Math.max(0, Math.min(over.clientWidth, event.clientX - over.getBoundingClientRect().left));
  const select = (event, fire) => plot.setSelect({left: Math.min(begin, at(event)), width: Math.abs(at(event) - begin), top: 0, height: over.clientHeight}, fire);
  over.addEventListener('pointerdown', event => {
    if (event.pointerType === 'touch' && event.isPrimary) begin = at(event);
  });
  over.addEventListener('pointermove', event => { if (begin !== null && event.isPrimary) select(event, false); });
  over.addEventListener('pointerup', event => {
    if (begin === null || !event.isPrimary) return;
    select(event, true);
    begin = null;
  });
  over.addEventListener('pointercancel', () => {
    begin = null;
    plot.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
  });
}
const hasLivePoints = () => data.timeline.seconds.length > 0 && !(data.hidden && data.kept.ofSums);
/* The shortest known intervals; null: unknown. */
function drawnCells() {
  if (moments) return {...moments, ends: moments.seconds};
  /* Discarded events form one step; their times are unknown. */
  const list = values => [...values].map((value, b) => b || !data.kept.ofSums ? value : null);
  return {ends: edges.slice(1), highest: list(highest.map(high => high.bytes)), allocations: list(rates.allocations), temporary: list(rates.temporary)};
}
const COMPACT = 'The capture kept one sum a minute: live bytes and RSS are known at the ends of minutes alone, and lines between these are straight whatever happened between; of live bytes the highest of each minute is known, of RSS it is not.';
/* Says what the plots do not show, and why. */
function describePlots() {
  const words = [], span = edges[1] - edges[0];
  if (!comparing && data.kept.ofSums) words.push(`Until ${seconds(edges[1])} only sums are kept: ${plural(rates.allocations[0], 'allocation')}${span > 0 ?
    `, ${count(rates.allocations[0] / span)} a second on average` : ''}${highest[0].bytes === null ? '' :
    `, at most ${bytes(highest[0].bytes)} live`}. The times of these events are unknown${hasLivePoints() ? ', except live bytes at some points' : ''}.`);
  else if (!comparing && data.capture.compact) words.push(COMPACT);
  else if (!comparing && !moments && bucketCount === 1) words.push('The times of events within the capture are unknown: the plots show its average and maximum.');
  if (!comparing && highest.some(high => high.bytes === null)) words.push('The highest value between the points is unknown.');
  if (!comparing && NO_TEMPORARY) words.push(`Temporary allocations are ${NO_TEMPORARY}.`);
  $('plots-words').textContent = words.join(' ');
}
function labelPlots(names) {
  names.forEach((words, i) => {
    const canvas = plots[i].root.querySelector('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', words);
  });
}

function nearestEdge(value) {
  let best = 0;
  for (let b = 1; b <= bucketCount; b++) if (Math.abs(edges[b] - value) < Math.abs(edges[best] - value)) best = b;
  return best;
}
/* The steps nearest to these times, one at least. */
function stepsOf(from, to) {
  let a = nearestEdge(Math.min(from, to)), b = nearestEdge(Math.max(from, to));
  if (a === b) { if (b < bucketCount) b++; else a = Math.max(0, a - 1); }
  return [a, b];
}
function setRange(from, to) {
  if (noPart) { showRange(); return; }
  const [a, b] = stepsOf(from, to);
  if (a === view.from && b === view.to) { showRange(); return; }
  view.from = a;
  view.to = b;
  refresh();
}

