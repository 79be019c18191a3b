/* ---------------------------------------------------------------- names of functions, whole and in part
 *
 * Depends on nothing but text: the page's other scripts come after it. */

/* A name of megabytes would bury what stands beside it. */
const LONGEST = 160;
function brief(name, most = LONGEST) {
  const half = Math.floor((most - 1) / 2);
  return name.length <= most ? name : `${name.slice(0, half)}…${name.slice(-half)}`;
}
/* What may follow a parameter list. */
const QUALIFIERS = /^( const| volatile| noexcept| &&?| \[[^\]]*\]|\.[\w.]+)*$/;
/* Without parameters: in C++ they are long, and seldom distinguish functions. Those within a name, as in
 * f(int)::<lambda(char)>, belong to it. */
function withoutParameters(name) {
  const end = name.lastIndexOf(')');
  if (end < 0 || !QUALIFIERS.test(name.slice(end + 1))) return name;
  let depth = 0, at = end;
  for (; at > 0; at--) {
    if (name[at] === ')') depth++;
    else if (name[at] === '(' && --depth === 0) break;
  }
  const cut = name.slice(0, at);
  return /[\w\])>}]$/.test(cut) && !cut.endsWith('operator') ? cut : name;
}

/* The operator that begins there, whose characters are no brackets; '': none does. */
const OPERATOR = /operator(?![A-Za-z0-9_])(?:\(\)|\[\]|<=>|->\*|<<=|>>=|->|<<|>>|&&|\|\||\+\+|--|[<>=!+\-*/%^&|]=|[<>=!+\-*/%^&|~,])?/y;
function operatorAt(name, at) {
  if (name[at] !== 'o' || /[A-Za-z0-9_]/.test(name[at - 1] || ' ')) return '';
  OPERATOR.lastIndex = at;
  return (OPERATOR.exec(name) || [''])[0];
}
/* Without parameters, and with `<...>` for template arguments: as limpet_demangle_shorten() in analyzer/symbols/demangle.c,
 * which names all cases; test/html/names.tsv holds for both. */
const LAMBDA = '<lambda';
function withoutArguments(name) {
  let out = '', depth = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name[i], operator = depth ? '' : operatorAt(name, i);
    if (operator) {
      out += operator;
      i += operator.length - 1;
      if (name[i + 1] === '(') {
        depth = 1;
        i++;
      } else if (name.startsWith(' <', i + 1)) {
        out += ' <...>';
        depth = 1;
        i += 2;
      }
    } else if (depth) {
      if (c === '<' || c === '(') depth++;
      else if (c === ')' || c === '>' && name[i - 1] !== '-') depth--;
    } else if (c === '<' && name.startsWith(LAMBDA, i)) {
      out += `${LAMBDA}>`;
      depth = 1;
    } else if (c === '<' && out && !/[ (]$/.test(out)) {
      out += '<...>';
      depth = 1;
    } else if (c === '(' && /[A-Za-z0-9_>})\]]$/.test(out)) {
      depth = 1;
    } else {
      out += c;
    }
  }
  return out.endsWith(' const') && out.length > 6 ? out.slice(0, -6) : out;
}

/* Where a name has `separator` outside of brackets and operators. What follows `operator ` is a type, or new. */
function splitName(name, separator) {
  const parts = [];
  let depth = 0, begin = 0;
  for (let i = 0; i < name.length; i++) {
    const operator = operatorAt(name, i);
    if (operator) {
      i += operator.length - 1;
      if (name[i + 1] === ' ' && operator === 'operator') break;
    } else if ('<([{'.includes(name[i])) {
      depth++;
    } else if (')]}'.includes(name[i]) || name[i] === '>' && name[i - 1] !== '-') {
      depth = Math.max(0, depth - 1);
    } else if (!depth && i > begin && name.startsWith(separator, i)) {
      parts.push(name.slice(begin, i));
      begin = i + separator.length;
      i = begin - 1;
    }
  }
  return [...parts, name.slice(begin)];
}
/* Code of V8 whose name its map does not explain, places in a module, and all that has a space. */
const UNDIVIDED = / |^[A-Za-z]+:(?!:)|\+0x[0-9a-f]+$/;
/* What says nothing without the part before it: lambdas, closures, and what calls them. */
const NAMELESS = /^(operator\(\)|_FUN|\{.*\}|<lambda>|\.?func\d+|\d+|\(anonymous\))$/;
/* The last `many` parts of a name, and those that are nothing without the ones before them. C++ and Rust have :: between
 * parts; Go, Nim, D and JavaScript a dot, after the path of a package. */
function lastParts(name, many) {
  const words = withoutArguments(name), [parts, separator] = partsOf(words);
  if (parts.length === 1) return words;
  if (separator === '.') parts[0] = parts[0].slice(parts[0].lastIndexOf('/') + 1);
  let from = parts.length, named = 0;
  while (from > 0 && named < many) if (!NAMELESS.test(parts[--from])) named++;
  return parts.slice(from).join(separator);
}

/* The parts of a name, and what is between them. */
function partsOf(words) {
  const scopes = splitName(words, '::');
  if (scopes.length > 1 || UNDIVIDED.test(words)) return [scopes, '::'];
  const path = splitName(words, '/'), parts = splitName(path.pop(), '.');
  if (path.length) parts[0] = `${path.join('/')}/${parts[0]}`;
  return [parts, '.'];
}
/* Both ends of a text, as much as there is room for; measure(text): how much that takes. */
function cutMiddle(text, room, measure) {
  let low = 0, high = text.length - 1;
  const cut = kept => kept ? `${text.slice(0, kept >> 1)}…${text.slice(text.length - (kept + 1 >> 1))}` : '…';
  while (low < high) {
    const kept = low + high + 1 >> 1;
    if (measure(cut(kept)) <= room) low = kept;
    else high = kept - 1;
  }
  return cut(low);
}
/* What there is room for of a name: its last part says most, so that scopes between the first and the last go before it. */
function fitName(name, room, measure) {
  if (measure(name) <= room) return name;
  const words = withoutArguments(name);
  if (measure(words) <= room) return words;
  const [all, separator] = partsOf(words), parts = [], gap = separator === '.' ? '…' : '…::';
  for (const part of all) {
    if (parts.length && NAMELESS.test(part)) parts[parts.length - 1] += separator + part;
    else parts.push(part);
  }
  const last = parts.length - 1, from = at => parts.slice(at).join(separator);
  /* The first part of a path of packages says little. */
  for (let at = separator === '.' ? last + 1 : 2; at <= last; at++) {
    const fit = `${parts[0]}${separator}${gap}${from(at)}`;
    if (measure(fit) <= room) return fit;
  }
  for (let at = 1; at <= last; at++) if (measure(gap + from(at)) <= room) return gap + from(at);
  return measure(parts[last]) <= room ? parts[last] : cutMiddle(parts[last], room, measure);
}

/* The steps of "Names"; a step in which all is whole has no `of`. At first it is that of the report. */
const USUAL_NAMES = 'templates';
const NAME_STEPS = {full: {words: 'full'}, templates: {words: 'templates as <…>', of: withoutArguments},
  two: {words: 'last two parts', of: name => lastParts(name, 2)}, last: {words: 'last part', of: name => lastParts(name, 1)}};
