/* ---------------------------------------------------------------- two sides: heaps of two captures, or windows of one
 *
 * Figures are compared as they are; those counted over time by the second where the sides are of different lengths, as in
 * diff.c. */

const stepsOfSide = side => side === 'old' ? view.base : [view.from, view.to];
function lengthOf(side) {
  if (comparing) return data[side].about.to_seconds - data[side].about.from_seconds;
  const [from, to] = stepsOfSide(side);
  return edges[to] - edges[from];
}
const EQUAL_SHARE = 0.01;
function isRate(metric) {
  const [old, one] = SIDES.map(lengthOf);
  return !!METRICS[metric].flow && old > 0 && one > 0 && Math.abs(old - one) > EQUAL_SHARE * Math.max(old, one);
}
const partOf = (side, metric) => isRate(metric) ? 1 / lengthOf(side) : 1;
/* How a measure of two sides is written. */
function ofTwo(metric) {
  const {words, format, change} = METRICS[metric];
  const perSecond = write => value => value === null ? write(value) : `${write(Math.round(value))}/s`;
  return isRate(metric) ? {words, format: perSecond(format), change: perSecond(change)} : {words, format, change};
}
const STATES = ['grew', 'shrank', 'appeared', 'vanished', 'same'];
/* `olds` and `news`: recorded stacks on either side. */
function stateOf(sum) {
  if (!sum.olds) return 'appeared';
  if (!sum.news) return 'vanished';
  const change = changeOf(sum);
  return change > 0 ? 'grew' : change < 0 ? 'shrank' : 'same';
}

/* Of two captures each site belongs to one. */
const figureOf = ({side, at}, metric) => data[side].sites[metric][at] * partOf(side, metric);
function captureSides({side: of, ...site}) {
  const figure = figureOf({side: of, ...site}, view.metric), is = side => +(of === side);
  return {old: is('old') * figure, new: is('new') * figure, olds: is('old'), news: is('new')};
}
/* Of two windows each site has figures in both; those of the new one alone are there for other views. */
const isIn = one => +(one.live !== 0 || one.liveCount !== 0 || one.allocations !== 0);
function windowSides(site, before, after) {
  const old = seriesFigures(site, before), one = seriesFigures(site, after), {metric} = view;
  return {...one, old: old[metric] * partOf('old', metric), new: one[metric] * partOf('new', metric), olds: isIn(old), news: isIn(one)};
}
function compareFigures() {
  const windows = comparing ? [] : SIDES.map(side => windowOf(...stepsOfSide(side))), byPath = new Map();
  let total = null, bySite = sites.map((site, i) => {
    const one = comparing ? captureSides(site) : windowSides(site, ...windows), path = pathOf(i);
    one.change = one.new - one.old;
    total ||= Object.fromEntries(Object.keys(one).map(key => [key, 0]));
    const sum = byPath.get(path) || {...total};
    for (const key in one) sum[key] += one[key];
    byPath.set(path, sum);
    return one;
  });
  total ||= {change: 0, old: 0, new: 0, olds: 0, news: 0};
  const nothing = {...total};
  if (view.state) bySite = bySite.map((one, i) => stateOf(byPath.get(pathOf(i))) === view.state ? one : nothing);
  for (const one of bySite) for (const key in total) total[key] += one[key];
  return {bySite, total};
}

const changeOf = sum => Math.round(sum.new - sum.old);
/* Of growth a change is no growth: what grew by less than before has not shrunk. */
const stateWord = state => view.metric !== 'growth' ? state : {grew: 'more growth', shrank: 'less growth', same: 'the same growth'}[state] || state;
const stacksInState = (number, state) => `${plural(number, 'stack')} ${stateWord(state) === state ? state : `with ${stateWord(state)}`}`;
const growthSize = value => ofTwo('growth').format(Math.abs(value)).replace(/^\+/, '');
const growthWords = value => Math.round(value) ? `${value < 0 ? 'shrank' : 'grew'} by ${growthSize(value)}` : 'did not grow';
function growthInWords(sum, change) {
  if (!change) return `${growthWords(sum.new)} in both`;
  const [before, after] = comparing ? ['the old one', 'the new capture'] : SIDES.map(side => `window ${sideName(side)}`);
  return `${growthWords(sum.new)} in ${after}, ${growthSize(change)} ${change > 0 ? 'more' : 'less'} than in ${before} (${ofTwo('growth').format(sum.old)})`;
}
function changeInWords(sum) {
  const {format} = ofTwo(view.metric), change = changeOf(sum);
  if (view.metric === 'growth') return growthInWords(sum, change);
  if (!change) return `the same, ${format(sum.new)}`;
  return `${change > 0 ? 'grew' : 'shrank'} by ${format(Math.abs(change)).replace(/^\+/, '')}, from ${format(sum.old)} to ${format(sum.new)}`;
}
const changeLabel = node => {
  const change = changeOf(node);
  return change ? ofTwo(view.metric).change(change) : '=';
};
/* Orange and blue are distinct with any kind of colour vision; the label also has the sign. */
function changeColour(node, dark) {
  const larger = Math.max(Math.abs(node.old), Math.abs(node.new)), change = changeOf(node);
  if (!change || !larger) return dark ? '#3a4149' : '#d9dee4';
  const strength = Math.min(1, Math.abs(change) / larger), hue = change > 0 ? 30 : 212;
  return dark ? `hsl(${hue} ${30 + 35 * strength}% ${24 + 12 * strength}%)` : `hsl(${hue} ${55 + 35 * strength}% ${92 - 24 * strength}%)`;
}

/* All figures of the stacks that look like this one. */
function compareMetrics(site) {
  const same = sites.filter((_, other) => pathOf(other) === pathOf(site)), windows = comparing ? [] : SIDES.map(side => windowOf(...stepsOfSide(side)));
  const sumOf = (side, key) => same.reduce((sum, one) => sum + (one.side === side ? figureOf(one, key) : 0), 0);
  const byWindow = windows.map(one => same.map(site => seriesFigures(site, one)));
  const sumIn = (at, key) => byWindow[at].reduce((sum, one) => sum + one[key], 0) * partOf(SIDES[at], key);
  const cells = (tag, ...texts) => texts.map((textContent, i) => make(tag, {textContent, class: i || tag === 'th' ? 'number' : ''}));
  return [make('tr', {}, make('td'), ...cells('th', ...SIDES.map(side => capital(sideName(side))), 'Change')), ...Object.keys(METRICS).map(key => {
    const m = ofTwo(key);
    const [before, after] = SIDES.map((side, at) => comparing ? sumOf(side, key) : sumIn(at, key));
    return make('tr', {}, ...cells('td', m.words, m.format(before), m.format(after), m.change(Math.round(after - before))));
  })];
}

/* ---------------------------------------------------------------- views of comparisons */

/* The bounds of a side's live bytes, where losses were counted. */
function liveBounds({live_bytes_min: min, live_bytes_max: max}) {
  if (min === max) return '';
  return `: ${min === null ? `at most ${bytes(max)}` : max === null ? `at least ${bytes(min)}` : `${bytes(min)} to ${bytes(max)}`} ${LIVE}`;
}

function drawComparison() {
  const {total} = figures, {words, change, format} = ofTwo(view.metric), rows = mergeAlike(sites.map((_, i) => i)).filter(row => row.sum.olds || row.sum.news);
  const by = Object.fromEntries(STATES.map(state => [state, rows.filter(row => stateOf(row.sum) === state)]));
  /* Each stack's change is a whole number, as in `limpet diff`: rates are not. */
  const sum = list => list.reduce((all, row) => all + changeOf(row.sum), 0);
  const findings = [make('li', {textContent: `Total: ${changeInWords(total)} (${words}).`})];
  if (ofPages) findings.push(make('li', {class: 'note', textContent: FIRST_TOUCH}));
  if (isRate(view.metric)) findings.push(make('li', {class: 'note',
    textContent: `Compared by the second: ${sideName('old')} is of ${seconds(lengthOf('old'))}, ${sideName('new')} of ${seconds(lengthOf('new'))}.`}));
  if (!comparing) findings.push(...lossesInWords());
  for (const side of comparing ? SIDES : []) {
    const why = data[side].about.losses.filter(({reason}) => reason !== 'sampled'), of = key => why.some(loss => loss[key]);
    if (why.length) findings.push(make('li', {class: 'warn', textContent: `The ${side} capture is ` +
      `${of('incomplete') ? of('inexact') ? 'neither complete nor exact' : 'not complete' : 'not exact'}${liveBounds(data[side].about)} (${why.map(loss => loss.words).join('; ')}).`}));
    else if (data[side].sampled) findings.push(make('li', {textContent: `The figures of the ${side} capture are estimated.`}));
  }
  for (const state of STATES.slice(0, 4)) {
    const first = by[state].filter(row => changeOf(row.sum)).sort((a, b) => Math.abs(changeOf(b.sum)) - Math.abs(changeOf(a.sum))).slice(0, 3);
    if (!first.length) continue;
    const list = make('ul', {}, ...first.map(row => {
      const path = pathOf(row.site);
      return make('li', {}, make('button', {type: 'button', class: 'link', textContent: path ? shortFrame(paths.frame[path]) : NO_FRAMES, title: path ? brief(wholeName(paths.frame[path]), 1000) : '',
        onclick: () => showStack(row)}), ` ${changeInWords(row.sum)}`);
    }));
    findings.push(make('li', {}, `${stacksInState(by[state].length, state)}, ${change(sum(by[state]))}:`, list));
  }
  if (by.same.length) findings.push(make('li', {textContent: `${count(by.same.length)} ${by.same.length === 1 ? 'stack has' : 'stacks have'} not changed.`}));
  $('findings').replaceChildren(...findings);
  const tile = (name, value) => make('div', {}, make('dt', {textContent: name}), make('dd', {textContent: value}));
  $('tiles').replaceChildren(tile('Change', change(changeOf(total))), ...SIDES.map(side => tile(capital(sideName(side)), format(total[side]))),
    ...STATES.slice(0, 4).map(state => tile(stateWord(state)[0].toUpperCase() + stateWord(state).slice(1), change(sum(by[state])))));
  if (comparing) drawSidesInWords();
}
function drawSidesInWords() {
  const [before, after] = SIDES.map(side => data[side].about);
  const row = (name, value) => make('tr', {}, make('th', {scope: 'row', textContent: name}), ...[before, after].map(one => make('td', {textContent: value(one)})));
  $('about').replaceWith(make('div', {id: 'about'}, make('table', {}, make('thead', {}, make('tr', {}, make('td'), ...SIDES.map(side =>
    make('th', {scope: 'col', textContent: side})))), make('tbody', {},
    row('Trace', one => one.file), row('Program', one => `${one.comm || '?'} (${one.pid})`),
    row('Time', one => `${seconds(one.from_seconds)} to ${seconds(one.to_seconds)}`),
    row('Complete', one => one.complete ? 'yes' : 'no'), row('Exact', one => one.exact ? 'yes' : 'no'),
    row(ofPages ? 'Resident at the end' : 'Live at the end', one => `${bytes(one.totals.live_bytes)} in ${plural(one.totals.live_allocations, ofPages ? 'page' : 'block')}`),
    row(ofPages ? 'New pages' : 'Allocations', one => `${count(one.totals.allocations)}, ${bytes(one.totals.allocated_bytes)}`),
    ...(ofPages ? [] : [row('Temporary', one => SIDES.some(side => data[side].about === one && data[side].sampled) ? `– (${NO_TEMPORARY})` : percent(one.totals.temporary_allocations, one.totals.allocations) || '–')])))));
}

function sizesOfSide(side) {
  if (comparing) return data[side].sizes;
  const [from, to] = stepsOfSide(side);
  return data.sizes.map(size => {
    const sum = key => size.b.reduce((all, b, i) => all + (b >= from && b < to ? size[key][i] : 0), 0);
    return {from: size.from, to: size.to, allocations: sum('a'), allocated: sum('ab')};
  });
}
function drawComparedSizes() {
  const by = new Map();
  for (const side of SIDES)
    for (const size of sizesOfSide(side)) {
      const row = by.get(size.from) || {from: size.from, to: size.to, old: {allocations: 0, allocated: 0}, new: {allocations: 0, allocated: 0}};
      for (const key of ['allocations', 'allocated']) row[side][key] = size[key] * partOf(side, key);
      by.set(size.from, row);
    }
  const columns = (key, title, {format, change}) => [
    {title: `Change, ${title}`, number: true, value: r => r.new[key] - r.old[key], format: change, order: Math.abs},
    ...SIDES.map(side => ({title: `${capital(sideName(side))}, ${title}`, number: true, minor: true, value: r => r[side][key], format}))];
  table($('sizes'), 'Allocations by requested size', [
    {title: 'Size', number: true, value: r => r.from, format: (v, r) => r.from === r.to ? bytes(r.from) : `${bytes(r.from)} – ${bytes(r.to)}`},
    ...columns('allocations', 'allocations', ofTwo('allocations')), ...columns('allocated', 'bytes', ofTwo('allocated')),
  ], [...by.values()].filter(r => r.old.allocations || r.new.allocations), 0, false);
}

/* Each side's time is from its own start. */
function sidesOverTime() {
  const tables = SIDES.map(side => {
    const {timeline, about} = data[side];
    return [timeline.seconds.map(at => at - about.from_seconds), timeline.live];
  });
  return {labels: [`${LIVE}, old`, `${LIVE}, new`], lists: uPlot.join(tables)};
}

function beginComparison() {
  const [before, after] = SIDES.map(side => data[side].about);
  document.title = `${base(before.file)} → ${base(after.file)}: limpet`;
  $('title').textContent = `${base(before.file)} → ${base(after.file)}`;
  $('subtitle').textContent = `what changed in ${after.comm || 'the program'}`;
  for (const option of $('metric').options) option.disabled = option.value === 'temporary' && NO_TEMPORARY !== '';
  $('noise').checked = view.noise = data.full;
  document.querySelector('.range').hidden = true;
  showSides();
}
/* What there is only for two sides, or only for one. */
function showSides() {
  for (const element of document.querySelectorAll('.of-two, .of-one')) element.hidden = element.classList.contains(inTwo() ? 'of-one' : 'of-two');
  nameStates();
  $('state').value = view.state;
}
function nameStates() {
  for (const option of $('state').options) {
    const state = option.value, word = stateWord(state);
    option.textContent = !state ? 'all stacks' : word !== state ? word : `what ${state === 'same' ? 'is the same' : state}`;
  }
}
{
  $('state').append(...['', ...STATES].map(value => make('option', {value})));
  $('state').onchange = event => { view.state = event.target.value; refresh(); remember(); };
}
