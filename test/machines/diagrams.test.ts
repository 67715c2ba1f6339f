import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outline } from '../../machines/diagrams/outline.ts';
import { drawAll, FOLDER } from './diagrams.ts';
import { models } from './models/all.ts';

const drawn = await drawAll();

test('the diagrams in the folder are those of the machines: else run npm run diagrams', () => {
  const there = readdirSync(FOLDER).filter((file) => !/\.(ts|json)$/.test(file));
  assert.equal(there.sort(), [...drawn.keys()].sort());
  for (const [file, content] of drawn)
    assert.ok(readFileSync(`${FOLDER}/${file}`, 'utf8') === content, `${file} is stale`);
});

test('drawn again, they are the same to the byte', async () => {
  assert.equal([...(await drawAll())], [...drawn]);
});

test('every state, event, guard and action of a machine is in both of its diagrams', () => {
  for (const { machine } of models) {
    const { states, edges } = outline(machine);
    const labels = [...states.flatMap(({ loops }) => loops), ...edges];
    const words = [
      ...states.flatMap(({ name, entry }) => [name, ...entry]),
      ...labels.flatMap(({ event, guard, actions }) => [event, guard ?? '', ...actions]),
    ];
    assert.ok(words.length > 20);
    for (const kind of ['mmd', 'svg']) {
      const text = drawn.get(`${machine.id}.${kind}`) ?? '';
      for (const word of new Set(words))
        assert.ok(plain(text).includes(plain(word)), `${machine.id}.${kind} lacks ${word}`);
    }
  }
});

test('in a picture every state and every transition has an id of its own, that of its path or of its ends and its event', () => {
  for (const { machine } of models) {
    const { states, edges } = outline(machine);
    const path = (id: string) => states.find((state) => state.id === id)?.path ?? '';
    const ids = [
      ...plain(drawn.get(`${machine.id}.svg`) ?? '').matchAll(
        /<g id="((?:state|edge):[^"]+)" class="(node|cluster|edge) /g,
      ),
    ].map(([, id = '']) => id);
    assert.is(new Set(ids).size, ids.length);
    assert.equal(
      ids.filter((id) => id.startsWith('state:')).sort(),
      states.map(({ path }) => `state:${path}`).sort(),
    );
    assert.equal(
      ids
        .filter((id) => id.startsWith('edge:'))
        .map((id) => id.replace(/\|\d+$/, ''))
        .sort(),
      edges.map(({ from, type, to }) => `edge:${path(from)}|${type}|${path(to)}`).sort(),
    );
  }
});

/** Graphviz writes some signs as entities. */
function plain(text: string): string {
  return text
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replaceAll('\u00a0', ' ');
}

test.run();
