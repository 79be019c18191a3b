/* ---------------------------------------------------------------- reading the page
 *
 * The figures are JSON, compressed by zlib, in base64 (analyzer/html/html_packed.c). What needs single events is a part of
 * its own, which is read when it is looked at. */

/* Characters that change the direction of text, as they are and as JSON writes them, are shown as unknown ones. */
const inOneDirection = text => text.replace(/[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, '\ufffd')
  .replace(/\\u(?:061c|200[ef]|202[89a-e]|206[6-9])/gi, '\\ufffd');
async function readPart(id) {
  const packed = atob(document.getElementById(id).textContent), bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  return JSON.parse(inOneDirection(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text()));
}
async function readFigures() {
  const said = document.getElementById('reading');
  said.textContent = 'Reading the figures…';
  try {
    if (typeof DecompressionStream === 'undefined') throw new Error('this browser is too old for it (no DecompressionStream)');
    const data = await readPart('data');
    for (const part of document.querySelectorAll('header, main')) part.hidden = false;
    said.remove();
    return data;
  } catch (error) {
    said.textContent = `This page cannot be read: ${error.message}. Was it copied whole?`;
    throw error;
  }
}
