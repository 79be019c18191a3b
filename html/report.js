/* The figures of a capture, drawn. Everything that is shown is computed here from sites over time, so
 * that any part of the capture can be looked at. Names come from the captured program: they are
 * only ever put in as text. */
'use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
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

/* ---------------------------------------------------------------- words for figures */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
function bytes(value) {
  let amount = Math.abs(value), unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) { amount /= 1024; unit++; }
  const digits = unit === 0 || amount >= 100 ? 0 : 1;
  return (value < 0 ? '−' : '') + amount.toFixed(digits) + ' ' + UNITS[unit];
}
const count = value => Math.round(value).toLocaleString('en');
function seconds(value) {
  if (value < 60) return value.toFixed(value < 10 ? 2 : 1) + ' s';
  const minutes = Math.floor(value / 60), hours = Math.floor(minutes / 60);
  const two = n => String(Math.floor(n)).padStart(2, '0');
  return hours ? `${hours}h${two(minutes % 60)}m${two(value % 60)}s` : `${minutes}m${two(value % 60)}s`;
}
const signed = value => (value > 0 ? '+' : '') + bytes(value);
const percent = (part, whole) => whole ? (100 * part / whole).toFixed(1) + ' %' : '';

const METRICS = {
  live: {words: 'bytes live at the end', short: 'Live', say: bytes},
  peak: {words: 'bytes at the peak', short: 'At peak', say: bytes},
  growth: {words: 'growth', short: 'Growth', say: signed},
  allocated: {words: 'bytes allocated', short: 'Allocated', say: bytes},
  allocations: {words: 'allocations', short: 'Allocations', say: count},
  temporary: {words: 'temporary allocations', short: 'Temporary', say: count},
};

/* ---------------------------------------------------------------- frames, stacks, sites */

const {frames, addresses, nodes, strings} = data;
const frameName = f => frames.function[f] >= 0 ? strings[frames.function[f]] : null;
const frameFile = f => frames.file[f] >= 0 ? strings[frames.file[f]] : null;
const frameModule = f => frames.module[f] >= 0 ? strings[frames.module[f]] : null;
const base = path => path.slice(path.lastIndexOf('/') + 1);
function nameOf(f) {
  if (f < 0) return '(stack unknown)';
  const name = frameName(f);
  if (name) return name;
  const module = frameModule(f);
  return module ? `${base(module)}+0x${frames.offset[f]}` : `0x${frames.offset[f]}`;
}
const FOLD = {program: 0, allocator: 1, library: 2, start: 3};
const isJit = f => frames.function[f] < 0 && frames.module[f] < 0;
/* Stands for a run of frames that a JIT compiler made, and that nobody has named. */
const JIT = frames.function.length;
for (const [column, value] of Object.entries({function: strings.push('[jit]') - 1, file: -1, line: 0, module: -1, offset: '0', inlined: 0, kind: FOLD.program}))
  frames[column].push(value);
/* Without the parameters, which are long in C++ and seldom tell functions apart. */
function short(name) {
  const end = name.lastIndexOf(')');
  if (end < 0) return name;
  let depth = 0, at = end;
  for (; at > 0; at--) {
    if (name[at] === ')') depth++;
    else if (name[at] === '(' && --depth === 0) break;
  }
  const cut = name.slice(0, at);
  return /[\w\])>]$/.test(cut) && !cut.endsWith('operator') ? cut : name;
}

/* Frames that are one function are one group, whatever the line. */
const groupOf = new Int32Array(frames.function.length), groups = [];
{
  const known = new Map();
  for (let f = 0; f < groupOf.length; f++) {
    const key = frames.function[f] >= 0 ? `${frames.function[f]}/${frames.module[f]}` : nameOf(f);
    let group = known.get(key);
    if (group === undefined) {
      group = groups.length;
      groups.push({frame: f, name: nameOf(f), short: short(nameOf(f)), module: frameModule(f), kind: frames.kind[f]});
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
/* Without noise: allocators and libraries below the program's own first function, and what starts
 * threads. A stack of nothing but noise is left as it is. */
function folded(stack) {
  const first = stack.findIndex(f => frames.kind[f] === FOLD.program);
  if (first < 0) return stack;
  return stack.filter((f, i) => i >= first && frames.kind[f] !== FOLD.start && frames.kind[f] !== FOLD.allocator);
}

/* Stacks by their looks: a tree of groups, outermost first, in which every recorded node has its place,
 * as it is and folded. A look's number is higher than its parent's. */
const looks = {parent: [0], group: [-1], frame: [-1]};
const rawLook = new Int32Array(nodes.parent.length), foldedLook = new Int32Array(nodes.parent.length);
{
  const known = new Map();
  const look = (parent, f) => {
    const key = parent * groups.length + groupOf[f];
    let id = known.get(key);
    if (id === undefined) {
      id = looks.parent.push(parent) - 1;
      looks.group.push(groupOf[f]);
      looks.frame.push(f);
      known.set(key, id);
    }
    return id;
  };
  /* What is kept so far, and its part up to the innermost function of the program's own. */
  const kept = new Int32Array(nodes.parent.length), own = new Int32Array(nodes.parent.length);
  for (let n = 1; n < nodes.parent.length; n++) {
    const above = nodes.parent[n], list = addresses[nodes.address[n]] || [];
    let raw = rawLook[above], run = kept[above], program = own[above];
    for (let i = list.length - 1; i >= 0; i--) {
      const f = list[i], kind = frames.kind[f];
      raw = look(raw, f);
      if (kind === FOLD.start || kind === FOLD.allocator) continue;
      if (!isJit(f)) run = look(run, f);
      else if (looks.frame[run] !== JIT) run = look(run, JIT);
      if (kind === FOLD.program) program = run;
    }
    rawLook[n] = raw;
    kept[n] = run;
    own[n] = program;
    foldedLook[n] = program || raw;
  }
}
const lookOf = site => (view.noise ? rawLook : foldedLook)[data.sites[site].node];
/* Innermost first. */
function framesOf(look) {
  const list = [];
  for (; look; look = looks.parent[look]) list.push(looks.frame[look]);
  return list;
}
const searchable = groups.map(g => `${g.name} ${frameFile(g.frame) || ''} ${g.module || ''}`.toLowerCase());

/* ---------------------------------------------------------------- the part of time that is shown */

const edges = data.buckets; /* seconds; bucket b is [edges[b], edges[b + 1]) */
const bucketCount = edges.length - 1;
/* What was live at each edge, and what was done between. */
const liveAt = new Float64Array(bucketCount + 1);
const rates = {allocations: new Float64Array(bucketCount), temporary: new Float64Array(bucketCount)};
for (const site of data.sites) {
  site.b.forEach((b, i) => {
    liveAt[b + 1] += site.ab[i] - site.fb[i];
    rates.allocations[b] += site.a[i];
    rates.temporary[b] += site.t[i];
  });
}
for (let b = 1; b <= bucketCount; b++) liveAt[b] += liveAt[b - 1];

const view = {from: 0, to: bucketCount, metric: 'live', noise: false, direction: 'down', find: ''};
let figures = null;

function compute() {
  const whole = view.from === 0 && view.to === bucketCount;
  let peakEdge = view.from;
  for (let b = view.from; b <= view.to; b++) if (liveAt[b] > liveAt[peakEdge]) peakEdge = b;
  const total = {live: 0, liveCount: 0, peak: 0, growth: 0, allocated: 0, allocations: 0, temporary: 0};
  const bySite = data.sites.map(site => {
    let start = 0, end = 0, peak = 0, liveCount = 0, allocated = 0, allocations = 0, temporary = 0;
    for (let i = 0; i < site.b.length; i++) {
      const b = site.b[i], delta = site.ab[i] - site.fb[i];
      if (b >= view.to) break;
      if (b < view.from) start += delta;
      else { allocated += site.ab[i]; allocations += site.a[i]; temporary += site.t[i]; }
      if (b < peakEdge) peak += delta;
      end += delta;
      liveCount += site.a[i] - site.f[i];
    }
    /* The exact moment of the peak is known for the whole capture only. */
    if (whole) peak = site.peak;
    const one = {live: end, liveCount, peak, growth: end - start, allocated, allocations, temporary};
    for (const key in total) total[key] += one[key];
    return one;
  });
  figures = {bySite, total, whole, peakSeconds: whole ? data.totals.peak_seconds : edges[peakEdge]};
  if (whole) figures.total.peak = data.totals.peak_bytes;
}
const weight = site => figures.bySite[site][view.metric];
const stackShown = site => framesOf(lookOf(site));

/* ---------------------------------------------------------------- tables */

/* columns: {title, value(row), say(value, row), number, cell(row)}. Rows are drawn as far as they are
 * looked at. */
function table(into, caption, columns, rows, sorted = 0, descending = true) {
  const STEP = 200;
  let shown = STEP;
  const head = make('tr'), body = make('tbody');
  const box = make('div', {class: 'wide', tabIndex: 0, role: 'region', 'aria-label': caption});
  function draw() {
    const column = columns[sorted];
    const list = [...rows].sort((a, b) => {
      const x = column.value(a), y = column.value(b);
      return (descending ? -1 : 1) * (typeof x === 'string' ? x.localeCompare(y) : x - y);
    });
    head.replaceChildren(...columns.map((c, i) => {
      const cell = make('th', {scope: 'col', class: c.number ? 'number' : ''});
      const mark = i === sorted ? (descending ? ' ▾' : ' ▴') : '';
      cell.setAttribute('aria-sort', i === sorted ? (descending ? 'descending' : 'ascending') : 'none');
      cell.append(make('button', {type: 'button', textContent: c.title + mark, onclick: () => {
        descending = i === sorted ? !descending : !!c.number;
        sorted = i;
        draw();
        head.children[i].firstChild.focus();
      }}));
      return cell;
    }));
    body.replaceChildren(...list.slice(0, shown).map(row => make('tr', {}, ...columns.map(c => {
      const cell = make('td', {class: c.number ? 'number' : c.class || ''});
      if (c.cell) cell.append(...c.cell(row));
      else cell.textContent = c.say ? c.say(c.value(row), row) : c.value(row);
      return cell;
    }))));
    more.hidden = list.length <= shown;
    more.textContent = `Show more (${count(list.length - shown)} are left)`;
  }
  const more = make('button', {type: 'button', onclick: () => { shown *= 4; draw(); }});
  box.append(make('table', {}, make('caption', {class: 'note', textContent: caption}), make('thead', {}, head), body));
  into.replaceChildren(box, more);
  draw();
}

const shareBar = (part, whole) => {
  const bar = make('span', {class: 'share', 'aria-hidden': 'true'});
  bar.style.width = `${whole ? Math.max(0, Math.min(100, 100 * part / whole)) : 0}px`;
  return bar;
};

/* Where a source line opens: the user's own editor. Only schemes that start no script. */
const SCHEMES = /^(https?|file|vscode|vscodium|vscode-insiders|cursor|zed|idea|clion|jetbrains|subl|txmt|emacs|mvim|gvim|x-mine|editor):/i;
let editor = '';
try { editor = localStorage.getItem('limpet-editor') || ''; } catch { /* file: without storage */ }
function where(f) {
  const file = frameFile(f), line = frames.line[f];
  if (!file) return make('span', {class: 'where', textContent: frameModule(f) || ''});
  const words = line ? `${file}:${line}` : file;
  if (!SCHEMES.test(editor)) return make('span', {class: 'where', textContent: words});
  const target = editor.replaceAll('{file}', encodeURI(file)).replaceAll('{line}', String(line || 1));
  return make('a', {class: 'where', href: target, textContent: words});
}

function showStack({site, stacks: many, sum}) {
  const stack = stackOf(data.sites[site].node), kept = new Set(folded(stack));
  const list = make('ol', {class: 'frames'}, ...stack.map(f => {
    const item = make('li', {class: kept.has(f) ? '' : 'noise'});
    item.append(make('button', {type: 'button', class: 'link', textContent: nameOf(f), onclick: () => {
      $('stack').close();
      showFunction(groupOf[f]);
    }}), ' ', where(f), frames.inlined[f] ? make('span', {class: 'note', textContent: ' (inlined)'}) : '');
    return item;
  }));
  const rows = Object.entries(METRICS).map(([key, m]) => make('tr', {},
    make('td', {textContent: m.words}), make('td', {class: 'number', textContent: m.say(sum[key])})));
  $('stack-body').replaceChildren(make('table', {}, make('tbody', {}, ...rows)),
    make('p', {class: 'note', textContent: many > 1 ? `${count(many)} recorded stacks that look alike; this is the largest:` : ''}), list);
  $('stack').showModal();
}

/* Looks that hold what is looked for. */
function lit() {
  const found = new Uint8Array(looks.parent.length), groupFound = groups.map((_, g) => searchable[g].includes(view.find));
  for (let look = 1; look < found.length; look++) found[look] = found[looks.parent[look]] || groupFound[looks.group[look]];
  return found;
}

/* Recorded stacks that look alike are one row: the sum, and the one with the largest share. */
function alike(sites) {
  const rows = new Map();
  for (const site of sites) {
    const look = lookOf(site);
    const row = rows.get(look);
    if (!row) { rows.set(look, {site, stacks: 1, sum: {...figures.bySite[site]}}); continue; }
    row.stacks++;
    for (const key in row.sum) row.sum[key] += figures.bySite[site][key];
    if (weight(site) > weight(row.site)) row.site = site;
  }
  return [...rows.values()];
}

function drawSites() {
  const found = view.find ? lit() : null;
  const rows = alike(data.sites.map((_, i) => i).filter(i => !found || found[rawLook[data.sites[i].node]])).filter(row => row.sum[view.metric] !== 0);
  const columns = Object.entries(METRICS).map(([key, m]) => (
    {title: m.short, number: true, value: row => row.sum[key], say: m.say}));
  columns.push({title: 'Stack', class: 'name', value: row => stackShown(row.site).length ? nameOf(stackShown(row.site)[0]) : '',
    cell: row => {
      const [first, ...rest] = stackShown(row.site).slice(0, 6);
      return [make('button', {type: 'button', onclick: () => showStack(row), textContent: first === undefined ? '(stack unknown)' : short(nameOf(first))}),
        ' ', first === undefined ? '' : where(first),
        make('div', {class: 'where line', textContent: rest.map(f => '← ' + short(nameOf(f))).join(' ')})];
    }});
  table($('sites'), `${count(rows.length)} stacks`, columns, rows, Object.keys(METRICS).indexOf(view.metric));
}

/* ---------------------------------------------------------------- functions: self, all, callers */

function functionFigures() {
  const self = new Float64Array(groups.length), all = new Float64Array(groups.length);
  const seen = new Int32Array(groups.length).fill(-1);
  data.sites.forEach((_, site) => {
    const w = weight(site);
    if (!w) return;
    let look = lookOf(site);
    if (look) self[looks.group[look]] += w;
    for (; look; look = looks.parent[look]) {
      const g = looks.group[look];
      if (seen[g] !== site) { seen[g] = site; all[g] += w; }
    }
  });
  return {self, all};
}

let chosen = -1;
function showFunction(group) {
  chosen = group;
  choose('functions');
  drawFunctions();
  $('callers').scrollIntoView({block: 'nearest'});
}

function drawCallers() {
  if (chosen < 0) {
    $('callers').replaceChildren(make('p', {class: 'note', textContent: 'Choose a function to see who calls it and what it calls.'}));
    return;
  }
  const callers = new Map(), callees = new Map();
  let all = 0, self = 0;
  const add = (map, key, w) => map.set(key, (map.get(key) || 0) + w);
  data.sites.forEach((_, site) => {
    const w = weight(site), stack = stackShown(site);
    const innermost = stack.findIndex(f => groupOf[f] === chosen);
    if (!w || innermost < 0) return;
    let outermost = innermost;
    stack.forEach((f, i) => { if (groupOf[f] === chosen) outermost = i; });
    all += w;
    add(callers, outermost + 1 < stack.length ? groupOf[stack[outermost + 1]] : -1, w);
    if (innermost === 0) self += w;
    else add(callees, groupOf[stack[innermost - 1]], w);
  });
  const {say, words} = METRICS[view.metric];
  const list = (title, map, extra) => {
    const rows = [...map.entries()].sort((a, b) => b[1] - a[1]);
    const items = rows.map(([g, w]) => make('tr', {},
      make('td', {class: 'number', textContent: say(w)}),
      make('td', {class: 'number', textContent: percent(w, all)}),
      make('td', {class: 'name'}, g < 0 ? '(start of the stack)' :
        make('button', {type: 'button', textContent: groups[g].short, title: groups[g].name, onclick: () => showFunction(g)}))));
    return make('div', {}, make('h3', {textContent: title}), extra || '', make('table', {}, make('tbody', {}, ...items)));
  };
  const g = groups[chosen];
  $('callers').replaceChildren(
    make('h2', {textContent: g.name}), make('p', {}, where(g.frame)),
    make('p', {textContent: `${say(all)} (${words}) passed through it, ${say(self)} by itself.`}),
    make('div', {class: 'pair'}, list('Called by', callers), list('Calls', callees)));
}

function drawFunctions() {
  const {self, all} = functionFigures();
  const rows = groups.map((_, g) => g).filter(g => all[g] && (!view.find || searchable[g].includes(view.find)));
  const {say, words} = METRICS[view.metric], total = figures.total[view.metric];
  drawCallers();
  table($('function-table'), `${count(rows.length)} functions by ${words}`, [
    {title: 'With callees', number: true, value: g => all[g], say},
    {title: 'Share', number: true, value: g => all[g], say: w => percent(w, total)},
    {title: 'Self', number: true, value: g => self[g], say},
    {title: 'Function', class: 'name', value: g => groups[g].name, cell: g => [
      make('button', {type: 'button', textContent: groups[g].short, title: groups[g].name, onclick: () => showFunction(g)}),
      ' ', where(groups[g].frame)]},
  ], rows);
}

/* ---------------------------------------------------------------- modules and sizes */

function drawModules() {
  const by = new Map();
  data.sites.forEach((_, site) => {
    const stack = stackShown(site), module = stack.length ? frameModule(stack[0]) || '(no module)' : '(stack unknown)';
    const one = by.get(module) || {module, live: 0, peak: 0, growth: 0, allocated: 0, allocations: 0, temporary: 0};
    for (const key in METRICS) one[key] += figures.bySite[site][key];
    by.set(module, one);
  });
  const rows = [...by.values()].filter(r => r.allocations || r.live || r.peak);
  const columns = Object.entries(METRICS).map(([key, m]) => ({title: m.short, number: true, value: r => r[key], say: m.say}));
  columns.push({title: 'Module', class: 'name', value: r => r.module});
  table($('modules'), `${count(rows.length)} modules that call an allocator`, columns, rows, Object.keys(METRICS).indexOf(view.metric));
}

function drawSizes() {
  const rows = data.sizes.map(size => {
    let allocations = 0, allocated = 0;
    size.b.forEach((b, i) => { if (b >= view.from && b < view.to) { allocations += size.a[i]; allocated += size.ab[i]; } });
    return {...size, allocations, allocated};
  }).filter(r => r.allocations);
  const most = Math.max(0, ...rows.map(r => r.allocations)), mostBytes = Math.max(0, ...rows.map(r => r.allocated));
  table($('sizes'), 'Allocations by requested size', [
    {title: 'Size', number: true, value: r => r.from, say: (v, r) => r.from === r.to ? bytes(r.from) : `${bytes(r.from)} – ${bytes(r.to)}`},
    {title: 'Allocations', number: true, value: r => r.allocations, say: count},
    {title: 'of the most', value: r => r.allocations, cell: r => [shareBar(r.allocations, most)]},
    {title: 'Bytes', number: true, value: r => r.allocated, say: bytes},
    {title: 'of the most', value: r => r.allocated, cell: r => [shareBar(r.allocated, mostBytes)]},
    {title: 'Average', number: true, value: r => r.allocated / r.allocations, say: bytes},
  ], rows, 0, false);
}

/* ---------------------------------------------------------------- overview */

const topRow = (rows, key) => rows.reduce((best, row) => row.sum[key] > (best ? best.sum[key] : 0) ? row : best, null);

function drawOverview() {
  const {total} = figures, span = edges[view.to] - edges[view.from];
  const findings = [];
  const say = (before, row, after) => {
    const stack = framesOf(foldedLook[data.sites[row.site].node]);
    findings.push(make('li', {}, before, make('button', {type: 'button', class: 'link',
      textContent: stack.length ? short(nameOf(stack[0])) : '(stack unknown)', onclick: () => showStack(row)}), after));
  };
  const capture = data.capture;
  if (!capture.complete) findings.push(make('li', {class: 'warn', textContent: 'The capture is not complete: ' +
    (capture.dropped_events ? `${count(capture.dropped_events)} events were dropped.` : `it ended with ${capture.end}.`)}));
  if (capture.sample_bytes) findings.push(make('li', {textContent: `Sampled, one in ${bytes(capture.sample_bytes)}: all figures are estimated.`}));
  const rows = alike(data.sites.map((_, i) => i));
  const known = figures.whole && data.findings ? data.findings : null;
  for (const finding of known || []) {
    const site = finding.node ? data.sites.findIndex(one => one.node === finding.node) : -1;
    const row = site < 0 ? null : rows.find(one => lookOf(one.site) === lookOf(site));
    findings.push(make('li', {}, finding.text, ...(row ? [' ', make('button', {type: 'button', class: 'link',
      textContent: 'stack', 'aria-label': `stack of ${finding.function}`, onclick: () => showStack(row)})] : [])));
  }
  const live = topRow(rows, 'live'), growth = topRow(rows, 'growth'), temporary = topRow(rows, 'temporary');
  if (live && !known) say(`Most of what is live, ${bytes(live.sum.live)} (${percent(live.sum.live, total.live)}), was allocated by `, live, '.');
  if (growth && span > 0 && !known) say(`${signed(growth.sum.growth)} in ${seconds(span)} (${bytes(growth.sum.growth / span * 3600)} an hour): what grows most comes from `, growth, '.');
  if (temporary && total.allocations && !known) say(`${percent(total.temporary, total.allocations)} of all allocations are freed at once; most of these are made by `, temporary, '.');
  if (!figures.bySite.some(one => one.allocations)) findings.push(make('li', {textContent: 'Nothing was allocated in this time.'}));
  $('findings').replaceChildren(...findings);
  const tile = (name, value) => make('div', {}, make('dt', {textContent: name}), make('dd', {textContent: value}));
  $('tiles').replaceChildren(
    tile('Live at the end', bytes(total.live)), tile('Live blocks', count(total.liveCount)),
    tile(`Peak, at ${seconds(figures.peakSeconds)}`, bytes(figures.whole ? total.peak : Math.max(...liveAt.slice(view.from, view.to + 1)))),
    tile('Growth', signed(total.growth)), tile('Allocated', bytes(total.allocated)),
    tile('Allocations', count(total.allocations)), tile('a second', span ? count(total.allocations / span) : '–'),
    tile('Temporary', percent(total.temporary, total.allocations) || '–'));
}

function drawAbout() {
  const rows = [];
  const row = (name, value) => { if (value !== null && value !== undefined && value !== '') rows.push(make('dt', {textContent: name}), make('dd', {textContent: String(value)})); };
  const {target, capture} = data;
  row('Program', `${target.command || ''} (${target.pid})`);
  row('Executable', target.executable);
  row('Allocators', target.allocators);
  row('Host', [target.host, target.kernel].filter(Boolean).join(', '));
  row('Container', target.container);
  row('Captured', `by ${capture.mode}, for ${seconds(capture.duration_seconds)}, ended by ${capture.end}`);
  row('Events', `${count(capture.events)}${capture.dropped_events ? `, ${count(capture.dropped_events)} dropped` : ', none lost'}`);
  row('Stacks cut short', capture.truncated_stacks ? count(capture.truncated_stacks) : '');
  row('The target stood still for', capture.attach_stop_microseconds === null ? '' :
    `${(capture.attach_stop_microseconds / 1000).toFixed(2)} ms at attach, ${((capture.detach_stop_microseconds || 0) / 1000).toFixed(2)} ms at detach`);
  row('Frees of blocks from before', data.totals.foreign_frees ? `${count(data.totals.foreign_frees)} (${bytes(data.totals.foreign_freed_bytes)})` : '');
  row('Mapped by the program itself', data.totals.mapped_bytes ? bytes(data.totals.mapped_bytes) : '');
  $('about').replaceChildren(...rows);
}

/* ---------------------------------------------------------------- flame graph */

const flame = {rects: [], root: null, zoom: [], focus: null, above: 0, rows: 0, width: 0};
const ROW = 19;

/* A call tree of groups: {group, weight, children, parent}. Shrinking sites weigh nothing. */
function buildTree() {
  return view.direction === 'down' ? treeDown() : treeUp();
}
const treeNode = (group, parent) => ({group, weight: 0, children: [], parent, x: 0, w: 0});
function sortTree(root) {
  const todo = [root];
  while (todo.length) {
    const node = todo.pop();
    node.children.sort((a, b) => b.weight - a.weight);
    for (const child of node.children) todo.push(child);
  }
  return root;
}
function treeDown() {
  const weights = new Float64Array(looks.parent.length), made = new Array(looks.parent.length);
  data.sites.forEach((_, site) => { weights[lookOf(site)] += Math.max(0, weight(site)); });
  for (let look = weights.length - 1; look > 0; look--) weights[looks.parent[look]] += weights[look];
  made[0] = treeNode(-1, null);
  made[0].weight = weights[0];
  for (let look = 1; look < weights.length; look++) {
    if (!weights[look]) continue;
    const parent = made[looks.parent[look]];
    made[look] = treeNode(looks.group[look], parent);
    made[look].weight = weights[look];
    parent.children.push(made[look]);
  }
  return sortTree(made[0]);
}
function treeUp() {
  const root = treeNode(-1, null), weights = new Float64Array(looks.parent.length);
  data.sites.forEach((_, site) => { weights[lookOf(site)] += Math.max(0, weight(site)); });
  const kids = new Map([[root, new Map()]]);
  weights.forEach((w, innermost) => {
    if (!w) return;
    let node = root;
    node.weight += w;
    for (let look = innermost; look; look = looks.parent[look]) {
      const below = kids.get(node), g = looks.group[look];
      let next = below.get(g);
      if (!next) {
        next = treeNode(g, node);
        below.set(g, next);
        kids.set(next, new Map());
        node.children.push(next);
      }
      next.weight += w;
      node = next;
    }
  });
  return sortTree(root);
}

const labelOf = node => node.group < 0 ? 'all' : groups[node.group].name;
const shortOf = node => node.group < 0 ? 'all' : groups[node.group].short;
/* The same name, the same colour: warm ones for the program, grey for noise. */
const colours = [new Map(), new Map()];
function colourOf(node, dark) {
  let colour = colours[+dark].get(node.group);
  if (!colour) colours[+dark].set(node.group, colour = makeColour(node, dark));
  return colour;
}
function makeColour(node, dark) {
  if (node.group < 0) return dark ? '#3a4149' : '#d9dee4';
  const {name, kind} = groups[node.group];
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  if (kind !== FOLD.program) return dark ? `hsl(210 8% ${28 + hash % 8}%)` : `hsl(210 12% ${80 + hash % 8}%)`;
  return dark ? `hsl(${18 + hash % 36} 48% ${30 + hash % 10}%)` : `hsl(${18 + hash % 36} 80% ${68 + hash % 12}%)`;
}
const isDark = () => document.documentElement.classList.contains('dark') ||
  (!document.documentElement.classList.contains('light') && matchMedia('(prefers-color-scheme: dark)').matches);

/* Which frames are seen, and where: the canvas is as high as they need. */
function layFlame() {
  const width = $('canvas').clientWidth || 800;
  const top = flame.zoom.length ? flame.zoom[flame.zoom.length - 1] : flame.root;
  const path = [], rects = [];
  let deepest = 0;
  for (let node = top.parent; node; node = node.parent) path.unshift(node);
  path.forEach((node, row) => rects.push({node, x: 0, w: width, row}));
  const todo = top.weight > 0 ? [{node: top, x: 0, w: width, row: path.length}] : [];
  while (todo.length) {
    const rect = todo.pop();
    rects.push(rect);
    if (rect.row > deepest) deepest = rect.row;
    let x = rect.x;
    for (const child of rect.node.children) {
      const w = rect.w * child.weight / rect.node.weight;
      if (w < 0.75) break; /* sorted: the rest is smaller still */
      todo.push({node: child, x, w, row: rect.row + 1});
      x += w;
    }
  }
  Object.assign(flame, {rects, width, above: path.length, rows: Math.max(deepest + 1, path.length), top});
}

function drawFlame(lay = true) {
  if (lay) layFlame();
  const canvas = $('canvas'), context = canvas.getContext('2d'), scale = devicePixelRatio || 1, {top, rects} = flame;
  const wide = Math.round(flame.width * scale), high = Math.round(flame.rows * ROW * scale);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.height = `${flame.rows * ROW}px`;
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, flame.width, flame.rows * ROW);
  context.font = '12px system-ui, sans-serif';
  context.textBaseline = 'middle';
  const dark = isDark(), ink = dark ? '#eef1f4' : '#1a1d21';
  let found = 0;
  for (const rect of rects) {
    const {node, x, w, row} = rect, y = row * ROW;
    const hit = view.find && node.group >= 0 && searchable[node.group].includes(view.find);
    context.fillStyle = hit ? (dark ? '#7a3cc2' : '#d9a6ff') : colourOf(node, dark);
    context.globalAlpha = row < flame.above || (view.find && !hit) ? 0.55 : 1;
    context.fillRect(x, y, Math.max(0.5, w - 0.5), ROW - 1);
    context.globalAlpha = 1;
    if (hit) found++;
    if (node === flame.focus) {
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, w - 2.5), ROW - 3);
    }
    if (w > 34) {
      const room = Math.floor((w - 6) / 6.3), label = shortOf(node);
      context.fillStyle = ink;
      context.fillText(label.length > room ? label.slice(0, Math.max(1, room - 1)) + '…' : label, x + 3, y + ROW / 2, w - 4);
    }
  }
  const words = [`${METRICS[view.metric].say(top.weight)} (${METRICS[view.metric].words})`];
  if (view.metric === 'growth') words.push('only what grows');
  if (view.find) words.push(`${count(found)} frames found`);
  $('flame-words').textContent = words.join('; ');
  $('flame-back').disabled = $('flame-root').disabled = !flame.zoom.length;
}

function rectAt(event) {
  const box = $('canvas').getBoundingClientRect();
  const x = event.clientX - box.left, row = Math.floor((event.clientY - box.top) / ROW);
  return flame.rects.find(r => r.row === row && x >= r.x && x < r.x + r.w);
}
function describe(node) {
  const {say} = METRICS[view.metric];
  return `${labelOf(node)}: ${say(node.weight)}, ${percent(node.weight, flame.root.weight)}`;
}
function zoomTo(node) {
  const top = flame.zoom.length ? flame.zoom[flame.zoom.length - 1] : flame.root;
  if (node === top) return;
  flame.zoom.push(node);
  flame.focus = node;
  drawFlame();
}
function zoomBack() {
  flame.zoom.pop();
  flame.focus = flame.zoom[flame.zoom.length - 1] || flame.root;
  drawFlame();
}
function focusOn(node) {
  flame.focus = node;
  drawFlame(false);
  $('flame-words').textContent = describe(node);
}

function refreshFlame() {
  flame.root = buildTree();
  flame.zoom = [];
  flame.focus = null;
  drawFlame();
}

{
  const canvas = $('canvas'), tip = $('tip');
  canvas.addEventListener('mousemove', event => {
    const rect = rectAt(event);
    tip.hidden = !rect;
    if (!rect) return;
    const {node} = rect, group = groups[node.group];
    tip.replaceChildren(make('p', {textContent: describe(node)}));
    if (group) tip.append(make('p', {class: 'where', textContent: frameFile(group.frame) ? `${frameFile(group.frame)}:${frames.line[group.frame]}` : group.module || ''}));
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
  canvas.addEventListener('mouseleave', () => { tip.hidden = true; });
  canvas.addEventListener('click', event => { const rect = rectAt(event); if (rect) zoomTo(rect.node); });
  canvas.addEventListener('dblclick', event => { const rect = rectAt(event); if (rect && rect.node.group >= 0) showFunction(rect.node.group); });
  canvas.addEventListener('keydown', event => {
    const node = flame.focus || flame.root;
    const siblings = node.parent ? node.parent.children : [node], at = siblings.indexOf(node);
    let next = null;
    switch (event.key) {
    case 'ArrowDown': next = node.children[0]; break;
    case 'ArrowUp': next = node.parent; break;
    case 'ArrowLeft': next = siblings[at - 1]; break;
    case 'ArrowRight': next = siblings[at + 1]; break;
    case 'Home': next = flame.root; break;
    case 'Enter': zoomTo(node); break;
    case 'Backspace': case 'Escape': zoomBack(); break;
    case 'f': if (node.group >= 0) showFunction(node.group); break;
    default: return;
    }
    event.preventDefault();
    if (next) focusOn(next);
  });
  $('flame-back').onclick = zoomBack;
  $('flame-root').onclick = () => { flame.zoom = []; flame.focus = null; drawFlame(); };
  for (const input of document.querySelectorAll('input[name=direction]'))
    input.onchange = () => { view.direction = input.value; refreshFlame(); };
}

/* ---------------------------------------------------------------- over time */

let plots = [];
function drawPlots() {
  const box = $('plots');
  plots.forEach(plot => plot.destroy());
  plots = [];
  if (typeof uPlot === 'undefined') {
    box.replaceChildren(make('p', {class: 'note', textContent: 'limpet was built without npm: no plots. The fields above choose a part of the time.'}));
    return;
  }
  box.replaceChildren();
  const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue('--ink'), line = style.getPropertyValue('--line');
  const {timeline} = data, width = Math.max(280, box.clientWidth || 800);
  const axis = (values, size) => ({stroke: ink, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}, values, size});
  const down = values => axis(values, 34), up = values => axis(values, 76);
  const hooks = {setSelect: [plot => {
    if (plot.select.width < 3) return;
    const from = plot.posToVal(plot.select.left, 'x'), to = plot.posToVal(plot.select.left + plot.select.width, 'x');
    plot.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
    setRange(from, to);
  }]};
  const cursor = {drag: {x: true, y: false, setScale: false}, sync: {key: 'limpet'}};
  const x = {time: false};
  const series = (label, colour, say, extra = {}) => ({label, stroke: colour, width: 1.5, points: {show: false}, value: (_, v) => v === null || v === undefined ? '–' : say(v), ...extra});
  const known = list => list.some(v => v !== null);
  const lines = [{label: 'at', value: (_, v) => v === null || v === undefined ? '–' : seconds(v)}, series('live', '#1f77d0', bytes, {fill: '#1f77d022'})];
  const columns = [timeline.seconds, timeline.live];
  const add = (label, colour, list) => { if (known(list)) { lines.push(series(label, colour, bytes, {show: label === 'RSS'})); columns.push(list); } };
  add('mapped by itself', '#8e5bd0', timeline.mapped);
  add('RSS', '#d06a1f', timeline.rss);
  add('cgroup', '#8a8f3c', timeline.cgroup);
  plots.push(new uPlot({width, height: 190, series: lines, scales: {x}, cursor, hooks,
    axes: [down((_, list) => list.map(seconds)), {...up((_, list) => list.map(bytes)), incrs: Array.from({length: 50}, (_, i) => 2 ** i)}]}, columns, box));
  const rate = [], churn = [], at = [];
  for (let b = 0; b < bucketCount; b++) {
    const span = edges[b + 1] - edges[b];
    at.push(edges[b]); rate.push(0); churn.push(0);
    if (span > 0) { rate[b] = rates.allocations[b] / span; churn[b] = rates.temporary[b] / span; }
  }
  plots.push(new uPlot({width, height: 130, scales: {x}, cursor, hooks,
    series: [lines[0], series('allocations a second', '#2a8f5c', count, {paths: uPlot.paths.stepped({align: 1})}),
      series('temporary', '#c44', count, {paths: uPlot.paths.stepped({align: 1})})],
    axes: [down((_, list) => list.map(seconds)), up((_, list) => list.map(v => v >= 1e6 ? `${v / 1e6} M` : v >= 1e3 ? `${v / 1e3} k` : v))]}, [at, rate, churn], box));
  for (const plot of plots) plot.setScale('x', {min: edges[0], max: edges[bucketCount]});
  ['Live bytes over time', 'Allocations a second over time'].forEach((words, i) => {
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
function setRange(from, to) {
  let a = nearestEdge(Math.min(from, to)), b = nearestEdge(Math.max(from, to));
  if (a === b) { if (b < bucketCount) b++; else a = Math.max(0, a - 1); }
  view.from = a;
  view.to = b;
  refresh();
}

/* ---------------------------------------------------------------- tabs, and the whole */

const TABS = {overview: ['Overview', drawOverview], flame: ['Flame graph', refreshFlame], sites: ['Stacks', drawSites],
  functions: ['Functions', drawFunctions], modules: ['Modules', drawModules], sizes: ['Sizes', drawSizes]};
let tab = 'overview';
function choose(name) {
  tab = name;
  for (const key in TABS) {
    const button = $(`tab-${key}`);
    button.setAttribute('aria-selected', String(key === name));
    button.tabIndex = key === name ? 0 : -1;
    $(key).hidden = key !== name;
  }
  TABS[name][1]();
}
for (const [key, [title]] of Object.entries(TABS))
  $('tabs').append(make('button', {type: 'button', id: `tab-${key}`, role: 'tab', 'aria-controls': key, textContent: title, onclick: () => choose(key)}));
$('tabs').addEventListener('keydown', event => {
  const keys = Object.keys(TABS), at = keys.indexOf(tab);
  const next = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: keys.length - 1}[event.key];
  if (next === undefined) return;
  event.preventDefault();
  choose(keys[(next + keys.length) % keys.length]);
  $(`tab-${tab}`).focus();
});

function refresh() {
  compute();
  $('from').value = +edges[view.from].toFixed(3);
  $('to').value = +edges[view.to].toFixed(3);
  $('all-time').disabled = figures.whole;
  $('range-words').textContent = figures.whole ? 'Drag over a plot to look at a part of the time.' :
    `${seconds(edges[view.to] - edges[view.from])} of ${seconds(edges[bucketCount])}; all figures are of this part`;
  TABS[tab][1]();
}

for (const key in METRICS) $('metric').append(make('option', {value: key, textContent: METRICS[key].words}));
view.metric = data.capture.mode === 'run' ? 'peak' : 'live';
$('metric').value = view.metric;
$('metric').onchange = event => { view.metric = event.target.value; refresh(); };
$('noise').onchange = event => { view.noise = event.target.checked; refresh(); };
let pending = 0;
$('find').oninput = event => {
  view.find = event.target.value.trim().toLowerCase();
  clearTimeout(pending);
  pending = setTimeout(() => { if (tab === 'flame') drawFlame(); else TABS[tab][1](); }, 120);
};
for (const id of ['from', 'to']) $(id).onchange = () => setRange(+$('from').value, +$('to').value);
$('all-time').onclick = () => { view.from = 0; view.to = bucketCount; refresh(); };
$('theme').onclick = () => {
  const dark = isDark();
  document.documentElement.classList.toggle('dark', !dark);
  document.documentElement.classList.toggle('light', dark);
  drawPlots();
  if (tab === 'flame') drawFlame();
};
const KEYS = [['/', 'find'], ['1 … 6', 'views'], ['r', 'whole capture'], ['d', 'light or dark'], ['?', 'this help'],
  ['arrows', 'move in the flame graph, or along the views'], ['Enter', 'zoom in'], ['Backspace', 'zoom back'], ['f', 'callers of the frame']];
$('keys').append(make('tbody', {}, ...KEYS.map(([key, words]) => make('tr', {}, make('td', {}, make('kbd', {textContent: key})), make('td', {textContent: words})))));
$('licences').textContent = typeof uPlot === 'undefined' ? '' : 'Plots: uPlot, MIT licence, © Leon Sorokin.';
$('editor').value = editor;
$('editor').onchange = event => {
  editor = event.target.value.trim();
  try { localStorage.setItem('limpet-editor', editor); } catch { /* kept for this page only */ }
  TABS[tab][1]();
};
$('help-button').onclick = () => $('help').showModal();
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || document.querySelector('dialog[open]')) return;
  const names = Object.keys(TABS);
  if (event.key === '/') $('find').focus();
  else if (event.key === '?') $('help').showModal();
  else if (event.key === 'r') $('all-time').click();
  else if (event.key === 'd') $('theme').click();
  else if (event.key >= '1' && event.key <= String(names.length)) { choose(names[event.key - 1]); $(`tab-${tab}`).focus(); }
  else return;
  event.preventDefault();
});
let resizing = 0;
addEventListener('resize', () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { drawPlots(); if (tab === 'flame') drawFlame(); }, 100);
});
addEventListener('beforeprint', () => { for (const key in TABS) if (key !== 'flame') TABS[key][1](); });

document.title = `${data.target.command || data.target.pid}: limpet`;
$('title').textContent = `${data.target.command || 'process'} (${data.target.pid})`;
$('subtitle').textContent = `${data.capture.mode === 'run' ? 'from its start' : 'attached'}, ${seconds(data.capture.duration_seconds)}, ${count(data.capture.events)} events`;
drawAbout();
compute();
refresh();
choose('overview');
drawPlots();
performance.mark('limpet-drawn');
document.documentElement.dataset.ready = 'yes';
})();
