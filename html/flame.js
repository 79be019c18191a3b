/* ---------------------------------------------------------------- the flame graph: colours, wheel, details */

/* Other colours than those of names: {words, keys: figures of the nodes, of(node, dark), legend(dark): [colour, words] of each}. */
const TINT = {
  module: {words: 'module', keys: [], of: (node, dark) => moduleColour(groups[node.group].module, dark), legend: modulesInColour},
  growth: {words: 'growth', keys: ['live', 'growth'], of: (node, dark) => changeColour({old: node.live - node.growth, new: node.live}, dark),
    legend: dark => [[1, 2, `more ${LIVE} at the end of the window than at its begin`], [2, 2, 'the same'], [2, 1, 'less']].map(([before, after, words]) =>
      [changeColour({old: before - (before !== after && before < after), new: after - (after < before)}, dark), words])},
  kept: {words: ofPages ? 'what was never returned' : 'what was never freed', keys: ['liveCount', 'allocations'],
    of: (node, dark) => keptColour(node.allocations ? node.liveCount / node.allocations : node.liveCount ? 1 : 0, dark),
    legend: dark => [0, 0.5, 1].map(part => [keptColour(part, dark), `${100 * part} % of its ${ofPages ? 'pages are resident' : 'blocks are live'} at the end`])},
};
const keptColour = (part, dark) => {
  const strength = Math.max(0, Math.min(1, part));
  return dark ? `hsl(350 ${8 + 42 * strength}% ${24 + 13 * strength}%)` : `hsl(350 ${8 + 77 * strength}% ${88 - 15 * strength}%)`;
};
/* Modules have colours in the order of their weight, so that those of the largest differ. */
const MODULE_HUES = [30, 212, 130, 275, 55, 180, 340, 95];
let moduleRanks = null;
function rankModules() {
  const by = new Map();
  sites.forEach((_, site) => {
    const path = foldedPath[sites[site].node];
    if (path) by.set(groups[paths.group[path]].module, 0);
  });
  for (const group of groups) by.set(group.module, (by.get(group.module) || 0) + 1);
  moduleRanks = new Map([...by].sort((a, b) => b[1] - a[1]).map(([module], i) => [module, i]));
}
function moduleColour(module, dark) {
  if (!moduleRanks) rankModules();
  const hue = MODULE_HUES[moduleRanks.get(module)];
  if (hue === undefined || module === null) return dark ? '#3a4149' : '#d9dee4';
  return dark ? `hsl(${hue} 40% 32%)` : `hsl(${hue} 70% 76%)`;
}
function modulesInColour(dark) {
  if (!moduleRanks) rankModules();
  const first = [...moduleRanks.keys()].slice(0, MODULE_HUES.length).filter(module => module !== null);
  return [...first.map(module => [moduleColour(module, dark), brief(base(module), 40)]), [moduleColour(null, dark), 'others']];
}
function drawFlameLegend() {
  if (comparing) return;
  const dark = isDark(), list = TINT[view.colour] ? TINT[view.colour].legend(dark) :
    [[dark ? 'hsl(36 48% 35%)' : 'hsl(36 80% 74%)', 'the program'], [dark ? 'hsl(210 8% 32%)' : 'hsl(210 12% 84%)', 'library noise']];
  $('flame-legend').replaceChildren(...list.map(([colour, words]) => {
    const swatch = make('span', {class: 'swatch', 'aria-hidden': 'true'});
    swatch.style.background = colour;
    return make('li', {}, swatch, ` ${words}`);
  }));
}

/* ---------------------------------------------------------------- wheel and drag */

function scaleAt(x, factor) {
  const scale = Math.max(1, Math.min(1e5, flame.scale * factor));
  flame.pan = (flame.pan + x) * scale / flame.scale - x;
  flame.scale = scale;
  panBy(0);
}
function panBy(pixels) {
  flame.pan = Math.max(0, Math.min(flame.width * (flame.scale - 1), flame.pan + pixels));
  drawFlame();
}
{
  const canvas = $('canvas');
  let begin = null;
  /* Without a key the wheel scrolls the page. */
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    scaleAt(event.clientX - canvas.getBoundingClientRect().left, Math.exp(-event.deltaY * 0.003));
  }, {passive: false});
  canvas.addEventListener('pointerdown', event => {
    flame.panned = false;
    begin = flame.scale > 1 && event.button === 0 ? event.clientX : null;
  });
  canvas.addEventListener('pointermove', event => {
    if (begin === null || !flame.panning && Math.abs(event.clientX - begin) < 4) return;
    flame.panning = flame.panned = true;
    canvas.setPointerCapture(event.pointerId);
    panBy(begin - event.clientX);
    begin = event.clientX;
  });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => {
    begin = null;
    flame.panning = false;
  });
}

/* ---------------------------------------------------------------- details of a frame */

/* The sites of which a node is part. */
function sitesOf(node) {
  const within = new Uint8Array(paths.parent.length);
  if (node.ends) for (const end of node.ends) within[end] = 1;
  else for (let path = node.path; path < within.length; path++) within[path] = path === node.path || path && within[paths.parent[path]] ? 1 : 0;
  return sites.map((_, site) => site).filter(site => within[pathOf(site)]);
}
/* Stays until it is closed; names can be selected in it. */
function pin(node, x, y) {
  if (node.group < 0) return;
  const group = groups[node.group], own = sitesOf(node), [largest] = mergeAlike(own).sort((a, b) => weight(b.site) - weight(a.site)), box = $('pin');
  const act = (words, what) => make('button', {type: 'button', textContent: words, onclick: () => { unpin(false); what(); }});
  const rows = comparing ? [] : Object.entries(METRICS).map(([key, m]) => {
    const part = own.reduce((sum, site) => sum + figures.bySite[site][key], 0);
    return make('tr', {}, make('td', {textContent: m.words}), make('td', {class: 'number', textContent: m.format(part)}),
      make('td', {class: 'number', textContent: m.format(part) === '–' ? '' : percent(part, figures.total[key])}));
  });
  box.replaceChildren(make('p', {class: 'whole-name', textContent: group.name}), make('p', {}, sourceLink(group.frame)),
    comparing ? make('p', {textContent: changeInWords(node)}) : make('table', {}, make('tbody', {}, ...rows)),
    make('div', {class: 'bar'}, act('Zoom in', () => zoomTo(node)), act('Callers', () => showFunction(node.group)),
      ...(largest ? [act('Largest stack', () => showStack(largest))] : []), make('button', {type: 'button', textContent: 'Close', onclick: () => unpin(true)})));
  $('tip').hidden = true;
  box.hidden = false;
  const place = $('canvas').getBoundingClientRect(), rect = flame.rects.find(one => one.node === node);
  const left = x === undefined ? place.left + (rect ? Math.max(0, rect.x) : 0) : x, top = y === undefined ? place.top + (rect ? (rect.row + 1) * ROW : 0) : y;
  box.style.left = `${Math.max(4, Math.min(left, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.max(4, Math.min(top, innerHeight - box.offsetHeight - 8))}px`;
  box.querySelector('button').focus();
}
function unpin(back) {
  if ($('pin').hidden) return;
  $('pin').hidden = true;
  if (back) $('canvas').focus();
}
{
  $('canvas').addEventListener('contextmenu', event => {
    const rect = rectAt(event);
    if (!rect || rect.node.group < 0) return;
    event.preventDefault();
    pin(rect.node, event.clientX, event.clientY);
  });
  $('pin').addEventListener('keydown', event => { if (event.key === 'Escape') unpin(true); });
  document.addEventListener('pointerdown', event => { if (!event.target.closest('#pin')) unpin(false); });
  for (const [key, {words}] of [['name', {words: 'name'}], ...Object.entries(TINT)]) $('colour').append(make('option', {value: key, textContent: words}));
  $('colour').onchange = event => {
    view.colour = event.target.value;
    refreshFlame();
    remember();
  };
}
