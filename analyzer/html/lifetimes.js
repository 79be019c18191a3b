/* ---------------------------------------------------------------- threads, lifetimes, sizes of sites
 *
 * These need a trace with single events. The age of live blocks is known only at the end of the capture;
 * everything else is of the window shown. */

const inPart = b => b >= view.from && b < view.to;
const NO_EVENTS = data.capture?.recorder ? `Files of ${data.capture.recorder} do not say which thread allocated a block, nor which block was freed.` :
  'This page has no single events: the capture kept only sums.';
/* The lifetimes of blocks; null: not read yet. Then `into` says so, and is drawn once more if it still is what is looked at. */
let lives = null, livesRead = null;
function wantLives(into) {
  if (!data.kept.lives) { note(into, NO_EVENTS); return null; }
  if (lives) return lives;
  const asked = tab;
  note(into, 'Reading the events…');
  livesRead ||= readPart('lives').then(read => { lives = read; });
  livesRead.then(() => { if (tab === asked && into.textContent === 'Reading the events…') TABS[tab][1](); },
    error => note(into, `They cannot be read: ${error.message}.`));
  return null;
}
/* The thread of a block that was allocated earlier is unknown. */
const sinceKept = () => data.kept.ofSums ? ` from ${seconds(edges[1])} on, as single events are not kept before` : '';
const note = (into, words) => into.replaceChildren(make('p', {class: 'note', textContent: words}));

/* Says of a thread whether it is looked for: by `thread:` itself, by other terms because it allocated by a stack that is
 * found, by words also because of its name. */
function threadsFound() {
  const own = termsOfKinds('thread'), others = search.terms.filter(({kind}) => kind !== 'thread'), tids = new Set();
  const matches = (thread, terms) => terms.every(({not, text}) => isThread(thread, text) !== not);
  if (!others.length) return thread => matches(thread, own);
  const found = foundSites(others), words = others.every(({kind}) => !kind);
  sites.forEach(({th}, site) => { if (found(site)) th.forEach(tid => tids.add(tid)); });
  return thread => matches(thread, own) && (tids.has(thread.tid) || words && matches(thread, others));
}
/* The measure that is looked at, of both windows. */
function drawComparedThreads() {
  const {metric} = view, {format, change, words} = ofTwo(metric), found = threadsFound();
  if (metric === 'survived') { note($('threads'), 'What survived is not known by thread.'); return; }
  const [before, after] = SIDES.map(side => windowOf(...stepsOfSide(side)));
  const rows = data.threads.map(thread => {
    const old = seriesFigures(thread, before)[metric] * partOf('old', metric), one = seriesFigures(thread, after)[metric] * partOf('new', metric);
    return {tid: thread.tid, name: thread.name || '', old, new: one, change: one - old};
  }).filter(row => (row.old || row.new) && found(row));
  table($('threads'), `${plural(rows.length, 'thread')} by ${words}${sinceKept()}`, [
    {title: 'Thread', number: true, minor: false, value: row => row.tid, format: String},
    ...Object.entries(COLUMNS_OF_TWO).map(([key, {short, order}]) => ({title: short, number: true, value: row => row[key], order, format: key === 'change' ? change : format})),
    threadNameColumn()], rows, 1);
}
const threadNameColumn = () => ({title: 'Name', class: 'name', value: row => row.name, cell: row => [make('div', {class: 'one-line'}, make('span', {textContent: row.name}),
  foldButton(row, `stacks of ${threadInFull(row.tid)}`, belowThread))]});
function drawThreads() {
  if (!data.threads) { note($('threads'), NO_EVENTS); return; }
  if (inTwo()) { drawComparedThreads(); return; }
  const found = threadsFound();
  const rows = data.threads.map(thread => ({tid: thread.tid, name: thread.name || '', ...seriesFigures(thread, figures.window),
    own: thread.o.reduce((sum, n, i) => sum + (inPart(thread.b[i]) ? n : 0), 0)})).filter(row =>
    (row.allocations || row.own || row.live || row.growth) && found(row));
  const keys = Object.keys(METRICS).filter(key => key !== 'survived');
  const columns = keys.map(key => ({title: METRICS[key].short, number: true, value: row => row[key], format: METRICS[key].format, ...shared(key)}));
  table($('threads'), `${plural(rows.length, 'thread')} by what ${rows.length === 1 ? 'it' : 'they'} ${ofPages ? 'touched first' : 'allocated'}${sinceKept()}${NO_TEMPORARY ? `; temporary allocations are ${NO_TEMPORARY}` : ''}`, [
    {title: 'Thread', number: true, minor: false, value: row => row.tid, format: String}, ...columns,
    {title: ofPages ? 'Returned' : 'Frees it made', number: true, value: row => row.own, format: count}, threadNameColumn()], rows, 1 + Math.max(0, keys.indexOf(view.metric)));
}

/* The age limit below which this share of all blocks lies. */
function ageBelow(ages, all, share) {
  let sum = 0;
  for (let age = 0; age < ages.length; age++) {
    sum += ages[age];
    if (sum >= all * share) return age < data.ages.length ? data.ages[age] : Infinity;
  }
  return Infinity;
}
const formatAge = limit => limit === Infinity ? 'more than 1 h' : limit >= 1 ? seconds(limit) : `${limit * 1e3} ms`;

/* Stacks that look alike are one row, as in the other tables. */
function livesByPath() {
  const found = foundSites(search.terms), rows = new Map(), atEnd = view.to === bucketCount;
  const bySite = new Map(sites.map((site, i) => [site.node, i]));
  for (const life of lives) {
    const site = bySite.get(life.node);
    if (site === undefined || found && !found(site)) continue;
    const path = pathOf(site), figure = figures.bySite[site];
    let row = rows.get(path);
    if (!row) rows.set(path, row = {path, sites: [], freed: 0, freedBytes: 0, alive: 0, aliveBytes: 0, oldest: -1, smallest: Infinity, largest: 0,
      allocations: 0, allocated: 0, ages: data.ages.map(() => 0).concat(0), agesBytes: data.ages.map(() => 0).concat(0),
      aliveAges: data.ages.map(() => 0).concat(0), aliveAgesBytes: data.ages.map(() => 0).concat(0)});
    row.sites.push(site);
    life.b.forEach((b, i) => {
      if (!inPart(b)) return;
      row.ages[life.g[i]] += life.n[i];
      row.agesBytes[life.g[i]] += life.nb[i];
      row.freed += life.n[i];
      row.freedBytes += life.nb[i];
    });
    row.alive += figure.liveCount;
    row.aliveBytes += figure.live;
    row.allocations += figure.allocations;
    row.allocated += figure.allocated;
    if (atEnd) {
      life.alive.forEach((n, age) => { row.aliveAges[age] += n; row.aliveAgesBytes[age] += life.aliveBytes[age]; });
      row.oldest = Math.max(row.oldest, life.oldest);
    }
    if (life.largest) row.smallest = Math.min(row.smallest, life.smallest);
    row.largest = Math.max(row.largest, life.largest);
  }
  return [...rows.values()];
}
const stackColumn = withVia(stackColumnOf(row => row.path, row => showStack(mergeAlike(row.sites)[0])));

function drawLifetimes() {
  if (!wantLives($('lifetimes'))) return;
  const rows = livesByPath().filter(row => row.freed || row.alive), atEnd = view.to === bucketCount;
  const sum = (key, age) => rows.reduce((all, row) => all + row[key][age], 0);
  const ages = [...data.ages, Infinity].map((limit, age) => ({limit, freed: sum('ages', age), freedBytes: sum('agesBytes', age),
    alive: sum('aliveAges', age), aliveBytes: sum('aliveAgesBytes', age)})).filter(row => row.freed || row.alive);
  const known = value => value === null ? '–' : count(value), both = make('div', {id: 'lifetimes-by-stack'}), top = make('div', {id: 'lifetimes-all'});
  $('lifetimes').replaceChildren(...(inTwo() ? [make('p', {class: 'note', textContent: 'Of window B: lifetimes are not compared.'})] : []), top, make('h2', {textContent: 'By stack'}), both);
  table(top, ofPages ? `How long pages stayed resident${atEnd ? '; what is resident at the end, by its age' : ''}` :
    atEnd ? 'How long blocks lived; what is alive at the end, by its age' :
    'How long blocks lived; the age of live blocks is known only at the end of the capture', [
    {title: ofPages ? 'Resident below' : 'Lived below', number: true, value: row => row.limit, format: formatAge},
    {title: ofPages ? 'Returned' : 'Freed', number: true, value: row => row.freed, format: count}, {title: 'Bytes', number: true, value: row => row.freedBytes, format: bytes},
    ...(atEnd ? [{title: ofPages ? 'Resident' : 'Alive', number: true, value: row => row.alive, format: count}, {title: ofPages ? 'Bytes resident' : 'Bytes alive', number: true, value: row => row.aliveBytes, format: bytes}] : []),
  ], ages, 0, false);
  table(both, plural(rows.length, 'stack') + (data.kept.ofSums ? `; ages and what was freed are of blocks${sinceKept()}` : ''), [
    {title: ofPages ? 'Returned' : 'Freed', number: true, value: row => row.freed, format: count},
    {title: 'half below', number: true, value: row => row.freed ? ageBelow(row.ages, row.freed, 0.5) : -1, format: v => v < 0 ? '–' : formatAge(v)},
    {title: '90 % below', number: true, value: row => row.freed ? ageBelow(row.ages, row.freed, 0.9) : -1, format: v => v < 0 ? '–' : formatAge(v)},
    {title: ofPages ? 'Resident' : 'Alive', number: true, value: row => row.alive, format: known}, {title: ofPages ? 'Bytes resident' : 'Bytes alive', number: true, value: row => row.aliveBytes, format: bytes},
    {title: 'Oldest', number: true, value: row => row.alive ? row.oldest : -1, format: v => v < 0 ? '–' : seconds(v)}, stackColumn,
  ], rows, 4);
}

function drawSiteSizes(into) {
  if (!wantLives(into)) return;
  const rows = livesByPath().filter(row => row.allocations);
  table(into, `${rows.length === 1 ? '1 stack by requested sizes' : `${count(rows.length)} stacks by requested sizes`}; smallest and largest are of ${data.kept.ofSums ? `what came${sinceKept()}` : 'the whole capture'}`, [
    {title: 'Allocations', number: true, value: row => row.allocations, format: count}, {title: 'Bytes', number: true, value: row => row.allocated, format: bytes},
    {title: 'Average', number: true, value: row => row.allocated / row.allocations, format: bytes},
    {title: 'Smallest', number: true, value: row => row.smallest === Infinity ? 0 : row.smallest, format: bytes}, {title: 'Largest', number: true, value: row => row.largest, format: bytes}, stackColumn,
  ], rows, 1);
}
