/* ---------------------------------------------------------------- tabs and set-up */

const TABS = {overview: ['Overview', drawOverview], flame: ['Flame graph', refreshFlame], sites: ['Stacks', drawSites],
  functions: ['Functions', drawFunctions], modules: ['Modules', drawModules], threads: ['Threads', drawThreads],
  sizes: ['Sizes', drawSizes], lifetimes: ['Lifetimes', drawLifetimes]};
if (comparing) for (const key of ['threads', 'lifetimes']) { delete TABS[key]; $(key).remove(); }
if (comparing) Object.assign(TABS, {overview: ['Overview', drawComparison], sizes: ['Sizes', drawComparedSizes]});
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
  $('tabs').append(make('button', {type: 'button', id: `tab-${key}`, role: 'tab', 'aria-controls': key, textContent: title, onclick: () => visit(key)}));
$('tabs').addEventListener('keydown', event => {
  const keys = Object.keys(TABS), at = keys.indexOf(tab);
  const next = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: keys.length - 1}[event.key];
  if (next === undefined) return;
  event.preventDefault();
  visit(keys[(next + keys.length) % keys.length]);
  $(`tab-${tab}`).focus();
});

/* ---------------------------------------------------------------- the browser's history */

const currentState = () => ({tab, chosen, zoom: flame.zoom.length, from: view.from, to: view.to});
/* Adds the current state to the browser's history. */
function remember() {
  const now = currentState(), before = history.state;
  if (before && Object.keys(now).every(key => before[key] === now[key])) return;
  try { history.pushState(now, '', `#${tab}`); } catch { /* some browsers allow no history for file: */ }
}
function visit(name) {
  choose(name);
  remember();
}
addEventListener('popstate', event => {
  const {state} = event, part = state && (state.from !== view.from || state.to !== view.to);
  if (!state) return;
  if (part) {
    Object.assign(view, {from: state.from, to: state.to});
    compute();
    showRange();
  }
  chosen = state.chosen;
  if (part || state.tab !== tab || tab !== 'flame') { choose(state.tab); return; }
  if (state.zoom < flame.zoom.length) flame.zoom.length = state.zoom;
  flame.focus = flame.zoom[flame.zoom.length - 1] || flame.root;
  drawFlame();
});

function refresh() {
  compute();
  if (!comparing) showRange();
  TABS[tab][1]();
}
function showRange() {
  $('from').value = +edges[view.from].toFixed(3);
  $('to').value = +edges[view.to].toFixed(3);
  $('all-time').disabled = figures.whole;
  for (const id of ['from', 'to']) $(id).disabled = noPart !== '';
  $('range-words').textContent = noPart ? noPart : figures.whole ? 'Drag over a plot to select a window.' :
    `${seconds(edges[view.to] - edges[view.from])} of ${seconds(edges[bucketCount])}; all figures are of this window`;
  for (const option of $('metric').options)
    option.disabled = option.value === 'temporary' ? NO_TEMPORARY !== '' : option.value === 'peak' && figures.noPeak;
}

for (const key in METRICS) $('metric').append(make('option', {value: key, textContent: METRICS[key].words}));
view.metric = comparing ? data.sort : data.capture.mode === 'run' && data.kept.peak ? 'peak' : 'live';
$('metric').value = view.metric;
$('metric').onchange = event => { view.metric = event.target.value; refresh(); };
$('noise').onchange = event => { view.noise = event.target.checked; refresh(); };
let pending = 0;
$('find').oninput = event => {
  view.find = event.target.value.trim().toLowerCase();
  clearTimeout(pending);
  pending = setTimeout(() => { if (tab === 'flame') drawFlame(); else TABS[tab][1](); }, 120);
};
for (const id of ['from', 'to']) $(id).onchange = () => { setRange(+$('from').value, +$('to').value); remember(); };
$('all-time').onclick = () => { view.from = 0; view.to = bucketCount; refresh(); remember(); };
function setDark(dark) {
  document.documentElement.classList.toggle('dark', dark);
  drawPlots();
  if (tab === 'flame') drawFlame();
}
$('theme').onclick = () => setDark(!isDark());
const KEYS = [['/', 'find'], [`1 … ${Object.keys(TABS).length}`, 'views'], ['r', 'whole capture'], ['d', 'light or dark'], ['?', 'this help'],
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
  else if (event.key >= '1' && event.key <= String(names.length)) { visit(names[event.key - 1]); $(`tab-${tab}`).focus(); }
  else return;
  event.preventDefault();
});
let resizing = 0;
addEventListener('resize', () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { drawPlots(); if (tab === 'flame') drawFlame(); }, 100);
});
/* In print: every view, one after the other, dark on white. */
let wasDark = false;
addEventListener('beforeprint', () => {
  wasDark = isDark();
  for (const key in TABS) {
    $(key).hidden = false;
    $(key).dataset.title = TABS[key][0];
  }
  setDark(false);
  for (const key in TABS) if (key !== 'flame' || !flame.root) TABS[key][1]();
  drawFlame();
});
addEventListener('afterprint', () => {
  for (const key in TABS) $(key).hidden = key !== tab;
  setDark(wasDark);
});

if (comparing) {
  beginComparison();
} else {
  document.title = `${data.target.command || data.target.pid}: limpet`;
  $('title').textContent = `${data.target.command || 'process'} (${data.target.pid})`;
  $('subtitle').textContent = `${data.capture.mode === 'run' ? 'from its start' : 'attached'}, ${seconds(data.capture.duration_seconds)}, ${plural(data.capture.events, 'event')}`;
  drawAbout();
}
compute();
if (data.shown) setRange(data.shown.from, data.shown.to); else refresh();
{
  const requested = location.hash.slice(1), system = matchMedia('(prefers-color-scheme: dark)');
  choose(requested in TABS ? requested : 'overview');
  try { history.replaceState(currentState(), ''); } catch { /* as above */ }
  system.onchange = () => setDark(system.matches);
  setDark(system.matches);
}
performance.mark('limpet-drawn');
document.documentElement.dataset.ready = 'yes';
