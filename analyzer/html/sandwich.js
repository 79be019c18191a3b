/* ---------------------------------------------------------------- one function, between its callers and its callees */

const sandwich = {graphs: [], sites: []};
const callersGraph = new Graph($('callers-canvas'), {key: () => 'callers', upward: true, drawn: saySandwich});
const calleesGraph = new Graph($('callees-canvas'), {key: () => 'callees', drawn: saySandwich});
sandwich.graphs.push(callersGraph, calleesGraph);

/* What passes through the function, and what is its own: sums of its sites' figures, as in the table of functions. */
function figuresAround() {
  const keys = shownKeys(), all = Object.fromEntries(keys.map(key => [key, 0])), self = {...all};
  for (const site of sandwich.sites) {
    const path = pathOf(site), one = figures.bySite[site];
    for (const key of keys) {
      all[key] += one[key];
      if (paths.group[path] === chosen) self[key] += one[key];
    }
  }
  return {all, self};
}
function sandwichInWords({all, self}) {
  const {words, format} = METRICS[view.metric], total = figures.total[view.metric];
  if (inTwo()) return `${capital(words)} of all stacks through it: ${changeInWords(all)}; by itself: ${changeInWords(self)}.`;
  const part = value => `${format(value)}${total > 0 && value >= 0 ? ` (${percent(value, total)})` : ''}`;
  return `${part(all[view.metric])} passed through it, ${part(self[view.metric])} by itself: ${words}.`;
}
/* The function that allocates most by itself. */
function heaviestFunction() {
  const {self} = functionFigures(graphSites()), list = self[mainKey()];
  return list.reduce((best, value, group) => Math.abs(value) > Math.abs(list[best] || 0) ? group : best, -1);
}
function refreshSandwich() {
  if (chosen < 0) chosen = heaviestFunction();
  const none = chosen < 0 ? 'Nothing is shown that has a function.' : '';
  if (!none) {
    const kept = graphSites(), {callers, callees, passes} = treesAround(chosen, kept);
    sandwich.sites = [];
    for (let site = 0; site < sites.length; site++) if (passes[pathOf(site)] && (!kept || kept(site))) sandwich.sites.push(site);
    callersGraph.show(callers);
    calleesGraph.show(callees);
  }
  for (const graph of sandwich.graphs) graph.canvas.hidden = !!none || !graph.root.weight;
  drawMiddle(none);
  const pane = $('callers-canvas').parentNode;
  pane.scrollTop = pane.scrollHeight;
}
function drawMiddle(none) {
  if (none) {
    $('sandwich-middle').replaceChildren(make('p', {class: 'note', textContent: none}));
    return;
  }
  const group = groups[chosen], seen = callersGraph.root.weight > 0;
  const why = !seen && !view.noise ? ' Library frames are not shown.' : view.metric === 'growth' && !inTwo() ? ' Only what grows is drawn.' : '';
  $('sandwich-middle').replaceChildren(
    ...(seen ? [make('p', {class: 'end', textContent: callersGraph.root.children.length ? '↑ callers' : '↑ no callers'})] : []),
    make('p', {class: 'whole-name', textContent: group.name}), make('p', {}, sourceLink(group.frame)),
    ...(seen ? sparkline(sandwich.sites) : []),
    make('p', {textContent: (seen ? sandwichInWords(figuresAround()) : 'No stack that is shown passes through it.') + why}),
    make('div', {class: 'bar'}, make('button', {type: 'button', textContent: 'As tables', onclick: () => showFunction(chosen)}),
      make('button', {type: 'button', textContent: 'Show in the flame graph', onclick: () => showInFlame(chosen)})),
    ...(seen ? [make('p', {class: 'end', textContent: calleesGraph.root.children.length ? '↓ callees' : '↓ no callees'})] : []));
}
function saySandwich() {
  const found = sandwich.graphs.reduce((sum, {rects}) => sum + rects.filter(({node}) => isLit(node.group)).length, 0);
  sayFrames(foundInWords(found).join('; '));
  offerBack();
}
/* What was zoomed in on around another function is of no use. */
function chooseFunction(one) {
  const group = shownGroup(one);
  if (group !== chosen) for (const key of ['callers', 'callees']) {
    chains[key] = [];
    parts[key] = [0, 1];
  }
  chosen = group;
}
function showSandwich(group) {
  chooseFunction(group);
  showDirection('around');
  visit('flame');
  $('callees-canvas').focus({preventScroll: true});
  $('sandwich').scrollIntoView({block: 'nearest'});
}
