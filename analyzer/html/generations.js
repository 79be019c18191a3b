/* ---------------------------------------------------------------- generations
 *
 * What was live at each time, divided into what is still live at the end, and what was freed since. */

const hasGenerations = !comparing && !!data.kept.survivors && bucketCount > 1;
const LAYERS = {function: 'function', generation: ofPages ? 'what is still resident' : 'what is still live'};
const GENERATIONS = `${capital(LIVE)} bytes are divided by what is still ${LIVE} at the end and what was ${ofPages ? 'returned' : 'freed'} since: a leak is a ramp of the former; a cache is a plateau, or a rise at the end if it replaces its entries.`;

function liveByGeneration() {
  const left = new Float64Array(bucketCount + 1);
  for (const site of sites) site.s.forEach((step, i) => { left[step + 1] += site.sb[i]; });
  for (let b = 1; b <= bucketCount; b++) left[b] += left[b - 1];
  return [{group: -2, label: `still ${LIVE} at the end`, list: left, colour: LAYER_COLOURS[5]},
    {group: -2, label: ofPages ? 'returned since' : 'freed since', list: left.map((value, b) => Math.max(0, liveAt[b] - value)), colour: REST_COLOUR}];
}
function showLayers(by) {
  view.layers = hasGenerations && by === 'generation' ? by : 'function';
  $('layers').value = view.layers;
  strip.layers = strip.byLayers[view.layers] ||= liveByGeneration();
  $('layers-words').textContent = view.layers === 'generation' ? GENERATIONS : '';
  drawLegend();
  drawStrip();
}
for (const [key, words] of Object.entries(LAYERS)) $('layers').append(make('option', {value: key, textContent: words}));
$('layers').closest('label').hidden = !hasGenerations;
$('layers').onchange = event => { showLayers(event.target.value); remember(); };
