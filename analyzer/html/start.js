/* ---------------------------------------------------------------- tabs and set-up */

const TABS = {overview: ['Overview', () => inTwo() ? drawComparison() : drawOverview()], flame: ['Flame graph', refreshFlame], sites: ['Stacks', drawSites],
  functions: ['Functions', drawFunctions], modules: ['Modules', drawModules], threads: ['Threads', drawThreads],
  sizes: ['Sizes', () => inTwo() ? drawComparedSizes() : drawSizes()], lifetimes: ['Lifetimes', drawLifetimes], plots: ['Plots', drawPlots]};
if (comparing) for (const key of ['threads', 'lifetimes']) { delete TABS[key]; $(key).remove(); }
/* Pages have one size. */
if (ofPages) { delete TABS.sizes; $('sizes').remove(); }
let tab = 'overview';
function choose(name) {
  tab = name;
  for (const key in TABS) {
    const button = $(`tab-${key}`);
    button.setAttribute('aria-selected', String(key === name));
    button.tabIndex = key === name ? 0 : -1;
    $(key).hidden = key !== name;
  }
  /* On a phone they are one row that scrolls. */
  const {left, right} = $('tabs').getBoundingClientRect(), chosen = $(`tab-${name}`).getBoundingClientRect();
  if (chosen.left < left || chosen.right > right) $('tabs').scrollLeft += chosen.left - left - 30;
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

/* ---------------------------------------------------------------- the browser's history, and links
 *
 * The address names what is shown: #/TAB&metric=WORD&from=SECONDS&to=SECONDS and so on; what is missing is as at
 * the start. Functions are numbers, which are the same whenever the page is opened. */

const asText = chains => chains.map(chain => chain.join('.')).join('_');
const asChains = text => (text ? text.split('_') : []).map(chain => chain.split('.').map(Number));
function asPart(text) {
  const [from, to] = (text || '').split('_').map(Number);
  return from >= 0 && from < to && to <= 1 ? [from, to] : [0, 1];
}
/* Those of one function are nothing without it. */
const graphKeys = () => Object.keys(chains).filter(key => around() || key === 'down' || key === 'up');
function currentState() {
  const state = {};
  const put = (key, value, normal) => { if (value !== normal) state[key] = String(value); };
  put('metric', view.metric, normal.metric);
  put('state', view.state, '');
  put('noise', +view.noise, +normal.noise);
  put('find', view.find, '');
  put('only', +view.only, 0);
  put('direction', view.direction, 'down');
  put('colour', view.colour, 'name');
  put('names', view.names, USUAL_NAMES);
  put('merge', +view.merged, 0);
  put('layers', view.layers, 'function');
  put('function', chosen, -1);
  if (view.base) state.base = view.base.map(step => +edges[step].toFixed(6)).join('_');
  put('from', +edges[view.from].toFixed(6), 0);
  put('to', +edges[view.to].toFixed(6), +edges[bucketCount].toFixed(6));
  for (const key of graphKeys()) {
    put(key, asText(chains[key]), '');
    put(`${key}-part`, parts[key].map(at => +at.toPrecision(7)).join('_'), '0_1');
  }
  return state;
}
/* No element has such an id: the browser would scroll to it when the page is opened. */
const addressOf = state => `#/${[tab, new URLSearchParams(state).toString()].filter(Boolean).join('&')}`;
let normal = {};
/* What of the menu is not as it was at the start. */
function showChanged() {
  const changed = view.names !== USUAL_NAMES || view.merged || view.noise !== normal.noise;
  const button = document.querySelector('#view > summary');
  button.classList.toggle('changed', changed);
  if (changed) button.setAttribute('aria-label', 'View, changed');
  else button.removeAttribute('aria-label');
}
/* Makes the present state one of the browser's history; instead of the last one, where that was hardly looked at. */
function remember(instead = false) {
  showChanged();
  const address = addressOf(currentState());
  if (address === location.hash) return;
  try { history[instead ? 'replaceState' : 'pushState'](null, '', address); } catch { /* some browsers allow no history for file: */ }
}
function visit(name) {
  choose(name);
  remember();
}
/* Shows what an address names; words that it should not have are as if they were missing. */
function apply(address) {
  unpin(false);
  const [name, ...rest] = address.replace(/^#\/?/, '').split('&'), state = new URLSearchParams(rest.join('&'));
  const number = (key, missing) => Number.isFinite(parseFloat(state.get(key))) ? parseFloat(state.get(key)) : missing;
  const metric = state.get('metric'), option = [...$('metric').options].find(one => one.value === metric);
  view.metric = option && !option.disabled ? metric : normal.metric;
  view.state = STATES.includes(state.get('state')) ? state.get('state') : '';
  view.noise = $('noise').checked = !!number('noise', +normal.noise);
  setSearch(state.get('find') || '');
  view.only = $('only').checked = number('only', 0) === 1;
  view.colour = $('colour').value = !comparing && Object.hasOwn(TINT, state.get('colour')) ? state.get('colour') : 'name';
  showDirection(['up', 'around'].includes(state.get('direction')) ? state.get('direction') : 'down');
  $('names').value = Object.hasOwn(NAME_STEPS, state.get('names')) ? state.get('names') : USUAL_NAMES;
  $('merge').checked = number('merge', 0) === 1;
  setNames($('names').value, $('merge').checked);
  chosen = number('function', -1);
  chosen = groups[chosen] ? shownGroup(chosen) : -1;
  if (view.layers !== (state.get('layers') || 'function')) showLayers(state.get('layers'));
  for (const key in chains) {
    chains[key] = asChains(state.get(key)).map(chain => chain.map(shownGroup));
    parts[key] = asPart(state.get(`${key}-part`));
  }
  if (!noPart && !comparing) [view.from, view.to] = stepsOf(number('from', 0), number('to', edges[bucketCount]));
  const base = (state.get('base') || '').split('_').map(parseFloat);
  view.base = !noPart && !comparing && base.length === 2 && base.every(Number.isFinite) ? stepsOf(...base) : null;
  if (!inTwo()) view.state = '';
  showSides();
  showMetric();
  compute();
  drawVerdict();
  if (!comparing) showRange();
  choose(Object.hasOwn(TABS, name) ? name : 'overview');
  showChanged();
}
/* Both for steps in the history and for an address that was typed. */
addEventListener('popstate', () => apply(location.hash));
/* Of a file it is of use only where the file is. */
const LINK_COPIED = location.protocol === 'file:' ? 'Copied: for whoever has the file here' : 'Copied';
$('copy-link').onclick = () => copyBy($('copy-link'), location.href, 'Not allowed: copy the address', LINK_COPIED);

function refresh() {
  compute();
  if (comparing) drawVerdict();
  if (!comparing) showRange();
  TABS[tab][1]();
}
function showRange() {
  $('from').value = +edges[view.from].toFixed(3);
  $('to').value = +edges[view.to].toFixed(3);
  $('all-time').disabled = figures.whole;
  showWindow();
  $('verdict-note').textContent = verdictNote();
  for (const id of ['from', 'to']) $(id).disabled = noPart !== '';
  for (const element of document.querySelectorAll('.of-base')) element.hidden = !view.base;
  $('compare').hidden = noPart !== '' || bucketCount < 2;
  $('compare').textContent = view.base ? 'Leave the comparison' : 'Compare two windows';
  $('all-time').hidden = !!view.base;
  if (view.base) view.base.forEach((step, i) => { $(['base-from-field', 'base-to-field'][i]).value = +edges[step].toFixed(3); });
  $('range-words').classList.toggle('hint', !noPart && !view.base && figures.whole);
  $('range-words').textContent = noPart ? noPart : view.base ? sidesInWords() : figures.whole ? 'Drag over the timeline to select a window.' :
    `${seconds(edges[view.to] - edges[view.from])} of ${seconds(edges[bucketCount])}; all figures are of this window`;
  for (const option of $('metric').options)
    option.disabled = option.value === 'temporary' ? NO_TEMPORARY !== '' : option.value === 'peak' && figures.noPeak;
}

for (const key in METRICS) $('metric').append(make('option', {value: key, textContent: METRICS[key].words}));
view.metric = comparing ? data.sort : data.capture.mode === 'run' && data.kept.peak ? 'peak' : 'live';
normal = {metric: view.metric, noise: comparing && data.full};
function showMetric() {
  $('metric').value = view.metric;
  $('stayed').setAttribute('aria-pressed', String(view.metric === 'survived'));
  nameStates();
}
/* The figures of one capture are there for every metric. */
function setMetric(metric, name = tab) {
  view.metric = metric;
  showMetric();
  if (inTwo()) refresh();
  if (name !== tab) choose(name);
  else if (!inTwo()) TABS[tab][1]();
  remember();
}
$('metric').onchange = event => setMetric(event.target.value);
/* What was allocated in the window and is live at the end, in a view that shows it; once more, what was shown before. */
let metricBefore = '';
function showStayed() {
  if (!METRICS.survived) return;
  const off = view.metric === 'survived';
  if (!off) metricBefore = view.metric;
  setMetric(off ? metricBefore || normal.metric : 'survived', off || ['flame', 'sites', 'functions', 'modules'].includes(tab) ? tab : 'sites');
}
$('stayed').hidden = !METRICS.survived || bucketCount < 2;
$('stayed').title = `What was ${DID} in the window and is ${LIVE} at the end of the capture`;
$('stayed').onclick = showStayed;
$('noise').onchange = event => { view.noise = event.target.checked; refresh(); remember(); };
for (const id of ['from', 'to']) $(id).onchange = () => { setRange(+$('from').value, +$('to').value); remember(); };
$('all-time').onclick = () => { view.base = null; view.from = 0; view.to = bucketCount; showSides(); refresh(); remember(); };
function setDark(dark) {
  document.documentElement.classList.toggle('dark', dark);
  drawStrip();
  if (tab === 'plots') drawPlots();
  if (tab === 'flame') refreshFlame();
}
$('theme').onclick = () => setDark(!isDark());
const KEYS = [['/', 'find: words, or fn: file: module: thread: and a word; - excludes; quotes keep spaces; Enter adds another term, Backspace removes the last'], ['g', 'what stayed: what was allocated in the window and is live at the end; again: the measure of before'],
  ['[ and ]', 'the window between the marks before it or after it; where there are none, between the flags'], ['c', 'copy the verdict as Markdown'], ['l', 'copy the link'], [`1 … ${Object.keys(TABS).length}`, 'views'], ['r', 'whole capture'], ['d', 'light or dark'], ['?', 'this help'],
  ['arrows', 'move in the flame graph, along the views, or a handle of the timeline; with Shift the whole window'], ['Enter', 'zoom in'], ['Backspace', 'zoom back'], ['f', 'callers of the frame'], ['s', 'callers above and callees below the frame\'s function'],
  ['p, right click', 'details of the frame'], ['+ and −, Ctrl and wheel, two fingers', 'widen the flame graph; then drag it']];
$('keys').append(make('tbody', {}, ...KEYS.map(([key, words]) => make('tr', {}, make('td', {}, make('kbd', {textContent: key})), make('td', {textContent: words})))));
$('licences').textContent = typeof uPlot === 'undefined' ? '' : 'Plots: uPlot, MIT licence, © Leon Sorokin.';
$('help-button').onclick = openHelp;
document.addEventListener('keydown', event => {
  /* On many keyboards brackets need AltGr, which some systems take for two others. */
  if ((event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState('AltGraph') || event.target.matches('input:not([type=checkbox], [type=radio]), select, textarea') || document.querySelector('dialog[open]')) return;
  const names = Object.keys(TABS);
  if (event.key === '/') $('find').focus();
  else if (event.key === '?') openHelp();
  else if (event.key === 'r') $('all-time').click();
  else if (event.key === 'g') showStayed();
  else if (event.key === '[' || event.key === ']') moveToMoments(event.key === '[' ? -1 : 1);
  else if (event.key === 'd') $('theme').click();
  else if (event.key === 'c') $('verdict-copy').click();
  else if (event.key === 'l') $('copy-link').click();
  else if (event.key >= '1' && event.key <= String(names.length)) { visit(names[event.key - 1]); $(`tab-${tab}`).focus(); }
  else return;
  event.preventDefault();
});
/* The menu goes with Escape, with a click elsewhere, and with the focus. */
{
  const menu = $('view');
  const close = event => { if (menu.open && !menu.contains(event.target)) menu.open = false; };
  document.addEventListener('pointerdown', close);
  document.addEventListener('focusin', close);
  menu.addEventListener('keydown', event => {
    if (event.key !== 'Escape') return;
    menu.open = false;
    menu.firstElementChild.focus();
  });
}
let resizing = 0;
addEventListener('resize', () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    drawStrip();
    if (tab === 'plots') drawPlots();
    if (tab === 'flame') drawFlame();
  }, 100);
});
/* In print: every view, one after the other, dark on white. */
let wasDark = false;
addEventListener('beforeprint', () => {
  wasDark = isDark();
  printing = true;
  for (const key in TABS) {
    $(key).hidden = false;
    $(key).dataset.title = TABS[key][0];
  }
  setDark(false);
  for (const key in TABS) TABS[key][1]();
});
addEventListener('afterprint', () => {
  printing = false;
  for (const key in TABS) $(key).hidden = key !== tab;
  setDark(wasDark);
  TABS[tab][1]();
});

if (comparing) {
  beginComparison();
} else {
  const name = data.target.comm || data.target.command;
  document.title = `${name || data.target.pid}: limpet`;
  $('title').textContent = `${name || 'process'} (${data.target.pid})`;
  $('subtitle').textContent = `${{run: 'from its start', pages: 'touched pages, by page faults'}[data.capture.mode] || 'attached'}, ${seconds(data.capture.duration_seconds)}, ${plural(data.capture.events, 'event')}`;
  drawAbout();
}
describePlots();
/* A page that begins with a part of the time says so in its address, as if that had been chosen. */
apply(location.hash || (data.shown ? `#/overview&from=${data.shown.from}&to=${data.shown.to}` : ''));
remember(true);
{
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.onchange = () => setDark(system.matches);
  setDark(system.matches);
}
performance.mark('limpet-drawn');
document.documentElement.dataset.ready = 'yes';
