/* ---------------------------------------------------------------- the search
 *
 * Its terms are words, or words of one kind, as fn:main. Quotes keep spaces in a term, and a minus excludes what it
 * matches. A stack is found if each term matches one of its frames or threads, and none that excludes does. Terms that
 * were entered are chips; what is still being typed counts as well. view.find has all terms as text. */

const KINDS = {fn: 'functions', file: 'source files', module: 'programs and libraries', thread: 'threads, by number or name'};
if (comparing || !data.threads) delete KINDS.thread;
/* lit: of each of the groups litOf, whether a term matches it; drawn: the terms by which the graph's stacks were chosen. */
const search = {chips: [], terms: [], lit: null, litOf: null, drawn: ''};

/* A minus before > or - is part of an operator; a kind before two colons is part of a name. */
const TERM = /^(-(?=[^\s>-]))?(?:(fn|file|module|thread):(?!:))?(.*)$/s, TOKENS = /-?(?:(?:fn|file|module|thread):)?"[^"]*"?|\S+/g;
function termOf(token) {
  const [, not, kind = '', rest] = TERM.exec(token);
  return {not: !!not, kind, text: rest.startsWith('"') ? rest.slice(1).replace(/"$/, '') : rest};
}
const termsOf = text => (text.toLowerCase().match(TOKENS) || []).map(termOf).filter(term => term.text && term.text !== '-');
function textOfTerm({not, kind, text}) {
  const begin = `${not ? '-' : ''}${kind ? `${kind}:` : ''}`, [again, ...more] = termsOf(begin + text);
  const whole = again && !more.length && again.not === not && again.kind === kind && again.text === text;
  return whole ? begin + text : `${begin}"${text}"`;
}
const textOfTerms = terms => [...new Set(terms.map(textOfTerm))].join(' ');
function takeTerms() {
  search.terms = [...search.chips, ...termsOf($('find').value)];
  search.lit = null;
  view.find = textOfTerms(search.terms);
  $('search-note').textContent = !KINDS.thread && termsOfKinds('thread').length ? 'This page has no threads: thread: is ignored.' : '';
}

/* ---- what matches */

function searchText(name, path, library) {
  const fn = name.toLowerCase(), file = path.toLowerCase(), module = library.toLowerCase();
  return {fn, file, module, all: `${fn} ${file} ${module}`};
}
/* Of several functions that are shown as one. */
const joinedText = texts => Object.fromEntries(Object.keys(texts[0]).map(key => [key, [...new Set(texts.map(text => text[key]))].join(' ')]));
const matchesGroup = ({kind, text}, g) => searchable[g][kind || 'all'].includes(text);
/* A number is that of one thread, as in a filter of `limpet report`. */
const isThread = ({tid, name}, text) => /^\d+$/.test(text) ? String(tid) === text : name.toLowerCase().includes(text);
/* A row with texts of some kinds: terms of the others say nothing of it. */
const rowFound = texts => search.terms.every(({not, kind, text}) => texts[kind || 'all'] === undefined || texts[kind || 'all'].includes(text) !== not);
/* What a function can be looked for by. */
const wantedTerms = () => search.terms.filter(({not, kind}) => !not && kind !== 'thread');
function isLit(group) {
  if (!view.find || group < 0) return false;
  if (!search.lit || search.litOf !== groups) {
    const wanted = wantedTerms();
    Object.assign(search, {litOf: groups, lit: groups.map((_, g) => wanted.some(term => matchesGroup(term, g)))});
  }
  return search.lit[group];
}
/* The paths with a frame of a group of which `matches` says so. */
function pathsWith(matches) {
  const found = new Uint8Array(paths.parent.length), groupFound = groups.map((_, g) => matches(g));
  for (let path = 1; path < found.length; path++) found[path] = found[paths.parent[path]] || groupFound[paths.group[path]];
  return found;
}
/* Says of a site whether its stack is found; null: all are. */
function foundSites(terms) {
  if (!terms.length) return null;
  const found = new Uint8Array(paths.parent.length).fill(1);
  for (const term of terms) {
    if (term.kind === 'thread') continue;
    const has = pathsWith(g => matchesGroup(term, g));
    for (let path = 0; path < found.length; path++) if (!has[path] !== term.not) found[path] = 0;
  }
  const ofThreads = KINDS.thread ? terms.filter(({kind}) => kind === 'thread').map(({not, text}) => ({not,
    tids: new Set([...threadNames].filter(([tid, name]) => isThread({tid, name}, text)).map(([tid]) => tid))})) : [];
  return site => found[rawPath[nodeOf[site]]] === 1 && ofThreads.every(({not, tids}) => sites[site].th.some(tid => tids.has(tid)) !== not);
}
const termsOfKinds = (...kinds) => search.terms.filter(({kind}) => kinds.includes(kind));
/* The stacks that the flame graph shows: those that are not excluded, or on request only those that are found. */
const graphTerms = () => view.only ? search.terms : search.terms.filter(({not}) => not);
function graphSites() {
  search.drawn = textOfTerms(graphTerms());
  return foundSites(graphTerms());
}
function foundInWords(found) {
  const words = wantedTerms().length ? [`${plural(found, 'frame')} found`] : [];
  if (graphTerms().length) words.push(view.only ? 'only stacks that are found' : 'without the stacks that are excluded');
  return words;
}

/* ---- what can be entered */

const OFFERED = 10, LOOKED_AT = 300;
function namesOfKind(kind) {
  if (kind === 'fn') return groups.map(group => withoutParameters(group.base || group.name));
  if (kind === 'thread') return data.threads.flatMap(({tid, name}) => [String(tid), ...(name ? [name] : [])]);
  return groups.map(kind === 'file' ? group => frameFile(group.frame) || '' : group => base(group.module || ''));
}
/* The shortest of the first ones that match. */
function offers(kind, text) {
  const found = new Set();
  for (const name of namesOfKind(kind)) {
    if (found.size >= LOOKED_AT) break;
    if (name.length <= LONGEST && !name.includes('"') && name.toLowerCase().includes(text)) found.add(name);
  }
  found.delete('');
  return [...found].sort((a, b) => a.length - b.length).slice(0, OFFERED);
}
/* The list below the field: values replace what is typed, whose last term is completed. */
function offerTerms() {
  const typed = $('find').value, open = typed.split('"').length % 2 === 0, [last] = (open ? /\S*"[^"]*$/ : /\S*$/).exec(typed.toLowerCase());
  const {not, kind, text} = termOf(open ? `${last}"` : last), before = typed.slice(0, typed.length - last.length) + (not ? '-' : '');
  const option = (value, label) => make('option', {value: before + value, label});
  const ofKind = one => offers(one, text).map(name => option(textOfTerm({not: false, kind: one, text: name}), `${before}${one}:${name}`));
  const list = kind ? KINDS[kind] ? ofKind(kind) : [] : text.length > 1 ? Object.keys(KINDS).flatMap(ofKind) :
    Object.entries(KINDS).filter(([one]) => one.startsWith(text)).map(([one, words]) => option(`${one}:`, `${before}${one}: ${words}`));
  $('find-list').replaceChildren(...list.slice(0, 2 * OFFERED));
}
const isOffered = text => [...$('find-list').options].some(option => option.value === text) && !text.endsWith(':');

/* ---- the field and its chips */

let searchTimer = 0;
function drawFound(instead) {
  clearTimeout(searchTimer);
  if (tab === 'flame' && search.drawn === textOfTerms(graphTerms())) drawFlame();
  else TABS[tab][1]();
  remember(instead);
}
function drawChips() {
  $('chips').replaceChildren(...search.chips.map((term, at) => {
    const words = textOfTerm(term);
    return make('li', {}, make('button', {type: 'button', class: term.not ? 'chip without' : 'chip', title: 'Remove', 'aria-label': `Remove ${words}`,
      onclick: () => removeChip(at)}, make('span', {textContent: brief(words, 40)}), make('span', {'aria-hidden': 'true', textContent: '×'})));
  }));
  $('chips').hidden = !search.chips.length;
  $('find').placeholder = search.chips.length ? '' : 'function, file or module';
}
function enterTerms() {
  const known = new Set(search.chips.map(textOfTerm)), more = termsOf($('find').value).filter(term => !known.has(textOfTerm(term)) && known.add(textOfTerm(term)));
  search.chips.push(...more);
  $('find').value = '';
  takeTerms();
  drawChips();
  offerTerms();
  if (more.length) $('search-words').textContent = `Added: ${textOfTerms(more)}`;
  drawFound(true);
}
function removeChip(at) {
  const [term] = search.chips.splice(at, 1);
  takeTerms();
  drawChips();
  $('search-words').textContent = `Removed: ${textOfTerm(term)}`;
  (search.chips.length && document.activeElement !== $('find') ? $('chips').children[Math.min(at, search.chips.length - 1)].firstChild : $('find')).focus();
  drawFound(false);
}
/* What an address says: its terms are chips, but for those that are in the field already. */
function setSearch(text) {
  const terms = termsOf(text);
  if (textOfTerms(terms) === view.find) return;
  search.chips = terms;
  $('find').value = '';
  takeTerms();
  drawChips();
}
{
  $('find').oninput = event => {
    const field = $('find');
    if (event.inputType !== 'insertText' && isOffered(field.value)) { enterTerms(); return; }
    takeTerms();
    clearTimeout(searchTimer);
    searchTimer = setTimeout(() => { offerTerms(); drawFound(true); }, 120);
  };
  $('find').onfocus = () => { if (!$('find').value) offerTerms(); };
  $('find').onkeydown = event => {
    const field = $('find'), {length} = search.chips;
    if (event.key === 'Enter') enterTerms();
    else if (event.key === 'Backspace' && !field.value && length) removeChip(length - 1);
    else if (event.key === 'ArrowLeft' && !field.selectionEnd && length) $('chips').lastChild.firstChild.focus();
    else return;
    event.preventDefault();
  };
  $('chips').onkeydown = event => {
    const items = [...$('chips').children], at = items.findIndex(item => item.contains(event.target));
    if (event.key === 'Backspace' || event.key === 'Delete') removeChip(at);
    else if (event.key === 'ArrowLeft') items[Math.max(0, at - 1)].firstChild.focus();
    else if (event.key === 'ArrowRight') (at + 1 < items.length ? items[at + 1].firstChild : $('find')).focus();
    else return;
    event.preventDefault();
  };
  $('only').onchange = () => { view.only = $('only').checked; drawFound(false); };
  drawChips();
}
