/* ---------------------------------------------------------------- source files in the reader's editor */

/* Only schemes that cannot run a script. */
const SCHEMES = /^(https?|file|vscode|vscodium|vscode-insiders|cursor|zed|idea|clion|jetbrains|subl|txmt|emacs|mvim|gvim|x-mine|editor):/i;
const EDITORS = ['vscode://file/{file}:{line}', 'cursor://file/{file}:{line}', 'zed://file/{file}:{line}', 'idea://open?file={file}&line={line}',
  'subl://open?url=file://{file}&line={line}', 'txmt://open?url=file://{file}&line={line}', 'file://{file}'];
/* url: with {file} and {line}; built, here: a directory of the build, and where it is on this machine. */
const editor = {url: '', built: '', here: ''};
for (const key in editor) try { editor[key] = localStorage.getItem(key === 'url' ? 'limpet-editor' : `limpet-path-${key}`) || ''; } catch { /* file: without storage */ }

const withoutSlash = path => path.length > 1 ? path.replace(/\/+$/, '') : path;
/* Where a file of the build is on this machine. Without a directory of the build: relative paths begin there. */
function pathHere(file) {
  const built = withoutSlash(editor.built), here = withoutSlash(editor.here);
  if (!here) return file;
  if (!built) return file.startsWith('/') ? file : `${here}/${file}`;
  if (built === '/') return file.startsWith('/') ? here + file : file;
  return file === built || file.startsWith(`${built}/`) ? here + file.slice(built.length) : file;
}
/* '': the editor's address is missing, or may not be used. */
function editorAddress(file, line) {
  if (!SCHEMES.test(editor.url)) return '';
  const path = encodeURI(pathHere(file)).replace(/[?#]/g, encodeURIComponent);
  /* As functions: what replaces is no pattern. */
  return editor.url.replaceAll('{file}', () => path).replaceAll('{line}', () => String(line || 1));
}
function sourceLink(f) {
  const file = frameFile(f), line = frames.line[f];
  if (!file) return placeIn('span', brief(frameModule(f) || ''));
  const words = brief(line ? `${file}:${line}` : file), address = editorAddress(file, line);
  return address ? Object.assign(placeIn('a', words), {href: address}) : placeIn('span', words);
}
/* Of a path that has too little room the file's name stays. */
const placeIn = (tag, path) => make(tag, {class: 'where place', title: path}, make('span', {textContent: path.slice(0, path.length - base(path).length)}),
  make('span', {textContent: base(path)}));

/* The program's own files come first: those of libraries have seldom been built here. */
function sourceFiles() {
  const found = [true, false].flatMap(own => frames.file.filter((file, f) => file >= 0 && (frames.kind[f] === FOLD.program) === own));
  return [...new Set(found)].map(file => strings[file]);
}
/* An example of what the fields make of a path. */
function describeEditor() {
  const files = sourceFiles(), moved = files.filter(file => pathHere(file) !== file), [example] = moved.length ? moved : files;
  const words = files.length ? [] : ['The page names no source file.'];
  if (editor.url && !SCHEMES.test(editor.url)) words.push('Links of this kind are not made.');
  if (editor.built || editor.here) words.push(`${plural(moved.length, 'path')} of ${count(files.length)} ${moved.length === 1 ? 'is' : 'are'} moved.`);
  if (example) words.push(`${brief(example)} opens as ${brief(editorAddress(example, 1) || pathHere(example))}.`);
  $('editor-words').textContent = words.join(' ');
}
/* The directory that all absolute paths have in common. */
function commonDirectory(files) {
  const [first = [], ...rest] = files.filter(file => file.startsWith('/')).map(file => file.split('/').slice(0, -1));
  let length = first.length;
  for (const parts of rest) while (first.slice(0, length).some((part, i) => part !== parts[i])) length--;
  return first.slice(0, length).join('/');
}
function setEditor(key, value) {
  editor[key] = value.trim();
  try { localStorage.setItem(key === 'url' ? 'limpet-editor' : `limpet-path-${key}`, editor[key]); } catch { /* kept for this page only */ }
  describeEditor();
  TABS[tab][1]();
}
function openHelp() {
  $('path-built').placeholder = commonDirectory(sourceFiles().slice(0, 100)) || '/build/src';
  describeEditor();
  $('help').showModal();
}
{
  $('editors').append(...EDITORS.map(value => make('option', {value})));
  for (const [id, key] of [['editor', 'url'], ['path-built', 'built'], ['path-here', 'here']]) {
    $(id).value = editor[key];
    $(id).onchange = event => setEditor(key, event.target.value);
  }
}
