/* ---------------------------------------------------------------- one function, between its callers and its callees */

const sandwich = {graphs: [], innermost: null};
const callersGraph = new Graph($('callers-canvas'), {key: () => 'callers', upward: true, drawn: saySandwich});
const calleesGraph = new Graph($('callees-canvas'), {key: () => 'callees', drawn: saySandwich});
sandwich.graphs.push(callersGraph, calleesGraph);

/* What passes through the function, and what is its own: sums of the sites' figures, as in the table of functions. */
function figuresAround() {
  const keys = shownKeys(), all = Object.fromEntries(keys.map(key => [key, 0])), self = {...all};
  const kept = graphSites();
  sites.forEach((_, site) => {
    if (kept && !kept(site)) return;
    const path = pathOf(site), one = figures.bySite[site], innermost = sandwich.innermost[path];
    if (!innermost) return;
    for (const key of keys) {
      all[key] += one[key];
      if (innermost === path) self[key] += one[key];
    }
  });
  return {all, self};
}
function sandwichInWords({all, self}) {
  const {words, format} = METRICS[view.metric], total = figures.total[view.metric];
  if (comparing) return `${capital(changeInWords(all))} (${words}) passed through it; by itself: ${changeInWords(self)}.`;
  const part = value => `${format(value)}${total > 0 && value >= 0 ? ` (${percent(value, total)})` : ''}`;
  return `${part(all[view.metric])} passed through it, ${part(self[view.metric])} by itself: ${words}.`;
}
/* The function that allocates most by itself. */
function heaviestFunction() {
  const {self} = functionFigures(), list = self[mainKey()];
  return list.reduce((best, value, group) => Math.abs(value) > Math.abs(list[best] || 0) ? group : best, -1);
}
function refreshSandwich() {
  if (chosen < 0) chosen = heaviestFunction();
  const none = chosen < 0 ? 'Nothing is shown that has a function.' : '';
  if (!none) {
    const {callers, callees, innermost} = treesAround(chosen);
    sandwich.innermost = innermost;
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
  const why = !seen && !view.noise ? ' Library noise is not shown.' : view.metric === 'growth' && !comparing ? ' Only what grows is drawn.' : '';
  $('sandwich-middle').replaceChildren(
    ...(seen ? [make('p', {class: 'end', textContent: callersGraph.root.children.length ? '↑ callers' : '↑ no callers'})] : []),
    make('p', {class: 'whole-name', textContent: group.name}), make('p', {}, sourceLink(group.frame)),
    ...(seen ? sparkline(sites.map((_, site) => site).filter(site => sandwich.innermost[pathOf(site)])) : []),
    make('p', {textContent: (seen ? sandwichInWords(figuresAround()) : 'No stack that is shown passes through it.') + why}),
    make('div', {class: 'bar'}, make('button', {type: 'button', textContent: 'As tables', onclick: () => showFunction(chosen)}),
      make('button', {type: 'button', textContent: 'Show in the flame graph', onclick: () => showInFlame(chosen)})),
    ...(seen ? [make('p', {class: 'end', textContent: calleesGraph.root.children.length ? '↓ callees' : '↓ no callees'})] : []));
}
function saySandwich() {
  const found = sandwich.graphs.reduce((sum, {rects}) => sum + rects.filter(({node}) => isLit(node.group)).length, 0);
  $('flame-words').textContent = foundInWords(found).join('; ');
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
