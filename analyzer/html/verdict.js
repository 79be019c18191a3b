/* ---------------------------------------------------------------- the verdict
 *
 * Its words and what they rest on are the analyzer's, of the whole capture; a part of the time changes nothing here. */

const theVerdict = () => comparing ? null : data.verdict;
/* The row of the Stacks table that a finding is about; null: it is about the whole. */
function rowOfFinding(finding, rows = mergeAlike(sites.map((_, i) => i))) {
  const site = finding.node ? sites.findIndex(one => one.node === finding.node) : -1;
  return site < 0 ? null : rows.find(one => pathOf(one.site) === pathOf(site)) || null;
}

const {resident} = data;
const PART_COLOURS = {allocator: '#2f6db3', runtime: '#b23a48', stacks: '#a05a8c', code: '#a8adb5', mapped: '#2a8f8f', anonymous: '#8e5bd0'};
/* The sentence is among those of the verdict. */
const memoryInWords = () => resident.moment ? `Resident ${resident.moment === 'end' ? 'at the end' : 'before the capture'}: ${bytes(resident.bytes)}`
  : resident.text || `${bytes(data.totals.live_bytes)} ${LIVE}; how much was resident was not recorded.`;
function drawMemoryParts() {
  const bar = make('div', {class: 'parts', 'aria-hidden': 'true'}, ...resident.parts.map(({kind, bytes: value}) => {
    const part = make('span');
    part.style.width = `${100 * value / resident.bytes}%`;
    part.style.background = PART_COLOURS[kind];
    return part;
  }));
  const list = make('ul', {class: 'parts-words'}, ...resident.parts.map(({text, kind}) => legendItem(PART_COLOURS[kind], text)));
  $('verdict-memory').replaceChildren(make('p', {textContent: memoryInWords()}), ...(resident.parts.length ? [bar, list] : []));
}

/* Nothing in it acts as Markdown. */
const inMarkdown = text => text.replace(/[\\`*_{}[\]<>#|~]/g, '\\$&');
function verdictInMarkdown() {
  const lines = [`## ${inMarkdown(document.title)}`, '', `**${inMarkdown($('verdict-text').textContent.replaceAll('\u00a0', ' '))}**`, '', inMarkdown($('verdict-more').textContent.replaceAll('\u00a0', ' ')), ''];
  if (!comparing) lines.push(...(data.findings || []).map(finding => `- ${inMarkdown(finding.text)}`),
    `- ${inMarkdown([memoryInWords(), ...resident.parts.map(({text}) => text)].join('; '))}`);
  if (!comparing && (view.base || !figures.whole)) lines.push(...shownInMarkdown());
  const finding = theVerdict();
  if (finding && finding.node) lines.push('', '```', ...stackOf(finding.node).map(f => `${nameOf(f)}${frameFile(f) ? `  ${frameFile(f)}:${frames.line[f]}` : ''}`.replaceAll('```', "'''")), '```');
  return lines.join('\n') + '\n';
}
/* What the views show, where that is not the whole capture: the largest stacks of the window. */
const COPIED_STACKS = 5;
function shownInMarkdown() {
  const key = mainKey(), {words, format} = METRICS[view.metric], known = columnsShown()[key];
  const rows = mergeAlike(sites.map((_, i) => i)).filter(row => row.sum[key]).sort((a, b) => Math.abs(b.sum[key]) - Math.abs(a.sum[key])).slice(0, COPIED_STACKS);
  const span = ([from, to]) => `${seconds(edges[from])} to ${seconds(edges[to])}`, shown = span([view.from, view.to]);
  const head = view.base ? `Change from A, ${span(view.base)}, to B, ${shown}: ${changeInWords(figures.total)} (${words})` : `From ${shown}: ${format(figures.total[key])} (${words})`;
  return ['', inMarkdown(head), '', ...rows.map(row => `- ${known.format(row.sum[key])}: ${inMarkdown(framesOf(pathOf(row.site)).slice(0, 3).map(f => brief(wholeName(f))).join(' <- ') || NO_FRAMES)}`)];
}
/* Says on the button what became of it. */
async function copyBy(button, text, refused = 'Not allowed', copied = 'Copied') {
  const words = button.dataset.words ||= button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = copied;
  } catch {
    button.textContent = refused;
  }
  setTimeout(() => { button.textContent = words; }, 2000);
}

const verdictNote = () => [(data.capture?.losses || []).some(loss => loss.inexact) ? 'Uncertain: Overview says why.' : '',
  figures.whole || !data.verdict ? '' : 'This is of the whole capture.'].filter(Boolean).join(' ');
/* More characters would leave no room for anything else: names may be of any length. */
const LONGEST_VERDICT = 600;
/* Of a part of the stacks there are no findings. */
function partInWords() {
  return `${bytes(data.totals.live_bytes)} ${LIVE} at the end${data.hidden ? `, of ${data.born ? bornInWords(data.born) : 'what a filter keeps'}` : ''}.`;
}
function drawVerdict() {
  if (comparing) {
    $('verdict-text').replaceChildren(...breakable(brief(data.verdict, LONGEST_VERDICT)));
    $('verdict-more').textContent = `${capital(changeInWords(figures.total))}${view.metric === 'growth' ? '' : ` (${METRICS[view.metric].words})`}.`;
    return;
  }
  $('verdict-text').replaceChildren(...breakable(brief(data.verdict ? data.verdict.sentences[0] : partInWords(), LONGEST_VERDICT)));
  $('verdict-more').replaceChildren(...breakable(brief(data.verdict ? data.verdict.sentences.slice(1).join(' ') : '', LONGEST_VERDICT)));
  drawMemoryParts();
}
/* Lines end after a scope's name rather than within one, and not between a figure and its unit. */
const breakable = text => text.replace(/(\d) (?=%|[KMGT]?i?B\b)/g, '$1\u00a0').split('::').flatMap((part, i) => i ? ['::', make('wbr'), part] : [part]);
const capital = text => text[0].toUpperCase() + text.slice(1);
{
  const verdict = theVerdict() || {}, finding = verdict.node ? verdict : null, timed = verdict.to_seconds ? verdict : null;
  const only = (id, shown, act) => {
    $(id).hidden = !shown;
    $(id).onclick = act;
  };
  only('verdict-flame', finding, () => showStackInFlame(pathOf(rowOfFinding(finding).site)));
  only('verdict-stack', finding, () => showStack(rowOfFinding(finding)));
  only('verdict-when', timed && !noPart, () => { setRange(timed.from_seconds, timed.to_seconds); remember(); });
  $('verdict-copy').onclick = () => copyBy($('verdict-copy'), verdictInMarkdown());
}
