/* ---------------------------------------------------------------- template instances as one function
 *
 * Functions of a module that differ in template arguments alone, as std::vector<int>::push_back and
 * std::vector<char>::push_back, become one group, the first of them; paths that then look alike become one path. What is
 * counted by path or group follows. */

const alone = {groups, groupOf, searchable, rawPath, foldedPath, parent: paths.parent, group: paths.group, pathBelow, pathBeside, layers: strip.byLayers.function};
let merged = null;
/* For each group the one that it becomes part of. */
function groupsOfInstances() {
  const first = new Map(), becomes = new Int32Array(groups.length), members = new Map();
  groups.forEach(({frame, name, module}, g) => {
    const words = frames.function[frame] >= 0 && name.includes('<') ? withoutArguments(name) : '';
    becomes[g] = g;
    if (!words.includes('<...>')) return;
    const key = comparing ? words : `${words}/${module}`, known = first.get(key);
    if (known === undefined) { first.set(key, g); return; }
    becomes[g] = known;
    if (!members.has(known)) members.set(known, [known]);
    members.get(known).push(g);
  });
  return {becomes, members};
}
/* For each path the one that it becomes: the lowest of those that look alike, so that it is still higher than its parent's.
 * Only paths with an instance in them may; those are in a table of what they become part of. */
function pathsOfInstances(becomes, members) {
  const {parent, group} = alone, {length} = parent, becomesPath = new Int32Array(length), within = new Uint8Array(length), one = new Uint8Array(groups.length);
  for (const list of members.values()) for (const g of list) one[g] = 1;
  const table = new Int32Array(2 ** Math.ceil(Math.log2(2 * length + 2))), mask = table.length - 1;
  for (let path = 1; path < length; path++) {
    const above = becomesPath[parent[path]], g = becomes[group[path]];
    becomesPath[path] = path;
    within[path] = within[parent[path]] | one[group[path]];
    if (!within[path]) continue;
    let slot = (Math.imul(above, 0x9e3779b1) ^ Math.imul(g, 0x85ebca6b)) >>> 7 & mask;
    for (let known; (known = table[slot]); slot = slot + 1 & mask)
      if (becomesPath[parent[known]] === above && becomes[group[known]] === g) { becomesPath[path] = known; break; }
    if (becomesPath[path] === path) table[slot] = path;
  }
  return becomesPath;
}
const through = (list, by) => {
  const out = new Int32Array(list.length);
  for (let i = 0; i < out.length; i++) out[i] = by[list[i]];
  return out;
};
function mergeInstances() {
  const {becomes, members} = groupsOfInstances(), becomesPath = pathsOfInstances(becomes, members), {parent, group} = alone;
  const sets = {groups: groups.slice(), searchable: searchable.slice(), groupOf: through(groupOf, becomes), rawPath: through(rawPath, becomesPath),
    foldedPath: through(foldedPath, becomesPath), parent: through(parent, becomesPath), group: through(group, becomes), becomes};
  /* The root is no function. */
  sets.group[0] = -1;
  for (const [g, list] of members) {
    const {frame, name, module, kind} = groups[g], words = withoutArguments(name);
    sets.groups[g] = new FunctionGroup({frame, name: `${words} (${list.length} template instances)`, module, kind, base: words});
    sets.searchable[g] = joinedText(list.map(one => searchable[one]));
  }
  return Object.assign(sets, linkPaths(sets.parent, path => becomesPath[path] === path));
}
function setMerged(on) {
  view.merged = on;
  if (on) merged ||= mergeInstances();
  const sets = on ? merged : alone;
  ({groups, groupOf, searchable, rawPath, foldedPath, pathBelow, pathBeside} = sets);
  Object.assign(paths, {parent: sets.parent, group: sets.group});
  strip.byLayers.function = sets.layers ||= stripSeries().layers;
  strip.layers = strip.byLayers[view.layers];
  for (const map of colours) map.clear();
  chosen = shownGroup(chosen);
  for (const key in chains) chains[key] = chains[key].map(chain => chain.map(shownGroup));
}
/* The group that is shown for a group. */
const shownGroup = group => view.merged && group >= 0 && group < groups.length ? merged.becomes[group] : group;

/* ---------------------------------------------------------------- the controls of names */

function setNames(step, together) {
  if (step === view.names && together === view.merged) return;
  view.names = step;
  if (together !== view.merged) setMerged(together);
  for (const layer of strip.byLayers.function) if (layer.group >= 0) layer.label = groups[layer.group].short;
  drawStrip();
  drawLegend();
}
{
  for (const [key, {words}] of Object.entries(NAME_STEPS)) $('names').append(make('option', {value: key, textContent: words}));
  for (const id of ['names', 'merge']) $(id).onchange = () => {
    const {merged: before} = view;
    setNames($('names').value, $('merge').checked);
    /* Figures of stacks that look alike are of other stacks. */
    if (inTwo() && before !== view.merged) refresh();
    else if (tab === 'flame' && before === view.merged) relabelFlame();
    else TABS[tab][1]();
    remember();
  };
}
