/* ---------------------------------------------------------------- a flame graph on a canvas
 *
 * chains: of each graph the places that were zoomed in on, one after the other, each as the groups from the root down;
 * they stay when figures change. parts: how much of the width of what is zoomed in on can be seen, from 0 to 1. */
const chains = {down: [], up: [], callers: [], callees: []};
const parts = Object.fromEntries(Object.keys(chains).map(key => [key, [0, 1]]));
const ROW = 19, NARROWEST_PART = 1e-5;

/* Stands for the children of a node that are too small to be drawn. */
const SMALLER = -3;
const noGroup = node => node.group === SMALLER ? `+${plural(node.many, 'smaller frame')}` : node.group === NO_STACK ? nameOf(-1) : 'all';
const labelOf = node => node.group < 0 ? noGroup(node) : brief(groups[node.group].name, 2 * LONGEST);
const shortOf = node => node.group < 0 ? noGroup(node) : groups[node.group].short;
/* A name always has the same colour: warm for the program, grey for noise. */
const colours = [new Map(), new Map()];
function colourOf(node, dark) {
  if (node.group === SMALLER) return hatching(dark);
  if (inTwo()) return changeColour(node, dark);
  if (node.group >= 0 && TINT[view.colour]) return TINT[view.colour].of(node, dark);
  let colour = colours[+dark].get(node.group);
  if (!colour) colours[+dark].set(node.group, colour = makeColour(node, dark));
  return colour;
}
const foundColour = dark => dark ? '#7a3cc2' : '#d9a6ff';
/* Stripes: what is not known is no code of its own. */
const hatchings = [];
const hatching = dark => hatchings[+dark] ||= makeHatching(dark);
function makeHatching(dark) {
  const tile = make('canvas', {width: 8, height: 8}), context = tile.getContext('2d');
  context.fillStyle = dark ? '#3a4149' : '#e3e7ec';
  context.fillRect(0, 0, 8, 8);
  context.strokeStyle = dark ? '#4d5661' : '#c8cfd7';
  context.lineWidth = 2;
  for (const x of [-4, 0, 4, 8]) {
    context.beginPath();
    context.moveTo(x - 1, 9);
    context.lineTo(x + 9, -1);
    context.stroke();
  }
  return context.createPattern(tile, 'repeat');
}
function makeColour(node, dark) {
  if (node.group === NO_STACK) return hatching(dark);
  if (node.group < 0) return dark ? '#3a4149' : '#d9dee4';
  const {name, kind} = groups[node.group];
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  if (kind !== FOLD.program) return dark ? `hsl(210 8% ${28 + hash % 8}%)` : `hsl(210 12% ${80 + hash % 8}%)`;
  return dark ? `hsl(${18 + hash % 36} 48% ${30 + hash % 10}%)` : `hsl(${18 + hash % 36} 80% ${68 + hash % 12}%)`;
}
/* How wide a text is, as the sum of its characters: labels are many, and kerning is little. */
const widths = new Map();
function widthOf(context, text) {
  let sum = 0;
  for (let i = 0; i < text.length; i++) {
    let width = widths.get(text[i]);
    if (width === undefined) widths.set(text[i], width = context.measureText(text[i]).width);
    sum += width;
  }
  return sum;
}
/* The label of a frame, of which the change comes first, if there is one. */
function fitLabel(context, node, room) {
  const measure = text => widthOf(context, text), name = shortOf(node);
  if (!inTwo() || node.group === SMALLER) return fitName(name, room, measure);
  const change = changeLabel(node), left = room - measure(`${change} `);
  /* A part of a figure would be another one. */
  if (left < measure('…')) return measure(change) <= room ? change : '';
  return `${change} ${fitName(name, left, measure)}`;
}
/* One line above the graphs has room for it, or not. */
const sayFrames = words => Object.assign($('flame-words'), {textContent: words, title: words});
const isDark = () => document.documentElement.classList.contains('dark');

/* The frames of a tree that are to be drawn: `top` and what is below it, and those above it over the whole width. */
function layTree(top, width, [from, to]) {
  const path = [], rects = [];
  let deepest = 0;
  for (let node = top.parent; node; node = node.parent) path.unshift(node);
  path.forEach((node, row) => rects.push({node, x: 0, w: width, row}));
  const scale = 1 / (to - from);
  const todo = top.weight > 0 ? [{node: top, x: -from * scale * width, w: width * scale, row: path.length}] : [];
  while (todo.length) {
    const rect = todo.pop(), {children} = rect.node;
    rects.push(rect);
    if (rect.row > deepest) deepest = rect.row;
    let x = rect.x, i = 0;
    for (; i < children.length && x < width; i++) {
      const child = children[i], w = rect.w * child.weight / rect.node.weight;
      if (w < 0.75) break; /* sorted: the rest is smaller still */
      if (x + w > 0) todo.push({node: child, x, w, row: rect.row + 1});
      x += w;
    }
    if (i < children.length && x < width) smallerThan(rect, x, children, i);
  }
  return {rects, width, above: path.length, rows: Math.max(deepest + 1, path.length)};
  function smallerThan(rect, x, children, first) {
    let weight = 0;
    for (let i = first; i < children.length; i++) weight += children[i].weight;
    const w = rect.w * weight / rect.node.weight, node = Object.assign(new TreeNode(SMALLER, rect.node, () => []), {weight, many: children.length - first});
    if (w < 3 || x + w < 0) return;
    rects.push({node, x, w, row: rect.row + 1});
    deepest = Math.max(deepest, rect.row + 1);
  }
}
/* The nearest node below with that group: library frames may have come or gone between. */
function nearestBelow(node, group) {
  for (let level = node.children; level.length; level = level.flatMap(one => one.children)) {
    const found = level.find(one => one.group === group);
    if (found) return found;
  }
  return null;
}
function chainOf(node) {
  const chain = [];
  for (; node.parent; node = node.parent) chain.unshift(node.group);
  return chain;
}

/* key(): which of the chains and parts are its own; upward: the root is at the bottom; drawn(found): is called after it was
 * drawn, with the number of frames that the search has found. */
class Graph {
  constructor(canvas, {key, upward = false, drawn}) {
    Object.assign(this, {canvas, key, upward, drawn, root: null, zoom: [], last: 0, focus: null, rects: [], width: 0, above: 0, rows: 0, dragged: false, dragging: false});
    this.listen();
  }
  get top() { return this.zoom[this.zoom.length - 1] || this.root; }
  get part() { return parts[this.key()]; }
  get changed() { return this.zoom.length > 0 || this.part[0] > 0 || this.part[1] < 1; }
  show(root) {
    this.root = root;
    this.applyZoom();
    this.draw();
  }
  /* Lays out the visible frames; the canvas is as high as they need. */
  draw(lay = true) {
    const {canvas} = this, context = canvas.getContext('2d'), scale = devicePixelRatio || 1;
    if (lay) Object.assign(this, layTree(this.top, printing ? PRINTED_WIDTH : canvas.clientWidth || 800, this.part));
    const wide = Math.round(this.width * scale), high = Math.round(this.rows * ROW * scale);
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.height = `${this.rows * ROW}px`;
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, this.rows * ROW);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const dark = isDark(), ink = dark ? '#eef1f4' : '#1a1d21';
    const about = wantedTerms().length > 0;
    let found = 0;
    for (const rect of this.rects) if (this.drawFrame(context, rect, {dark, ink, about})) found++;
    this.drawn(found);
  }
  /* Whether the search has found it. */
  drawFrame(context, rect, {dark, ink, about}) {
    const {node, x, w} = rect, y = this.heightOf(rect);
    const hit = isLit(node.group);
    context.fillStyle = hit ? foundColour(dark) : colourOf(node, dark);
    context.globalAlpha = rect.row < this.above || (about && !hit) ? 0.55 : 1;
    context.fillRect(x, y, Math.max(0.5, w - 0.5), ROW - 1);
    context.globalAlpha = 1;
    if (node === this.focus) {
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, w - 2.5), ROW - 3);
    }
    const begin = Math.max(0, x), wide = Math.min(this.width, x + w) - begin;
    if (wide > 34) {
      context.fillStyle = ink;
      context.fillText(fitLabel(context, node, wide - 6), begin + 3, y + ROW / 2, wide - 4);
    }
    return hit;
  }
  heightOf({row}) { return (this.upward ? this.rows - 1 - row : row) * ROW; }
  rectAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    return this.rects.find(r => y >= this.heightOf(r) && y < this.heightOf(r) + ROW && x >= r.x && x < r.x + r.w);
  }
  describe(node) {
    const {format} = METRICS[view.metric];
    if (inTwo() && node.group !== SMALLER) return `${labelOf(node)}: ${changeInWords(node)}`;
    return `${labelOf(node)}: ${format(node.weight)}, ${percent(node.weight, this.root.weight)}`;
  }

  nodeAt(chain) {
    let node = this.root;
    chain.forEach((group, i) => {
      const next = node && (nearestBelow(node, group) || (i + 1 < chain.length ? node : null));
      node = next;
    });
    return node === this.root ? null : node;
  }
  /* Zooms in on what the chains name, as far as the present tree has it. */
  applyZoom() {
    this.zoom = chains[this.key()].map(chain => this.nodeAt(chain)).filter((node, i, all) => node && node !== all[i - 1]);
    this.focus = this.zoom[this.zoom.length - 1] || null;
  }
  zoomTo(node) {
    if (node.group === SMALLER) { this.zoomTo(node.parent); return; }
    if (node === this.top) return;
    chains[this.key()].push(chainOf(node));
    parts[this.key()] = [0, 1];
    this.zoom.push(node);
    this.focus = node;
    this.last = performance.now();
    this.draw();
    remember();
  }
  /* Chains of which the present tree has nothing go with the one before. */
  zoomBack() {
    const own = chains[this.key()], {length} = this.zoom;
    if (!this.changed) return;
    const [from, to] = this.part;
    parts[this.key()] = [0, 1];
    while (from === 0 && to === 1 && own.length && this.zoom.length >= length) {
      own.pop();
      this.applyZoom();
    }
    this.focus = this.top;
    this.draw();
    remember();
  }
  zoomOut() {
    chains[this.key()] = [];
    parts[this.key()] = [0, 1];
    this.applyZoom();
    this.draw();
    remember();
  }

  /* Shows this part of the width of what is zoomed in on, moved if it lies outside. */
  showPart(from, wide) {
    const width = Math.max(NARROWEST_PART, Math.min(1, wide)), begin = Math.max(0, Math.min(1 - width, from));
    parts[this.key()] = [begin, begin + width];
    this.draw();
    rememberPart();
  }
  scaleAt(x, factor) {
    const [from, to] = this.part, at = x / this.width, wide = Math.max(NARROWEST_PART, Math.min(1, (to - from) / factor));
    this.showPart(from + at * (to - from) - at * wide, wide);
  }
  panBy(pixels) {
    const [from, to] = this.part;
    this.showPart(from + pixels / this.width * (to - from), to - from);
  }

  focusOn(node) {
    this.focus = node;
    const [from, to] = this.part, [begin, end] = this.spanOf(node);
    /* What is wider than the part is seen anyway. */
    if (begin >= to || end <= from || end - begin < to - from && (begin < from || end > to)) this.showPart(Math.max(0, (begin + end - (to - from)) / 2), to - from);
    else this.draw(false);
    this.scrollTo(node);
    sayFrames(this.describe(node));
  }
  /* Shows a part of the whole graph, and zooms out as far as it takes. */
  showRange(from, to) {
    const contains = node => { const [a, b] = this.spanOf(node, this.root); return from >= a - 1e-9 && to <= b + 1e-9; };
    let top = this.top;
    while (top.parent && !contains(top)) top = top.parent;
    if (top !== this.top) {
      const above = new Set();
      for (let node = top; node.parent; node = node.parent) above.add(node);
      this.zoom = this.zoom.filter(node => above.has(node) && node !== top);
      if (top.parent) this.zoom.push(top);
      chains[this.key()] = this.zoom.map(chainOf);
      this.focus = top;
    }
    const [begin, end] = this.spanOf(top, this.root);
    this.showPart((from - begin) / (end - begin), (to - from) / (end - begin));
  }
  /* From where to where a node lies within one above it: 0 to 1 if it is not below that. */
  spanOf(node, above = this.top) {
    let from = 0, wide = 1;
    for (let at = node; at !== above; at = at.parent) {
      if (!at.parent) return [0, 1];
      for (const one of at.parent.children) {
        if (one === at) break;
        from += one.weight / at.weight;
      }
      from *= at.weight / at.parent.weight;
      wide *= at.weight / at.parent.weight;
    }
    return [from, from + wide];
  }
  /* Where the canvas is higher than what can be seen of it. */
  scrollTo(node) {
    const rect = this.rects.find(one => one.node === node);
    if (!rect) return;
    const pane = this.canvas.closest('.pane:not(.low)'), box = this.canvas.getBoundingClientRect(), y = box.top + this.heightOf(rect);
    const [low, high] = pane ? [pane.getBoundingClientRect().top, pane.getBoundingClientRect().bottom] : [$('strip').getBoundingClientRect().bottom, innerHeight];
    const by = y < low ? y - low - ROW : y + ROW > high ? y + 2 * ROW - high : 0;
    if (by) (pane || window).scrollBy(0, by);
  }
  keyed(event) {
    const node = this.focus || this.root, [inner, outer] = this.upward ? ['ArrowUp', 'ArrowDown'] : ['ArrowDown', 'ArrowUp'];
    const siblings = node.parent ? node.parent.children : [node], at = siblings.indexOf(node);
    let next = null;
    switch (event.key) {
    case inner: next = node.children[0]; break;
    case outer: next = node.parent; break;
    case 'ArrowLeft': next = siblings[at - 1]; break;
    case 'ArrowRight': next = siblings[at + 1]; break;
    case 'Home': next = this.root; break;
    case 'Enter': this.zoomTo(node); break;
    case 'Backspace': case 'Escape': this.zoomBack(); break;
    case '+': case '-': this.scaleAt(this.width / 2, event.key === '+' ? 1.5 : 1 / 1.5); break;
    case 'f': if (node.group >= 0) showFunction(node.group); break;
    case 's': if (node.group >= 0) showSandwich(node.group); break;
    case 'p': pin(this, node); break;
    default: return;
    }
    event.preventDefault();
    if (next) this.focusOn(next);
  }
  pointed(event) {
    const rect = this.rectAt(event), tip = $('tip');
    tip.hidden = !rect || this.dragging;
    if (tip.hidden) return;
    const {node} = rect, group = groups[node.group], lines = [make('p', {textContent: this.describe(node)})];
    if (node.group === NO_STACK) lines.push(make('p', {class: 'where', textContent: UNKNOWN_STACKS}));
    if (group) lines.push(make('p', {class: 'where', textContent: brief(frameFile(group.frame) ? `${frameFile(group.frame)}:${frames.line[group.frame]}` : group.module || '')}));
    showTip(event, ...lines);
  }
  listen() {
    const {canvas} = this;
    canvas.addEventListener('mousemove', event => this.pointed(event));
    canvas.addEventListener('mouseleave', () => { $('tip').hidden = true; });
    canvas.addEventListener('click', event => {
      const rect = this.rectAt(event);
      if (rect && !this.dragged) this.zoomTo(rect.node);
    });
    canvas.addEventListener('dblclick', event => { const rect = this.rectAt(event); if (rect && rect.node.group >= 0) showFunction(rect.node.group); });
    canvas.addEventListener('keydown', event => { if (!event.ctrlKey && !event.metaKey && !event.altKey) this.keyed(event); });
    canvas.addEventListener('contextmenu', event => {
      const rect = this.rectAt(event);
      if (!rect || rect.node.group < 0) return;
      event.preventDefault();
      pin(this, rect.node, event.clientX, event.clientY);
    });
    /* Without a key the wheel scrolls the page. */
    canvas.addEventListener('wheel', event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.scaleAt(event.clientX - canvas.getBoundingClientRect().left, Math.exp(-event.deltaY * 0.003));
    }, {passive: false});
    this.listenToPointers();
  }
  /* One pointer moves what is wider than the canvas; two fingers widen it. */
  listenToPointers() {
    const {canvas} = this, down = new Map();
    canvas.addEventListener('pointerdown', event => {
      if (!down.size) this.dragged = false;
      if (event.button === 0) down.set(event.pointerId, event.clientX);
    });
    canvas.addEventListener('pointermove', event => {
      const before = down.get(event.pointerId), other = [...down].find(([id]) => id !== event.pointerId);
      if (before === undefined || !other && (this.part[1] - this.part[0] === 1 || !this.dragging && Math.abs(event.clientX - before) < 4)) return;
      this.dragging = this.dragged = true;
      canvas.setPointerCapture(event.pointerId);
      if (other) {
        const apart = Math.max(10, Math.abs(event.clientX - other[1])), was = Math.max(10, Math.abs(before - other[1]));
        this.scaleAt((event.clientX + other[1]) / 2 - canvas.getBoundingClientRect().left, apart / was);
      } else {
        this.panBy(before - event.clientX);
      }
      down.set(event.pointerId, event.clientX);
    });
    for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, event => {
      down.delete(event.pointerId);
      this.dragging = down.size > 0 && this.dragging;
    });
  }
}
