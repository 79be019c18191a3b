/* ---------------------------------------------------------------- the whole graph, above what can be seen of it
 *
 * It repeats what the graph shows and what its keys do: a pointer alone needs it. It keeps its place where all can be seen,
 * as what is below would jump under the pointer that widens it. */
const minimapHeight = rows => Math.min(3 * rows, innerWidth < 700 ? 16 : 32);

class Minimap {
  constructor(graph, canvas) {
    Object.assign(this, {graph, canvas, whole: document.createElement('canvas'), drawnFor: '', root: null, grip: null});
    this.listen();
  }
  /* The part of the whole graph that can be seen, from 0 to 1. */
  range() {
    const {graph} = this, [from, to] = graph.spanOf(graph.top, graph.root), [begin, end] = graph.part;
    return [from + begin * (to - from), from + end * (to - from)];
  }
  draw() {
    const {graph, canvas} = this, context = canvas.getContext('2d'), scale = devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.style.visibility = graph.changed ? '' : 'hidden';
    if (!graph.changed) {
      canvas.style.height = `${minimapHeight(graph.rows)}px`;
      return;
    }
    this.drawWhole(width, scale);
    canvas.width = this.whole.width;
    canvas.height = this.whole.height;
    canvas.style.height = `${this.whole.height / scale}px`;
    const style = getComputedStyle(document.documentElement), high = canvas.height / scale, [from, to] = this.range();
    const left = from * width, wide = Math.max(2, (to - from) * width);
    context.drawImage(this.whole, 0, 0);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = style.getPropertyValue('--veil');
    context.fillRect(0, 0, left, high);
    context.fillRect(left + wide, 0, width, high);
    context.strokeStyle = style.getPropertyValue('--accent');
    context.lineWidth = 2;
    context.strokeRect(Math.min(width - 3, Math.max(1, left)), 1, Math.max(2, Math.min(wide, width - 2)), high - 2);
  }
  /* It stays the same while the part moves. */
  drawWhole(width, scale) {
    const {graph, whole} = this, dark = isDark(), state = [width, scale, dark, view.find, view.colour].join();
    if (graph.root === this.root && state === this.drawnFor) return;
    Object.assign(this, {root: graph.root, drawnFor: state});
    const {rects, rows} = layTree(graph.root, width, [0, 1]), high = minimapHeight(rows) / rows, context = whole.getContext('2d');
    whole.width = Math.round(width * scale);
    whole.height = Math.round(minimapHeight(rows) * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    for (const {node, x, w, row} of rects) {
      const hit = isLit(node.group);
      context.fillStyle = hit ? foundColour(dark) : colourOf(node, dark);
      context.fillRect(x, row * high, Math.max(0.5, w - 0.25), high);
    }
  }
  listen() {
    const {canvas} = this, at = event => (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
    canvas.addEventListener('pointerdown', event => {
      if (event.button !== 0) return;
      const [from, to] = this.range(), x = at(event);
      canvas.setPointerCapture(event.pointerId);
      /* Beside the part: its middle comes there. */
      this.grip = x < from || x > to ? (to - from) / 2 : x - from;
      this.moveTo(x - this.grip);
    });
    canvas.addEventListener('pointermove', event => { if (this.grip !== null) this.moveTo(at(event) - this.grip); });
    for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => { this.grip = null; });
  }
  moveTo(from) {
    const [begin, end] = this.range(), wide = end - begin, at = Math.max(0, Math.min(1 - wide, from));
    this.graph.showRange(at, at + wide);
  }
}
