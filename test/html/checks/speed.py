"""How long a page takes."""
from checks.words import expect


def measure_speed(page):
    """The largest graph that is asked for: how long a redraw takes, and the view as a whole."""
    page.tab("flame")
    times = page.run("""
        const canvas = document.getElementById('canvas'), times = [];
        for (let i = 0; i < 51; i++) {
            const begun = performance.now();
            canvas.dispatchEvent(new KeyboardEvent('keydown', {key: i % 2 ? 'ArrowUp' : 'ArrowDown', bubbles: true}));
            canvas.getContext('2d').getImageData(0, 0, 1, 1);
            times.push(performance.now() - begun);
        }
        return times.sort((a, b) => a - b)""")
    first = page.run("return performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0] || -1")
    drawn = page.run("return performance.getEntriesByName('limpet-drawn')[0].startTime")
    print(f"redraw: median {times[len(times) // 2]:.1f} ms, longest {times[-1]:.1f} ms; "
          f"first paint {first:.0f} ms, all drawn after {drawn:.0f} ms")
    expect("a redraw within 50 ms", times[len(times) // 2] < 50, True)
    expect("the first picture within a second", 0 < first < 1000, True)


def measure_changes(page):
    """The most stacks that are asked for: how long it takes until another picture of them is drawn."""
    page.tab("flame")
    times = page.run("""
        const $ = id => document.getElementById(id), times = {};
        const key = (canvas, ...list) => list.forEach(key => canvas.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})));
        const set = (id, value) => { $(id).value = value; $(id).onchange({target: $(id)}); };
        const shown = () => $('sandwich').hidden ? $('canvas') : $('callees-canvas');
        function measure(name, change, rounds = 7) {
            const list = [];
            for (let i = 0; i < rounds; i++) {
                const begun = performance.now();
                change(i);
                shown().getContext('2d').getImageData(0, 0, 1, 1);
                document.body.offsetHeight;
                list.push(performance.now() - begun);
            }
            times[name] = list.sort((a, b) => a - b)[rounds >> 1];
        }
        measure('colour', i => set('colour', ['growth', 'module', 'name'][i % 3]));
        measure('names', i => set('names', ['templates', 'two', 'last', 'full'][i % 4]));
        measure('templates, the first time', () => $('merge').click(), 1);
        measure('templates', () => $('merge').click());
        measure('direction', i => document.querySelector(`input[value=${i % 2 ? 'down' : 'up'}]`).click());
        document.querySelector('input[value=down]').click();
        measure('part', i => key(shown(), i % 2 ? '-' : '+'));
        key(shown(), 'Home', 'ArrowDown', 'ArrowRight', 'ArrowDown');
        measure('sandwich, the first time', () => key(shown(), 's'), 1);
        measure('sandwich', () => key(shown(), 'Home', 'ArrowDown', 's'));
        measure('stacks with a search', i => {
            $('find').value = ['function12', 'scope1', 'type3 -function12'][i % 3];
            $('find').oninput({inputType: 'insertText'});
            $('tab-sites').click();
        });
        $('find').value = '';
        $('find').oninput({inputType: 'insertText'});
        $('tab-threads').click();
        measure('stacks of a thread', () => { for (let i = 0; i < 2; i++) document.querySelector('#threads .fold').click(); });
        return times""")
    print("changes: " + ", ".join(f"{name} {time:.0f} ms" for name, time in times.items()))
    expect("changes that take more than 100 ms", [name for name, time in times.items() if time > 100], [])
