import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { machines } from '../../machines/all.ts';
import { describe } from '../../machines/describe.ts';
// @ts-expect-error The console has no types: its files are JavaScript.
import { loadMeanings, toneOf, wordsOf } from '../../src/console/state/tone.js';
import { consoleFile } from '../../src/transport/http/console-files.ts';

const served = consoleFile('meanings.js').content.toString('base64');
await loadMeanings(`data:text/javascript;base64,${served}`);

const TONES = ['good', 'active', 'warn', 'bad', 'plain'];

test('each state that a machine can be in has a tone and plain words', () => {
  let seen = 0;
  for (const machine of machines)
    for (const { path, type } of describe(machine).states) {
      if (type !== 'atomic' && type !== 'final') continue;
      seen += 1;
      assert.ok(TONES.includes(toneOf(machine.id, path)), path);
      assert.match(wordsOf(machine.id, path), /^[A-Z].*\.$/, `${machine.id} ${path}`);
    }
  assert.ok(seen > 40);
});

test('green is only what is good: a provider that cannot answer is not', () => {
  const good = (machine: string, paths: string[]) =>
    paths.filter((path) => toneOf(machine, path) === 'good');
  const of = (machine: string) =>
    describe(machines.find(({ id }) => id === machine) as never).states.map(({ path }) => path);
  assert.equal(good('provider', of('provider')), ['available']);
  assert.equal(good('run', of('run')), ['completed']);
  for (const path of ['unauthorised', 'unavailable']) assert.is(toneOf('provider', path), 'bad');
});

test('the state around others is as good as the first of them, and an unknown one says nothing', () => {
  assert.is(toneOf('provider', 'half_open'), 'warn');
  assert.is(toneOf('provider', 'half_op'), 'plain');
  assert.equal([toneOf('run', 'unheard'), wordsOf('unheard', 'of')], ['plain', '']);
});

test.run();
