/* ---------------------------------------------------------------- the graph of all stacks */

const flame = new Graph($('canvas'), {key: () => view.direction, drawn: sayFlame});
const minimap = new Minimap(flame, $('minimap'));
const around = () => view.direction === 'around';
/* Those that are shown. */
const graphs = () => around() ? sandwich.graphs : [flame];
function sayFlame(found) {
  const {format, words: what} = METRICS[view.metric];
  const words = [inTwo() ? `${changeInWords(flame.top)} (${what})` : `${format(flame.top.weight)} (${what})`];
  if (view.metric === 'growth' && !inTwo()) words.push('only what grows');
  const unknown = flame.root.children.find(node => node.group === NO_STACK);
  if (unknown && !inTwo() && !flame.zoom.length) words.push(`${percent(unknown.weight, flame.root.weight)} by unknown stacks`);
  words.push(...foundInWords(found));
  sayFrames(words.join('; '));
  minimap.draw();
  offerBack();
}
function offerBack() { $('flame-back').disabled = $('flame-root').disabled = !graphs().some(graph => graph.changed); }
function drawFlame() {
  for (const graph of graphs()) if (graph.root) graph.draw();
}
/* With the same frames. */
function relabelFlame() {
  for (const graph of graphs()) if (graph.root) graph.draw(false);
}
function refreshFlame() {
  drawFlameLegend();
  $('canvas').hidden = $('minimap').hidden = around();
  $('sandwich').hidden = !around();
  if (around()) refreshSandwich();
  else flame.show(buildTree());
}
function showDirection(direction) {
  view.direction = direction;
  document.querySelector(`input[name=direction][value=${direction}]`).checked = true;
}
/* Zooms in on `path`, as far down as it has weight. */
function showStackInFlame(path) {
  const groupsDown = framesOf(path).map(f => groupOf[f]).reverse();
  showDirection('down');
  visit('flame');
  let node = flame.root;
  for (const group of groupsDown) {
    const next = node.children.find(child => child.group === group);
    if (!next) break;
    node = next;
  }
  flame.zoomTo(node);
  $('canvas').focus();
}
/* Zooms in where a function weighs most. */
function showInFlame(group) {
  let best = null;
  if (around()) showDirection('down');
  visit('flame');
  const todo = [flame.root];
  while (todo.length) {
    const node = todo.pop();
    if (best && node.weight <= best.weight) continue;
    if (node.group === group) best = node;
    else todo.push(...node.children);
  }
  if (best) flame.zoomTo(best);
  $('canvas').focus();
}
/* A gesture of many steps is one of the browser's history, and so are those that follow it. */
let partTimer = 0;
function rememberPart() {
  const parted = address => /-part=/.test(address), rest = address => address.replace(/&\w+-part=[^&]*/g, '');
  clearTimeout(partTimer);
  partTimer = setTimeout(() => remember(parted(location.hash) && rest(location.hash) === rest(addressOf(currentState()))), 200);
}
{
  /* The graph that was zoomed last is the first to go back. */
  $('flame-back').onclick = () => {
    const [graph] = graphs().filter(one => one.changed).sort((a, b) => b.last - a.last);
    if (graph) graph.zoomBack();
  };
  $('flame-root').onclick = () => graphs().filter(one => one.changed).forEach(graph => graph.zoomOut());
  for (const input of document.querySelectorAll('input[name=direction]'))
    input.onchange = () => { view.direction = input.value; refreshFlame(); remember(); };
}

/* ---------------------------------------------------------------- details of a frame */

/* Stays until it is closed; names can be selected in it. */
let pinned = null;
function pin(graph, node, x, y) {
  if (node.group < 0) return;
  const group = groups[node.group], own = sitesOf(node), [largest] = mergeAlike(own).sort((a, b) => weight(b.site) - weight(a.site)), box = $('pin');
  const act = (words, what) => make('button', {type: 'button', textContent: words, onclick: () => { unpin(false); what(); }});
  const rows = inTwo() ? [] : Object.entries(METRICS).map(([key, m]) => {
    const part = own.reduce((sum, site) => sum + figures.bySite[site][key], 0);
    return make('tr', {}, make('td', {textContent: m.words}), make('td', {class: 'number', textContent: m.format(part)}),
      make('td', {class: 'number', textContent: m.format(part) === '–' ? '' : percent(part, figures.total[key])}));
  });
  box.replaceChildren(make('p', {class: 'whole-name', textContent: group.name}), make('p', {}, sourceLink(group.frame)),
    inTwo() ? make('p', {textContent: changeInWords(node)}) : make('table', {}, make('tbody', {}, ...rows)),
    ...sparkline(own), make('div', {class: 'bar'}, act('Zoom in', () => graph.zoomTo(node)), act('Callers', () => showFunction(node.group)),
      act('Sandwich', () => showSandwich(node.group)),
      ...(largest ? [act('Largest stack', () => showStack(largest))] : []), make('button', {type: 'button', textContent: 'Close', onclick: () => unpin(true)})));
  $('tip').hidden = true;
  box.hidden = false;
  pinned = graph;
  const place = graph.canvas.getBoundingClientRect(), rect = graph.rects.find(one => one.node === node);
  const left = x === undefined ? place.left + (rect ? Math.max(0, rect.x) : 0) : x, top = y === undefined ? place.top + (rect ? graph.heightOf(rect) + ROW : 0) : y;
  box.style.left = `${Math.max(4, Math.min(left, document.documentElement.clientWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.max(4, Math.min(top, innerHeight - box.offsetHeight - 8))}px`;
  box.querySelector('button').focus();
}
function unpin(back) {
  if ($('pin').hidden) return;
  $('pin').hidden = true;
  if (back) pinned.canvas.focus();
}
{
  $('pin').addEventListener('keydown', event => { if (event.key === 'Escape') unpin(true); });
  document.addEventListener('pointerdown', event => { if (!event.target.closest('#pin')) unpin(false); });
  $('colour').onchange = event => {
    view.colour = event.target.value;
    refreshFlame();
    remember();
  };
}
