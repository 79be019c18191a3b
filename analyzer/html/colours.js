/* ---------------------------------------------------------------- what colours of the flame graph mean */

/* Other colours than those of names: {words, keys: figures of the nodes, figure(site, key): one of a site, of(node, dark),
 * legend(dark): [colour, words] of each}. */
const TINT = {
  module: {words: 'module', keys: [], of: (node, dark) => moduleColour(groups[node.group].module, dark), legend: modulesInColour},
  growth: {words: 'share of growth', keys: ['growth'], of: (node, dark) => growthColour(growthStep(node.growth), dark), legend: growthInColour},
  kept: {words: ofPages ? 'what was never returned' : 'what was never freed', keys: ['liveCount', 'blocks'],
    figure: (site, key) => key === 'blocks' ? blocksOf(site) : figures.bySite[site].liveCount,
    of: (node, dark) => keptColour(node.blocks > 0 ? node.liveCount / node.blocks : node.liveCount ? 1 : 0, dark),
    legend: dark => [0, 0.5, 1].map(part => [keptColour(part, dark), `${100 * part} % of its ${ofPages ? 'pages are resident' : 'blocks are live'} at the end`])},
  age: {words: `age of what is still ${LIVE}`, keys: ['survived', 'age'], figure: (site, key) => key === 'age' ? ageOf(site) : figures.bySite[site].survived,
    of: (node, dark) => node.survived > 0 ? ageColour(ageStep(node.age / node.survived), dark) : hatching(dark), legend: agesInColour},
};
/* When what survived was allocated is known from single events. */
if (comparing || !data.kept.survivors) delete TINT.age;

/* ---- growth: its share of all that grew in the window, or of all that shrank. Of a capture from the start of a program all
 * grows, if it is compared with what it was; most of it by next to nothing. */

const GROWTH_STEPS = [0.5, 0.1, 0.01, 0];
let growthOf = {figures: null, more: 0, less: 0};
function allGrowth() {
  if (growthOf.figures === figures) return growthOf;
  growthOf = {figures, more: 0, less: 0};
  for (const {growth} of figures.bySite) growthOf[growth > 0 ? 'more' : 'less'] += Math.abs(growth);
  return growthOf;
}
/* 1 to 4: grew by less and less; -1, -2: shrank; 0: neither. */
function growthStep(growth) {
  const {more, less} = allGrowth();
  if (growth > 0) return 1 + GROWTH_STEPS.findIndex(least => growth >= least * more);
  return growth < 0 ? -growth >= GROWTH_STEPS[1] * less ? -1 : -2 : 0;
}
function growthColour(step, dark) {
  if (!step) return dark ? '#3a4149' : '#d9dee4';
  const hue = step > 0 ? 30 : 212, strength = step > 0 ? [1, 0.6, 0.3, 0][step - 1] : [0.8, 0.2][-step - 1];
  return dark ? `hsl(${hue} ${8 + 64 * strength}% ${25 + 10 * strength}%)` : `hsl(${hue} ${50 + 42 * strength}% ${93 - 30 * strength}%)`;
}
function growthInColour(dark) {
  const {more, less} = allGrowth(), least = part => `${100 * part} % or more`;
  return [[1, `${least(GROWTH_STEPS[0])} of all that grew in the window, ${bytes(more)}`], [2, least(GROWTH_STEPS[1])], [3, least(GROWTH_STEPS[2])], [4, 'less'], [0, 'neither more nor less'],
    ...(less ? [[-1, `${least(GROWTH_STEPS[1])} of all that shrank, ${bytes(less)}`], [-2, 'less']] : [])].map(([step, words]) => [growthColour(step, dark), words]);
}

/* ---- age: how long before the end of the capture those bytes were allocated, on average, of the window's allocations that are
 * still live then. */

const AGE_STEPS = [0.75, 0.5, 0.25, 0.1, 0];
/* Bytes times age, from the middle of the step in which they were allocated. */
function ageOf(site) {
  const {s: steps, sb: left} = sites[site];
  let sum = 0;
  if (steps) steps.forEach((step, i) => { if (inPart(step)) sum += left[i] * (edges[bucketCount] - (edges[step] + edges[step + 1]) / 2); });
  return sum;
}
const ageStep = age => AGE_STEPS.findIndex(part => age >= part * edges[bucketCount]);
function ageColour(step, dark) {
  const strength = 1 - step / (AGE_STEPS.length - 1);
  return dark ? `hsl(280 ${10 + 40 * strength}% ${23 + 16 * strength}%)` : `hsl(280 ${35 + 35 * strength}% ${93 - 21 * strength}%)`;
}
function agesInColour(dark) {
  const words = AGE_STEPS.map((part, i) => i === AGE_STEPS.length - 1 ? 'younger' : `${seconds(part * edges[bucketCount])} or older`);
  words[0] += `, on average, at the end of the capture`;
  return [...words.map((text, step) => [ageColour(step, dark), text]), [null, `nothing is still ${LIVE}`]];
}

/* ---- what was never freed, modules */

/* A block that is reallocated is one. */
function blocksOf(site) {
  const {b: steps, r: reallocations} = sites[site], {allocations} = figures.bySite[site];
  return reallocations ? allocations - steps.reduce((sum, step, i) => sum + (inPart(step) ? reallocations[i] : 0), 0) : allocations;
}

const keptColour = (part, dark) => {
  const strength = Math.max(0, Math.min(1, part));
  return dark ? `hsl(350 ${8 + 42 * strength}% ${24 + 13 * strength}%)` : `hsl(350 ${8 + 77 * strength}% ${88 - 15 * strength}%)`;
};
/* Modules have colours in the order of their weight, so that those of the largest differ. */
const MODULE_HUES = [30, 212, 130, 275, 55, 180, 340, 95];
let moduleRanks = null;
function rankModules() {
  const by = new Map(groups.map(({module}) => [module, 0]));
  sites.forEach((_, site) => {
    const path = foldedPath[nodeOf[site]], module = path ? groups[paths.group[path]].module : null;
    by.set(module, (by.get(module) || 0) + Math.abs(weight(site)));
  });
  by.delete(null);
  moduleRanks = new Map([...by].sort((a, b) => b[1] - a[1]).map(([module], i) => [module, i]));
}
function moduleColour(module, dark) {
  if (!moduleRanks) rankModules();
  const hue = MODULE_HUES[moduleRanks.get(module)];
  if (hue === undefined) return dark ? '#3a4149' : '#d9dee4';
  return dark ? `hsl(${hue} 40% 32%)` : `hsl(${hue} 70% 76%)`;
}
function modulesInColour(dark) {
  if (!moduleRanks) rankModules();
  const first = [...moduleRanks.keys()].slice(0, MODULE_HUES.length);
  return [...first.map(module => [moduleColour(module, dark), brief(base(module), 40)]), [moduleColour(null, dark), 'others']];
}
function drawFlameLegend() {
  if (inTwo()) return;
  const dark = isDark(), list = TINT[view.colour] ? TINT[view.colour].legend(dark) :
    [[dark ? 'hsl(36 48% 35%)' : 'hsl(36 80% 74%)', 'the program'], [dark ? 'hsl(210 8% 32%)' : 'hsl(210 12% 84%)', 'library frames']];
  $('flame-legend').replaceChildren(...list.map(([colour, words]) => legendItem(colour, words)));
}
for (const [key, {words}] of [['name', {words: 'name'}], ...Object.entries(TINT)]) $('colour').append(make('option', {value: key, textContent: words}));

