/* ---------------------------------------------------------------- live bytes of a frame over time, as a line in its details */

const SPARK = {wide: 260, high: 44};
/* At each edge of the steps. */
function liveOf(own) {
  const list = new Float64Array(bucketCount + 1);
  for (const site of own) sites[site].b.forEach((b, i) => { list[b + 1] += sites[site].ab[i] - sites[site].fb[i]; });
  for (let b = 1; b <= bucketCount; b++) list[b] += list[b - 1];
  return list;
}
function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
/* Of one step nothing can be drawn. The window that is shown is shaded, unless it is the whole. */
function sparkline(own) {
  if (comparing || bucketCount < 2 || edges[bucketCount] <= 0) return [];
  const list = liveOf(own), most = Math.max(...list), {wide, high} = SPARK, what = ofPages ? 'resident pages' : 'live bytes';
  const x = at => (at / edges[bucketCount] * wide).toFixed(1), y = value => (high - 1 - (most > 0 ? Math.max(0, value) / most : 0) * (high - 3)).toFixed(1);
  /* What came before single events were kept has no times. */
  const first = data.kept.ofSums ? 1 : 0, points = [...list.slice(first)].map((value, i) => `${x(edges[i + first])},${y(value)}`);
  const [from, to] = [view.from, view.to].map(b => edges[b]);
  const picture = svg('svg', {viewBox: `0 0 ${wide} ${high}`, class: 'spark', role: 'img', 'aria-label':
    `${what} over time: ${bytes(list[0])} at first, at most ${bytes(most)}, ${bytes(list[bucketCount])} at the end` +
    (figures.whole ? '' : `; ${bytes(list[view.from])} to ${bytes(list[view.to])} in the window, ${seconds(from)} to ${seconds(to)}`)},
  ...(figures.whole ? [] : [svg('rect', {class: 'spark-window', x: x(from), y: 0, width: Math.max(1, x(to) - x(from)), height: high})]),
  svg('polygon', {class: 'spark-area', points: [`${x(edges[first])},${high}`, ...points, `${wide},${high}`].join(' ')}),
  svg('polyline', {class: 'spark-line', points: points.join(' ')}));
  return [make('div', {class: 'spark-box'}, picture, make('p', {class: 'note', textContent: `${what}, at most ${bytes(most)}, in ${seconds(edges[bucketCount])}`}))];
}
