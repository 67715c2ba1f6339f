import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outline } from '../../machines/diagrams/outline.ts';
import { drawAll, FOLDER } from './diagrams.ts';
import { models } from './models/all.ts';

const drawn = await drawAll();

test('the diagrams in the folder are those of the machines: else run npm run diagrams', () => {
  const there = readdirSync(FOLDER).filter((file) => !file.endsWith('.ts'));
  assert.equal(there.sort(), [...drawn.keys()].sort());
  for (const [file, content] of drawn) assert.ok(readFileSync(`${FOLDER}/${file}`, 'utf8') === content, `${file} is stale`);
});

test('drawn again, they are the same to the byte', async () => {
  assert.equal([...(await drawAll())], [...drawn]);
});

test('every state, event, guard and action of a machine is in both of its diagrams', () => {
  for (const { machine } of models) {
    const { states, edges } = outline(machine);
    const words = [
      ...states.flatMap(({ name, inside }) => [name, ...inside]),
      ...edges.flatMap(({ event, guard, actions }) => [event, guard ?? '', ...actions]),
    ];
    assert.ok(words.length > 20);
    for (const kind of ['mmd', 'svg']) {
      const text = drawn.get(`${machine.id}.${kind}`) ?? '';
      for (const word of new Set(words)) assert.ok(plain(text).includes(plain(word)), `${machine.id}.${kind} lacks ${word}`);
    }
  }
});

/** Graphviz writes some signs as entities. */
function plain(text: string): string {
  return text.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))).replaceAll('\u00a0', ' ');
}

test.run();
