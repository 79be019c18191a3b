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
/* For each path the one that it becomes: the lowest of those that look alike, so that it is still higher than its parent's. */
function pathsOfInstances(becomes) {
  const {length} = paths.parent, becomesPath = new Int32Array(length), more = new Int32Array(length);
  const seen = new Int32Array(groups.length).fill(-1), head = new Int32Array(groups.length), low = new Int32Array(groups.length), todo = [0];
  while (todo.length) {
    const node = todo.pop(), found = [];
    /* `more` chains the paths of a node. */
    for (let member = node; member >= 0; member = more[member] - 1)
      for (let path = pathBelow[member]; path; path = pathBeside[path]) {
        const g = becomes[paths.group[path]], again = seen[g] === node;
        if (!again) { seen[g] = node; found.push(g); low[g] = path; }
        low[g] = Math.min(low[g], path);
        more[path] = again ? head[g] + 1 : 0;
        head[g] = path;
      }
    for (const g of found) {
      for (let path = head[g]; path >= 0; path = more[path] - 1) becomesPath[path] = low[g];
      /* A node is named by its lowest path: the chain begins there. */
      chainFrom(low[g], head[g], more);
      todo.push(low[g]);
    }
  }
  return becomesPath;
}
function chainFrom(first, head, more) {
  if (first === head) return;
  let before = head;
  while (more[before] - 1 !== first) before = more[before] - 1;
  more[before] = more[first];
  more[first] = head + 1;
}
function mergeInstances() {
  const {becomes, members} = groupsOfInstances(), becomesPath = pathsOfInstances(becomes), {parent, group} = alone;
  const sets = {groups: groups.slice(), searchable: searchable.slice(), groupOf: groupOf.map(g => becomes[g]),
    rawPath: rawPath.map(path => becomesPath[path]), foldedPath: foldedPath.map(path => becomesPath[path]),
    parent: parent.map(path => becomesPath[path]), group: group.map(g => g < 0 ? g : becomes[g]), becomes};
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
