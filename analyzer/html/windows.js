/* ---------------------------------------------------------------- two windows of one capture
 *
 * The window that all views show is B; view.base is A, with which it is compared. */

/* Half of what is shown with the other half; or what came before a window with it; or it with what came after it. */
function usualWindows() {
  const {from, to} = view, half = Math.max(1, Math.min(bucketCount - 1, nearestEdge(edges[bucketCount] / 2)));
  if (figures.whole) return {base: [0, half], shown: [half, bucketCount]};
  if (from > 0) return {base: [Math.max(0, from - (to - from)), from], shown: [from, to]};
  return {base: [from, to], shown: [to, bucketCount]};
}
function compareWindows() {
  const {base, shown} = usualWindows();
  view.base = base;
  [view.from, view.to] = shown;
  showTwoWindows();
}
function leaveComparison() {
  view.base = null;
  view.state = '';
  showTwoWindows();
}
function showTwoWindows() {
  showSides();
  refresh();
  remember();
}
/* The window between the neighbouring marks that is the next one in this direction; without marks, between flags. */
function moveToMoments(by) {
  if (comparing || noPart) return;
  const marks = (data.marks || []).map(({time_s: at}) => at), moments = marks.length ? marks : flags.map(({at}) => at);
  const steps = [...new Set([0, ...moments.map(nearestEdge), bucketCount])].sort((a, b) => a - b), last = steps.length - 2;
  const before = steps.filter(step => step < view.from).length - 1, after = steps.findIndex(step => step > view.from);
  const at = figures.whole && by < 0 ? last : by < 0 ? before : after;
  if (at < 0 || at > last) return;
  setRange(edges[steps[at]], edges[steps[at + 1]]);
  remember();
}
/* In seconds. */
function setBase(from, to) {
  const [a, b] = stepsOf(from, to);
  if (a === view.base[0] && b === view.base[1]) { showRange(); return; }
  view.base = [a, b];
  refresh();
}
/* What is compared. */
function sidesInWords() {
  const {flow} = METRICS[view.metric], [a, b] = SIDES.map(side => seconds(lengthOf(side)));
  const what = view.metric === 'peak' ? 'what was live at the highest point of each' : flow ? `what came in each${isRate(view.metric) ? ', by the second' : ''}` :
    `what was ${LIVE} at the end of each`;
  return `B (${b}) is compared with A (${a}): ${what}.`;
}
{
  $('compare').onclick = () => view.base ? leaveComparison() : compareWindows();
  for (const id of ['base-from-field', 'base-to-field']) $(id).onchange = () => { setBase(+$('base-from-field').value, +$('base-to-field').value); remember(); };
}
