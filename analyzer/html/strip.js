/* ---------------------------------------------------------------- the timeline
 *
 * Live bytes over time, by the functions that allocated most of them, and RSS; the window that is shown, with a handle at
 * either end; flags of findings and marks. */

/* How high flags, picture and times are, and what is left free at either side, in pixels. */
const STRIP = {flags: 20, high: 54, times: 16, side: 14};
const LAYER_COLOURS = ['#2f6db3', '#59a14f', '#8e5bd0', '#d9a441', '#2a8f8f', '#c2557a', '#7fb3e6', '#9c755f'], REST_COLOUR = '#a8adb5';
/* RSS has a scale of its own where live bytes would be less than this part of it. */
const LEAST_PART = 0.2;
const stripEnd = comparing ? Math.max(...SIDES.map(lengthOf)) : edges[bucketCount];

/* By what groups the live bytes rose or fell in each step, before any are merged. */
let changesByGroup = null;
function changesOfGroups() {
  const by = new Map();
  for (const site of sites) {
    const path = foldedPath[site.node], group = path ? paths.group[path] : -1;
    let list = by.get(group);
    if (!list) by.set(group, list = new Float64Array(bucketCount + 1));
    for (let i = 0; i < site.b.length; i++) list[site.b[i] + 1] += site.ab[i] - site.fb[i];
  }
  return by;
}
/* The live bytes of each function at each edge, the largest first; at most eight, and the sum of the others. */
function liveByFunction() {
  const by = new Map();
  changesByGroup ||= changesOfGroups();
  for (const [one, changes] of changesByGroup) {
    const group = view.merged && one >= 0 ? merged.becomes[one] : one, list = by.get(group);
    if (list) changes.forEach((value, b) => { list[b] += value; });
    else by.set(group, changes.slice());
  }
  const layers = [...by].map(([group, list]) => {
    let most = 0;
    for (let b = 1; b <= bucketCount; b++) most = Math.max(most, list[b] += list[b - 1]);
    return {group, list, most};
  }).filter(({most}) => most > 0).sort((a, b) => b.most - a.most);
  const many = layers.length > LAYER_COLOURS.length + 1, first = many ? layers.slice(0, LAYER_COLOURS.length) : layers;
  first.forEach((layer, i) => Object.assign(layer, {colour: LAYER_COLOURS[i] || REST_COLOUR, label: layer.group < 0 ? NO_FRAMES : groups[layer.group].short}));
  if (!many) return first;
  const rest = new Float64Array(bucketCount + 1);
  for (const {list} of layers.slice(first.length)) list.forEach((value, b) => { rest[b] += value; });
  return [...first, {group: -2, list: rest, label: plural(layers.length - first.length, 'other function'), colour: REST_COLOUR}];
}
/* times and layers of what is stacked; lines: {label, colour, times, list}, of which null is a gap. */
function stripSeries() {
  if (comparing) return {times: [], layers: [], lines: SIDES.map((side, i) => ({label: `${LIVE}, ${side}`, colour: ['--faint', '--accent'][i],
    times: data[side].timeline.seconds.map(at => at - data[side].about.from_seconds), list: data[side].timeline.live}))};
  const {timeline} = data, lines = [];
  /* Where all is one step, functions are known at its end alone. */
  const stacked = bucketCount > 1;
  if (!stacked) lines.push({label: LIVE, colour: '--accent', times: moments ? moments.seconds : timeline.seconds, list: moments ? moments.live : timeline.live});
  else if (highest.some(({bytes}) => bytes !== null))
    lines.push({label: 'highest in each step', colour: '--faint', times: edges.slice(1), list: highest.map(({bytes}) => bytes), stepped: true});
  if (timeline.rss.some(v => v !== null)) lines.push({label: 'RSS', colour: '--ink', times: timeline.seconds, list: timeline.rss, rss: true});
  return {times: stacked ? edges : [], layers: stacked ? liveByFunction() : [], lines};
}
const strip = {...stripSeries(), drag: null, width: 0};
/* The layers by what they are divided by, as they are looked at. */
strip.byLayers = {function: strip.layers};
{
  const largest = rss => Math.max(1, ...strip.lines.filter(line => !!line.rss === rss).map(({list}) => list.reduce((most, v) => Math.max(most, v || 0), 0)));
  const sums = strip.times.map((_, b) => strip.layers.reduce((sum, {list}) => sum + Math.max(0, list[b]), 0));
  strip.most = sums.reduce((most, v) => Math.max(most, v), largest(false));
  strip.mostRss = largest(true);
  strip.ownScale = strip.most < LEAST_PART * strip.mostRss;
  if (!strip.ownScale) strip.most = strip.mostRss = Math.max(strip.most, strip.mostRss);
}

const stripX = at => STRIP.side + (stripEnd > 0 ? at / stripEnd : 0) * (strip.width - 2 * STRIP.side);
const stripTime = x => Math.max(0, Math.min(stripEnd, (x - STRIP.side) / Math.max(1, strip.width - 2 * STRIP.side) * stripEnd));
const stripY = (value, most) => STRIP.flags + STRIP.high * (1 - Math.min(1, Math.max(0, value) / (most * 1.04)));

function drawLayers(context) {
  const {times, layers, most} = strip;
  const below = new Float64Array(times.length);
  for (const {list, colour} of layers) {
    context.beginPath();
    times.forEach((at, b) => context.lineTo(stripX(at), stripY(below[b] + Math.max(0, list[b]), most)));
    for (let b = times.length - 1; b >= 0; b--) context.lineTo(stripX(times[b]), stripY(below[b], most));
    context.fillStyle = colour;
    context.fill();
    list.forEach((value, b) => { below[b] += Math.max(0, value); });
  }
}
function drawLine(context, line, colour) {
  let pen = false, before = 0;
  context.beginPath();
  line.list.forEach((value, i) => {
    if (value === null) { pen = false; return; }
    const x = stripX(line.times[i]), y = stripY(value, line.rss ? strip.mostRss : strip.most);
    if (line.stepped) context[pen ? 'lineTo' : 'moveTo'](i ? stripX(line.times[i - 1]) : STRIP.side, y);
    context[pen || line.stepped ? 'lineTo' : 'moveTo'](x, y);
    pen = true;
    before = i;
  });
  context.strokeStyle = colour;
  context.lineWidth = line.stepped ? 0.75 : 1.5;
  context.stroke();
}
/* A step of time so that some eight fit. */
function timeStep() {
  const least = stripEnd / Math.max(2, Math.floor(strip.width / 130));
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
  return steps.find(step => step >= least) && least > 1 ? steps.find(step => step >= least) :
    least > 1 ? Math.ceil(least / 86400) * 86400 : [1, 2, 5, 10].map(n => n * 10 ** Math.floor(Math.log10(least))).find(step => step >= least);
}
function drawTimes(context, ink, line) {
  const step = timeStep(), bottom = STRIP.flags + STRIP.high;
  context.textBaseline = 'middle';
  context.font = '11px system-ui, sans-serif';
  for (let n = 0; stripEnd > 0 && n * step <= stripEnd * 1.0001; n++) {
    const x = stripX(n * step), words = step < 0.01 ? `${+(n * step * 1e3).toPrecision(4)} ms` : seconds(n * step);
    context.fillStyle = line;
    context.fillRect(x, STRIP.flags, 1, STRIP.high + 3);
    context.fillStyle = ink;
    const wide = context.measureText(words).width;
    context.fillText(words, Math.max(0, Math.min(strip.width - wide, x - wide / 2)), bottom + 10);
  }
  context.fillStyle = line;
  context.fillRect(STRIP.side, bottom, strip.width - 2 * STRIP.side, 1);
}
function drawStrip() {
  const canvas = $('strip-canvas'), context = canvas.getContext('2d'), scale = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
  const high = STRIP.flags + STRIP.high + STRIP.times, colour = name => style.getPropertyValue(name);
  strip.width = printing ? PRINTED_WIDTH : Math.max(240, $('strip').clientWidth);
  canvas.width = Math.round(strip.width * scale);
  canvas.height = Math.round(high * scale);
  canvas.style.width = `${strip.width}px`;
  canvas.style.height = `${high}px`;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, strip.width, high);
  drawTimes(context, colour('--faint'), colour('--line'));
  drawLayers(context);
  for (const line of strip.lines) drawLine(context, line, colour(line.colour));
  context.fillStyle = colour('--ink');
  const words = [bytes(strip.most), strip.ownScale ? `RSS ${bytes(strip.mostRss)}` : ''];
  context.globalAlpha = 0.8;
  context.fillText(words[0], STRIP.side + 3, STRIP.flags + 7);
  if (words[1]) context.fillText(words[1], strip.width - STRIP.side - 3 - context.measureText(words[1]).width, STRIP.flags + 7);
  context.globalAlpha = 1;
  canvas.setAttribute('aria-label', `${ofPages ? 'New resident pages' : 'Live bytes'} over time${comparing ? ', of both' : strip.layers.length ? ', by function, and RSS' : ' and RSS'}`);
  placeFlags();
  showWindow();
}
function drawLegend() {
  /* What two functions have in common is no label for either. */
  const many = new Map();
  for (const {label} of strip.layers) many.set(label, (many.get(label) || 0) + 1);
  const wordsOf = ({label, group}) => many.get(label) > 1 ? groups[group].name : label;
  $('strip-legend').replaceChildren(...strip.layers.map(layer => legendItem(layer.colour, layer.group < 0 ? layer.label :
    make('button', {type: 'button', class: 'link', textContent: brief(wordsOf(layer), 36), title: brief(groups[layer.group].name, 1000), onclick: () => showFunction(layer.group)}))),
  ...strip.lines.map(({colour, label, rss}) => legendItem(colour, rss && strip.ownScale ? `${label}, on a scale of its own` : label)));
}

/* ---------------------------------------------------------------- flags */

const FLAG_WORDS = {leak: 'never freed', growth: 'grows', rise: 'rose once'};
/* What rose most until the peak, from the least live bytes shortly before: {name, bytes}, or null if nothing did. */
const SHORTLY = 0.1, NOTABLE_RISE = 0.1, NOTABLE_FLAG = 0.01;
function riseToPeak(peak, most) {
  let end = 0, from = 0;
  while (end < bucketCount && edges[end + 1] < peak) end++;
  from = Math.max(0, end - Math.ceil(bucketCount * SHORTLY));
  for (let b = from; b <= end; b++) if (liveAt[b] < liveAt[from]) from = b;
  const by = new Map();
  for (const site of sites) {
    const path = foldedPath[site.node], group = path ? paths.group[path] : -1;
    let before = 0;
    for (let i = 0; i < site.b.length && site.b[i] < from; i++) before += site.ab[i] - site.fb[i];
    by.set(group, (by.get(group) || 0) + site.peak - before);
  }
  const [group, rise] = [...by].reduce((best, one) => one[1] > best[1] ? one : best, [-1, 0]);
  return group >= 0 && rise >= NOTABLE_RISE * most ? {name: groups[group].short.split('::').pop(), bytes: rise} : null;
}
/* {at, rank, kind, words, title, act}: what became notable, and the marks of whoever captured. */
function flagsOfTime() {
  if (comparing || noPart) return [];
  const list = [], {peak_seconds: peak, peak_bytes: most} = data.totals, marks = data.marks || [];
  /* With Shift that is the window with which another one is compared. */
  const select = (from, to, event) => { (event.shiftKey && view.base ? setBase : setRange)(from, to); remember(); };
  /* What is from a mark to the next one, and once more: to the end. */
  const selectFrom = (from, to, event) => {
    const [a, b] = stepsOf(from, to), [shownFrom, shownTo] = event.shiftKey && view.base ? view.base : [view.from, view.to];
    select(from, a === shownFrom && b === shownTo ? stripEnd : to, event);
  };
  const rise = data.kept.peak && most > 0 && peak > 0 ? riseToPeak(peak, most) : null;
  if (!data.hidden && most > 0 && peak > 0) list.push({at: peak, rank: 2, kind: 'peak', words: `peak ${seconds(peak)}${rise ? `: ${brief(rise.name, 30)} ${signed(rise.bytes)}` : ''}`,
    title: `${bytes(most)} ${LIVE} at the peak: what came until then`, act: event => select(0, peak, event)});
  for (const finding of [data.verdict, ...data.findings || []].filter(Boolean)) {
    const {kind, from_seconds: from, to_seconds: to, culprit: name, bytes: grew} = finding;
    if (!FLAG_WORDS[kind] || typeof from !== 'number' || grew > 0 && grew < NOTABLE_FLAG * most) continue;
    list.push({at: from, rank: 0, words: [FLAG_WORDS[kind], name ? lastParts(name, 1) : ''].filter(Boolean).join(': '), title: finding.text || finding.sentences[0], act: event => {
      select(from, to, event);
      const row = rowOfFinding(finding);
      if (row && !view.base) showStackInFlame(pathOf(row.site));
    }});
  }
  marks.forEach(({name, time_s: t}, i) => list.push({at: t, rank: 1, words: brief(name, 40), kind: 'mark',
    title: `mark: ${brief(name)}, at ${seconds(t)}: what came from there to ${i + 1 < marks.length ? 'the next one, and with a second click to the end' : 'the end'}`,
    act: event => selectFrom(t, i + 1 < marks.length ? marks[i + 1].time_s : stripEnd, event)}));
  /* Of functions of one name, with other callers, one is enough. */
  const alike = new Set(), isFirst = ({at, words}) => alike.size < alike.add(`${at} ${words}`).size;
  return list.filter(({at}) => at >= 0 && at <= stripEnd).filter(isFirst).sort((a, b) => a.at - b.at);
}
const flags = flagsOfTime().map(flag => ({...flag, button: make('button', {type: 'button', class: `flag ${flag.kind || ''}`, textContent: flag.words,
  title: flag.title, 'aria-label': `${flag.words}: select this time`, onclick: flag.act})}));
/* The nearest place that is free; what has none is left out: findings before marks and the
 * peak. */
function placeFlags() {
  const taken = [];
  const crosses = (left, wide) => taken.find(one => left < one.left + one.wide + 3 && one.left < left + wide + 3);
  const place = (left, wide, forward) => {
    for (let other = crosses(left, wide); other && left >= 0; other = crosses(left, wide)) left = forward ? other.left + other.wide + 3 : other.left - wide - 3;
    return left >= 0 && left + wide <= strip.width ? left : -1;
  };
  for (const {button} of flags) button.hidden = false;
  /* Flags of one kind stand in the order of their times. */
  const least = {};
  for (const {at, kind, button} of [...flags].sort((a, b) => b.rank - a.rank || a.at - b.at)) {
    const wide = button.offsetWidth, wanted = Math.max(0, Math.min(stripX(at), strip.width - wide));
    const away = found => Math.abs(found - wanted);
    const [left] = [place(wanted, wide, true), place(wanted, wide, false)].filter(found => found >= (least[kind] || 0) && away(found) < 200)
      .sort((a, b) => away(a) - away(b));
    button.hidden = left === undefined;
    if (button.hidden) continue;
    least[kind] = left;
    button.style.left = `${left}px`;
    taken.push({left, wide});
  }
}

/* ---------------------------------------------------------------- the window */

/* That which all views show, and that with which it is compared (windows.js), in steps; in front of it where they overlap. */
const windows = [{id: 'strip', steps: () => [view.from, view.to], set: setRange},
  {id: 'base', steps: () => view.base, set: setBase}];
for (const one of windows) Object.assign(one, {shade: $(`${one.id}-window`), handles: [$(`${one.id}-from`), $(`${one.id}-to`)]});
const timesOf = one => strip.drag && strip.drag.window === one && strip.drag.now || one.steps().map(step => edges[step]);
function showWindow() {
  $('strip').classList.toggle('two', !!view.base);
  for (const one of windows) {
    const {shade, handles} = one;
    shade.hidden = comparing || noPart !== '' || !one.steps() || printing && figures.whole;
    if (shade.hidden) continue;
    const times = timesOf(one), [from, to] = times;
    shade.style.left = `${stripX(from)}px`;
    shade.style.width = `${Math.max(1, stripX(to) - stripX(from))}px`;
    shade.classList.toggle('whole', from <= 0 && to >= stripEnd);
    handles.forEach((handle, i) => {
      handle.setAttribute('aria-valuemin', 0);
      handle.setAttribute('aria-valuemax', +stripEnd.toFixed(3));
      handle.setAttribute('aria-valuenow', +times[i].toFixed(3));
      handle.setAttribute('aria-valuetext', seconds(times[i]));
    });
  }
}
/* Steps, of which the first is before the last. */
function showSteps(one, from, to, instead) {
  const a = Math.max(0, Math.min(from, bucketCount - 1)), b = Math.max(a + 1, Math.min(to, bucketCount));
  one.set(edges[a], edges[b]);
  remember(instead);
}
function moveByKey(event, one, isFrom) {
  const by = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -bucketCount, End: bucketCount}[event.key];
  if (!by) return;
  event.preventDefault();
  const [from, to] = one.steps(), whole = Math.max(-from, Math.min(bucketCount - to, by));
  if (event.shiftKey) showSteps(one, from + whole, to + whole, event.repeat);
  else if (isFrom) showSteps(one, Math.min(from + by, to - 1), to, event.repeat);
  else showSteps(one, from, Math.max(to + by, from + 1), event.repeat);
}
/* What a pointer does that comes down there: moves a handle, pans, or begins another window. */
function beginDrag(event) {
  if (noPart || comparing || event.button > 0 || !event.isPrimary || event.target.closest('.flag')) return;
  const one = windows.find(({shade}) => shade.contains(event.target)) || windows[0], {shade, handles} = one;
  const at = stripTime(event.clientX - $('strip').getBoundingClientRect().left), [from, to] = timesOf(one), handle = handles.indexOf(event.target);
  const kind = handle >= 0 ? ['from', 'to'][handle] : event.target === shade && !shade.classList.contains('whole') ? 'pan' : 'new';
  strip.drag = {window: one, kind, x: event.clientX, at, from, to, now: null};
  $('strip').setPointerCapture(event.pointerId);
  if (event.pointerType === 'mouse' && handle < 0) event.preventDefault();
}
function continueDrag(event) {
  const {drag} = strip, at = stripTime(event.clientX - $('strip').getBoundingClientRect().left);
  if (!drag) { showMoment(event, at); return; }
  if (!event.isPrimary || !drag.now && Math.abs(event.clientX - drag.x) < 3) return;
  const by = Math.max(-drag.from, Math.min(stripEnd - drag.to, at - drag.at));
  drag.now = {from: [Math.min(at, drag.to), drag.to], to: [drag.from, Math.max(at, drag.from)],
    pan: [drag.from + by, drag.to + by], new: [Math.min(at, drag.at), Math.max(at, drag.at)]}[drag.kind];
  showWindow();
  showTip(event, make('p', {textContent: `${view.base ? `${sideName(drag.window.id === 'base' ? 'old' : 'new')}: ` : ''}${seconds(drag.now[0])} to ${seconds(drag.now[1])}`}));
}
function endDrag(chosen) {
  const {drag} = strip;
  strip.drag = null;
  $('tip').hidden = true;
  if (!drag) return;
  if (chosen && drag.now) {
    const one = drag.window, [from, to] = one.steps(), steps = drag.kind === 'pan' ? to - from : 0, first = Math.min(nearestEdge(drag.now[0]), bucketCount - steps);
    if (steps) one.set(edges[first], edges[first + steps]);
    else one.set(...drag.now);
    remember();
  }
  showWindow();
}
/* What there was at that time. */
function showMoment(event, at) {
  if (event.pointerType === 'touch' || event.target.closest('.flag')) { $('tip').hidden = true; return; }
  const nearest = times => times.reduce((best, time, i) => Math.abs(time - at) < Math.abs(times[best] - at) ? i : best, 0);
  const b = nearest(strip.times);
  const lines = strip.lines.map(({label, times, list}) => [label, list[nearest(times)]]).filter(([, value]) => value !== null && value !== undefined);
  const layers = strip.layers.map(({label, list}) => [label, list[b]]).filter(([, value]) => value > 0).sort((x, y) => y[1] - x[1]);
  const all = layers.length ? [[LIVE, layers.reduce((sum, [, value]) => sum + value, 0)]] : [];
  showTip(event, make('p', {textContent: seconds(at)}), ...[...lines, ...all, ...layers.slice(0, 5)].map(([label, value]) =>
    make('p', {class: 'where', textContent: `${bytes(value)}  ${brief(label, 60)}`})));
}
function showTip(event, ...content) {
  const tip = $('tip');
  tip.replaceChildren(...content);
  tip.hidden = false;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
}
{
  const box = $('strip');
  $('strip-flags').append(...flags.map(({button}) => button));
  box.addEventListener('pointerdown', beginDrag);
  box.addEventListener('pointermove', continueDrag);
  box.addEventListener('pointerup', () => endDrag(true));
  box.addEventListener('pointercancel', () => endDrag(false));
  box.addEventListener('pointerleave', () => { if (!strip.drag) $('tip').hidden = true; });
  for (const one of windows) one.handles.forEach((handle, i) => handle.addEventListener('keydown', event => moveByKey(event, one, i === 0)));
  drawLegend();
}
