/* ---------------------------------------------------------------- the trees that flame graphs show */

/* Paths below each path that is kept: the first, and the next beside it. */
function linkPaths(parent, kept = () => true) {
  const pathBelow = new Int32Array(parent.length), pathBeside = new Int32Array(parent.length);
  for (let path = parent.length - 1; path > 0; path--) {
    if (!kept(path)) continue;
    pathBeside[path] = pathBelow[parent[path]];
    pathBelow[parent[path]] = path;
  }
  return {pathBelow, pathBeside};
}
let {pathBelow, pathBeside} = linkPaths(paths.parent);
/* The weight of stacks that end in each path, and what colours are made of; for two heaps the figure of each. Shrinking sites have
 * no weight; for two heaps the larger figure counts, whatever its sign. */
function pathShares(kept = graphSites()) {
  const zeros = () => new Float64Array(paths.parent.length), shares = {weight: zeros()}, {keys, figure} = inTwo() || !TINT[view.colour] ? {keys: inTwo() ? SIDES : []} : TINT[view.colour];
  for (const key of keys) shares[key] = zeros();
  sites.forEach((_, site) => {
    if (kept && !kept(site)) return;
    const path = pathOf(site), one = figures.bySite[site];
    for (const key of keys) shares[key][path] += figure ? figure(site, key) : one[key];
    if (!inTwo()) shares.weight[path] += Math.max(0, weight(site));
  });
  if (inTwo()) shares.weight.forEach((_, path) => { shares.weight[path] = Math.max(Math.abs(shares.old[path]), Math.abs(shares.new[path])); });
  return shares;
}
/* A node of a call tree of groups, with its shares. Its children are made when they are asked for, since few of many are
 * drawn: the widest first. The root has reach(node): a flag for each path, whether its stacks are part of a node. */
class TreeNode {
  constructor(group, parent, grow) {
    Object.assign(this, {group, parent, grow, made: null, weight: 0});
  }
  take(shares, path) {
    for (const key in shares) this[key] = (this[key] || 0) + shares[key][path];
    return this;
  }
  get children() {
    if (!this.made) this.made = this.grow(this).sort((a, b) => b.weight - a.weight);
    return this.made;
  }
}
/* The group of what was allocated by unknown stacks, which have no frame. */
const NO_STACK = -2;
const UNKNOWN_STACKS = 'No frame of these stacks is in the trace: they could not be walked, or what describes them was lost.';
const unknownBelow = (root, shares) => shares.weight[0] ? [new TreeNode(NO_STACK, root, () => []).take(shares, 0)] : [];
function buildTree() {
  return view.direction === 'down' ? treeDown() : treeUp();
}
function addToParents(list) {
  const {parent} = paths;
  for (let path = list.length - 1; path > 0; path--) list[parent[path]] += list[path];
}
/* Flags of all paths below those that are set. */
function flagBelow(within) {
  for (let path = 1; path < within.length; path++) if (within[paths.parent[path]]) within[path] = 1;
  return within;
}
function treeDown() {
  const own = pathShares(), shares = {};
  for (const key in own) {
    shares[key] = own[key].slice();
    addToParents(shares[key]);
  }
  const grow = node => {
    const list = node.path ? [] : unknownBelow(node, own);
    for (let path = pathBelow[node.path]; path; path = pathBeside[path])
      if (shares.weight[path]) list.push(Object.assign(new TreeNode(paths.group[path], node, grow).take(shares, path), {path}));
    return list;
  };
  const reach = node => {
    const within = new Uint8Array(paths.parent.length);
    within[node.path] = 1;
    return flagBelow(within);
  };
  return Object.assign(new TreeNode(-1, null, grow).take(shares, 0), {path: 0, reach});
}
/* Nodes have ends: the paths from which they were reached; at: how far up each has come. */
const growUp = shares => {
  const grow = node => {
    const below = new Map();
    node.ends.forEach((end, i) => {
      const at = node.at[i];
      if (!at) return;
      const group = paths.group[at];
      let next = below.get(group);
      if (!next) below.set(group, next = Object.assign(new TreeNode(group, node, grow), {ends: [], at: []}));
      next.take(shares, end);
      next.ends.push(end);
      next.at.push(paths.parent[at]);
    });
    return [...below.values()];
  };
  return grow;
};
function rootAbove(group, shares, grow, ends, at) {
  const root = Object.assign(new TreeNode(group, null, grow), {ends, at});
  for (const end of ends) root.take(shares, end);
  return root;
}
const flagged = list => {
  const within = new Uint8Array(paths.parent.length);
  for (const path of list) within[path] = 1;
  return within;
};
/* Paths that have weight, and of which `keep` says so. */
function weighted(shares, keep = () => true) {
  const list = [], {weight: weights} = shares;
  for (let path = 0; path < weights.length; path++) if (weights[path] && keep(path)) list.push(path);
  return list;
}
function treeUp() {
  const shares = pathShares(), ends = weighted(shares), grow = growUp(shares);
  const root = rootAbove(-1, shares, node => [...grow(node), ...unknownBelow(node, shares)], ends, ends);
  return Object.assign(root, {reach: node => flagged(node.ends)});
}
/* Callers and callees of a function, merged over all places where it occurs. A stack counts once, however often the
 * function calls itself: callers are those of its outermost frame, callees those of its innermost one. */
function treesAround(group, kept = graphSites()) {
  const own = pathShares(kept), {parent, group: groupAt} = paths, size = parent.length, above = {}, below = {};
  const outermost = new Int32Array(size);
  for (let path = 1; path < size; path++) outermost[path] = outermost[parent[path]] || (groupAt[path] === group ? path : 0);
  for (const key in own) {
    const list = own[key], up = above[key] = new Float64Array(size), down = below[key] = list.slice();
    for (let path = size - 1; path > 0; path--) {
      if (outermost[path]) up[outermost[path]] += list[path];
      if (groupAt[path] !== group) down[parent[path]] += down[path];
    }
  }
  const outer = weighted(above), callers = rootAbove(group, above, growUp(above), outer, outer.map(path => parent[path]));
  const callees = rootBelow(group, below, weighted(below, path => groupAt[path] === group));
  callers.reach = node => {
    const within = flagged(node.ends);
    return outermost.map(path => path ? within[path] : 0);
  };
  callees.reach = node => {
    const within = flagged(node.list);
    for (let path = 1; path < size; path++) if (groupAt[path] !== group && within[parent[path]]) within[path] = 1;
    return within;
  };
  return {callers, callees, passes: outermost};
}
/* Nodes have list: the paths that are merged in them. */
function rootBelow(group, shares, list) {
  const grow = node => {
    const below = new Map();
    for (const above of node.list)
      for (let path = pathBelow[above]; path; path = pathBeside[path]) {
        const one = paths.group[path];
        if (one === group || !shares.weight[path]) continue;
        let next = below.get(one);
        if (!next) below.set(one, next = Object.assign(new TreeNode(one, node, grow), {list: []}));
        next.take(shares, path).list.push(path);
      }
    return [...below.values()];
  };
  const root = Object.assign(new TreeNode(group, null, grow), {list});
  for (const path of list) root.take(shares, path);
  return root;
}
/* The sites of which a node is part. */
function sitesOf(node) {
  let root = node;
  while (root.parent) root = root.parent;
  const within = root.reach(node), own = [];
  for (let site = 0; site < sites.length; site++) if (within[pathOf(site)]) own.push(site);
  return own;
}
