import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { machines } from '../../machines/all.ts';
import { describe } from '../../machines/describe.ts';
import { init, statePath } from '../../machines/step.ts';
import { machineOf } from '../../src/kernel/registry.ts';
import { models } from './models/all.ts';

test('every machine that is modelled is listed, and every one that is listed folds a kind of stream', () => {
  assert.equal(new Set(machines), new Set(models.map(({ machine }) => machine)));
  // A run folds the calls of its tools.
  for (const machine of machines.filter(({ id }) => id !== 'tool_call'))
    assert.is(machineOf(machine.id === 'run' ? 'run_1' : `${machine.id}:1`), machine);
});

test('the state that a new machine has is the one it is said to begin in', () => {
  for (const { machine, created } of models)
    assert.is(describe(machine).initial, statePath(init(machine, created).snapshot));
});

test('every way leads from a state that is there to one that is there', () => {
  for (const { states, transitions } of machines.map(describe)) {
    const paths = new Set(['', ...states.map(({ path }) => path)]);
    for (const { source, target } of transitions)
      assert.ok(paths.has(source) && paths.has(target), `${source} → ${target}`);
  }
});

test('a page finds each state and each way of it in the picture', () => {
  for (const { name, states, transitions } of machines.map(describe)) {
    const picture = readFileSync(`machines/diagrams/${name}.svg`, 'utf8');
    for (const { path } of states)
      assert.ok(picture.includes(`id="state:${path}"`), `${name} ${path}`);
    for (const { source, event, target } of transitions.filter((way) => way.source !== way.target))
      assert.ok(
        picture.includes(`id="edge:${source}|${event}|${target}"`) ||
          picture.includes(`id="edge:${source}|${event}|choice"`),
        `${name} ${source}|${event}|${target}`,
      );
  }
});

test.run();
