/* ---------------------------------------------------------------- recursion
 *
 * A function that calls itself, or several that call each other, are shown once with their number: the rule of
 * analyzer/views/recursion.c, with the same tests (test/html/recursion.tsv). */

const SERIES_MAX = 8, SERIES_LEAST = 3;
/* The list, innermost first, as series of calls, each of which is there so many times: [{calls, times}]. */
function seriesOf(list, same) {
  const timesOf = (at, length) => {
    let alike = 0;
    while (at + length + alike < list.length && same(list[at + alike], list[at + length + alike])) alike++;
    return Math.floor(alike / length) + 1;
  };
  const seriesAt = at => {
    for (let length = 1; length <= SERIES_MAX; length++) {
      const times = timesOf(at, length);
      if (times >= (length === 1 ? 2 : SERIES_LEAST)) return {calls: list.slice(at, at + length), times};
    }
    return {calls: [list[at]], times: 1};
  };
  const series = [];
  for (let at = 0; at < list.length; at += series[series.length - 1].calls.length * series[series.length - 1].times) series.push(seriesAt(at));
  return series;
}
/* For a stack in one line: "a x38", "(a < b) x20"; a text for each call that is shown. */
const callsInLine = (list, same, say) => seriesOf(list, same).flatMap(({calls, times}) =>
  calls.map((f, i) => `${times > 1 && calls.length > 1 && !i ? '(' : ''}${say(f)}${times > 1 && i === calls.length - 1 ? `${calls.length > 1 ? ')' : ''} x${times}` : ''}`));
/* For a list of frames: what stands beside the last of a series; '': nothing. */
const seriesInWords = ({calls, times}) => times < 2 ? '' : calls.length > 1 ? ` (these ${calls.length} frames x${times})` : ` x${times}`;
