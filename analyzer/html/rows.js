/* ---------------------------------------------------------------- threads and allocators of stacks, and what is below a row */

const threadNames = new Map((comparing ? [] : data.threads || []).map(({tid, name}) => [tid, name || '']));
/* Threads of one name are told apart by their numbers. */
const threadsNamed = new Map();
for (const name of threadNames.values()) threadsNamed.set(name, (threadsNamed.get(name) || 0) + 1);
const threadLabel = tid => threadNames.get(tid) ? `${threadNames.get(tid)}${threadsNamed.get(threadNames.get(tid)) > 1 ? ` ${tid}` : ''}` : String(tid);
const threadInFull = tid => threadNames.get(tid) ? `${threadNames.get(tid)} (${tid})` : String(tid);
const sitesOfRow = row => row.sites || [row.site];
/* Of the whole capture: [thread, bytes that it allocated], the most first. */
function threadsOf(row) {
  const [first, ...rest] = sitesOfRow(row), {th, thb} = sites[first];
  if (!rest.length) return th.map((tid, i) => [tid, thb[i]]);
  const sums = new Map();
  for (const site of [first, ...rest]) sites[site].th.forEach((tid, i) => sums.set(tid, (sums.get(tid) || 0) + sites[site].thb[i]));
  return [...sums].sort((a, b) => b[1] - a[1]);
}
const sumOfThreads = list => list.reduce((sum, [, size]) => sum + size, 0);
const DID = ofPages ? 'touched first' : 'allocated';
function threadsInWords(list) {
  const all = sumOfThreads(list), first = list.slice(0, BELOW).map(([tid, size]) => `${threadInFull(tid)} ${percent(size, all)}`.trim());
  return `${first.join(', ')}${list.length > BELOW ? ` and ${plural(list.length - BELOW, 'more thread')}` : ''}`;
}
/* The share is left out where a thread did nearly all. */
function mainThread(row) {
  const [[tid, most] = [], ...rest] = threadsOf(row), share = Math.round(100 * most / (most + sumOfThreads(rest) || 1));
  if (tid === undefined) return '';
  return `${threadLabel(tid)}${share < 100 ? ` ${share} %` : ''}`;
}
/* '': the trace knows one allocator alone. */
const allocatorOf = row => data.owners ? data.owners[sites[row.site].owner] || 'others' : '';
/* The columns of stacks that not every capture has. */
function originColumns() {
  const columns = [];
  if (!comparing && data.owners) columns.push({title: 'Allocator', class: 'origin', value: allocatorOf});
  if (threadNames.size > 1) columns.push({title: 'Thread', class: 'origin', hint: `The thread that ${DID} most of it, in the whole capture`, value: mainThread,
    cell: row => [make('span', {textContent: mainThread(row), title: threadsInWords(threadsOf(row))})]});
  return columns;
}

/* The function of a library that the program called, where the report has it: strdup says what the memory is for, malloc does
 * not. -1: there is none, or it is shown among the frames. */
function viaOf(site) {
  if (view.noise) return -1;
  const stack = stackOf(sites[site].node), first = stack.findIndex(f => frames.kind[f] === FOLD.program), via = first > 0 ? stack[first - 1] : -1;
  return via >= 0 && frames.kind[via] === FOLD.library && frames.function[via] >= 0 ? via : -1;
}
const withVia = column => ({...column, cell: row => {
  const [line, ...rest] = column.cell(row), via = viaOf(row.site ?? row.sites[0]);
  if (via >= 0) line.firstChild.after(make('span', {class: 'via', textContent: `(via ${shortFrame(via)})`, title: brief(nameOf(via), 1000)}));
  return [line, ...rest];
}});

/* ---- below a row */

const BELOW = 10;
function foldButton(row, words, more) {
  const button = make('button', {type: 'button', class: 'fold', textContent: '▾', 'aria-expanded': 'false', 'aria-label': words, onclick: () => toggleBelow(button, row, more)});
  return button;
}
const action = (words, what) => make('button', {type: 'button', class: 'small', textContent: words, onclick: what});
/* What a search for lost blocks found of it at the end of the capture; '': nothing that is known. */
function lostInWords(row) {
  const judged = sitesOfRow(row).map(site => sites[site]).filter(one => one.judged), sum = key => judged.reduce((all, one) => all + one[key], 0);
  const lost = sum('lost'), all = sum('judged'), {holder} = judged.filter(one => one.holder).sort((a, b) => b.judged - b.lost - a.judged + a.lost)[0] || {};
  const words = lost ? [`At the end ${count(lost)} of ${plural(all, 'live block')} ${lost === 1 ? 'was' : 'were'} ${data.lost.certain && !data.lost.probably.blocks ? '' : 'probably '}lost: nothing points to ${lost === 1 ? 'it' : 'them'}.`] : [];
  return [...words, ...(holder && lost < all ? [`Held by ${holder}.`] : [])].join(' ');
}
function originInWords(row) {
  const list = threadNames.size ? threadsOf(row) : [], words = list.length ? [`${capital(DID)} by ${threadsInWords(list)}.`] : [];
  if (allocatorOf(row)) words.push(`Allocator: ${allocatorOf(row)}.`);
  if (lostInWords(row)) words.push(lostInWords(row));
  return words.join(' ');
}
/* Who allocated by a stack, where to go on, and its frames. */
function belowStack(row, path, show) {
  const [first] = framesOf(path), origin = row.site === undefined ? '' : originInWords(row);
  return [...(origin ? [make('p', {class: 'note', textContent: origin})] : []),
    make('div', {class: 'bar'}, action('Figures and whole stack', () => show(row)), action('Show in the flame graph', () => showStackInFlame(path)),
      ...(first === undefined ? [] : [action('Callers of the function', () => showFunction(groupOf[first]))])), framesInList(framesOf(path))];
}
/* The nearest callers or callees, the heaviest first. */
function neighbours(title, root) {
  const {format} = METRICS[view.metric], list = root.children, words = node => inTwo() ? changeInWords(node) : `${format(node.weight)}, ${percent(node.weight, root.weight)}`;
  return make('div', {}, make('p', {class: 'note', textContent: list.length ? `${title}:` : `${title}: none`}), make('ul', {class: 'near'}, ...list.slice(0, BELOW).map(node => make('li', {},
    node.group < 0 ? labelOf(node) : make('button', {type: 'button', class: 'link', textContent: shortOf(node), title: brief(groups[node.group].name, 1000), onclick: () => showFunction(node.group)}),
    ` ${words(node)}`))), ...(list.length > BELOW ? [make('p', {class: 'note', textContent: `and ${count(list.length - BELOW)} more`})] : []));
}
function belowFunction(group) {
  const {callers, callees} = treesAround(group, foundSites(termsOfKinds('thread')));
  return [...(view.metric === 'growth' && !inTwo() ? [make('p', {class: 'note', textContent: 'Only what grows is counted.'})] : []),
    make('div', {class: 'pair'}, neighbours('Called by', callers), neighbours('Calls', callees)),
    make('div', {class: 'bar'}, action('As tables', () => showFunction(group)), action('Sandwich', () => showSandwich(group)), action('Show in the flame graph', () => showInFlame(group)))];
}
/* Stacks with a figure of each: the largest. */
const largest = list => sortRows(list, {value: ({size}) => Math.abs(size)}, true).slice(0, BELOW);
function largestStacks(list, format, whole = list.length) {
  const first = largest(list);
  return [make('ul', {class: 'near'}, ...first.map(({row, size}) => {
    const [at, ...rest] = functionsInLine(framesOf(pathOf(row.site)));
    return make('li', {}, make('button', {type: 'button', class: 'link', textContent: at || NO_FRAMES, onclick: () => showStack(row)}),
      ` ${format(size)}`, make('span', {class: 'where', textContent: rest.slice(0, 3).map(f => ` ← ${f}`).join('')}));
  })), ...(whole > BELOW ? [make('p', {class: 'note', textContent: `and ${plural(whole - BELOW, 'smaller stack')}`})] : [])];
}
/* What a thread allocated by each stack, in the whole capture. */
function belowThread({tid}) {
  const known = new Int32Array(paths.parent.length), list = [];
  sites.forEach(({th, thb}, site) => {
    const at = th.indexOf(tid), path = pathOf(site);
    if (at < 0) return;
    known[path] ||= list.push({path, size: 0});
    list[known[path] - 1].size += thb[at];
  });
  /* Only those that are shown are made rows. */
  const first = new Map(largest(list).map(({path, size}) => [path, size])), rows = mergeAlike(sites.map((_, site) => site).filter(site => first.has(pathOf(site))));
  return [make('p', {class: 'note', textContent: `What it ${DID}, in the whole capture:`}),
    ...largestStacks(rows.map(row => ({row, size: first.get(pathOf(row.site))})), bytes, list.length)];
}
/* The stacks that end in a module, by the figure that is looked at. */
function belowModule(module, found) {
  const key = mainKey(), rows = mergeAlike(sites.map((_, site) => site).filter(site => moduleOf(site) === module && (!found || found(site))));
  return [make('p', {class: 'note', textContent: `${capital(METRICS[view.metric].words)}:`}),
    ...largestStacks(rows.filter(({sum}) => sum[key]).map(row => ({row, size: row.sum[key]})), columnsShown()[key].format)];
}
