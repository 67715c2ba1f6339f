import { globSync, readFileSync } from 'node:fs';
import { getStateNodes } from '@xstate/graph';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Failure } from '../../machines/events.ts';
import { afterFailure } from '../../machines/retry.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import { can, init, isIn, step } from '../../machines/step.ts';
import { coverOf } from './cover.ts';
import { models, runModels } from './models/all.ts';
import { NOW } from './models/model.ts';
import { lasting, retryable } from './models/run.ts';

/**
 * What a machine asks for is performed, and what happens is heard: effects lead out of the
 * machines, events lead back into them.
 */

const machineFiles = globSync('machines/**/*.ts');
const sources = globSync('src/**/*.ts');
const text = (files: readonly string[]) =>
  files.map((file) => readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '')).join('\n');
const EVENT =
  /\btype: (?:[^'\n;]*\? )?'((?:daemon|run|provider|engine|pull|mcp|lease|conversation|tool_call)\.\w+)'(?: : '((?:daemon|run|provider|engine|pull|mcp|lease|conversation|tool_call)\.\w+)')?/g;
const machines = [...new Set(models.map(({ machine }) => machine))];

/** Events that a part, a policy or a deadline proposes. */
const proposed = new Set(
  [...text([...sources, ...machineFiles]).matchAll(EVENT)].flatMap(([, one, other]) =>
    [one, other].filter((type) => type !== undefined),
  ),
);
/** Events that a machine hears: it is created by them, or some state takes them. */
const heard = new Set([
  ...models.map(({ created }) => String(created.type)),
  ...machines.flatMap((machine) =>
    [machine.root, ...getStateNodes(machine)].flatMap((node) => node.ownEvents.map(String)),
  ),
]);

test('every event that a part proposes is heard by a machine', () => {
  assert.ok(proposed.size >= 40, `${proposed.size} events`);
  assert.equal(
    [...proposed].filter((type) => !heard.has(type)),
    [],
  );
});

test('every event that a machine accepts is proposed by some code', () => {
  assert.equal(
    [...heard].filter((type) => !proposed.has(type)),
    [],
  );
});

test('every effect that a machine asks for has a performer', () => {
  const asked = new Set<string>();
  for (const model of models) {
    for (const { type } of init(model.machine, model.created).effects) asked.add(type);
    for (const { from, event } of coverOf(model).accepted)
      for (const { type } of step(model.machine, from.snapshot, event).effects) asked.add(type);
  }
  const composed =
    readFileSync('src/daemon/work.ts', 'utf8').match(
      /const handlers: Omit<EffectHandlers, 'closeDaemon'> = \{([\s\S]*?)\n {2}\};/,
    )?.[1] ?? '';
  const local =
    readFileSync('src/providers/local/engines.ts', 'utf8').match(
      /this\.handlers = \{([\s\S]*?)\n {4}\};/,
    )?.[1] ?? '';
  const mcp = readFileSync('src/tools/servers.ts', 'utf8');
  const boot = readFileSync('src/daemon/boot.ts', 'utf8');
  assert.match(composed, /\.\.\.local\.handlers/);
  assert.ok(asked.size >= 8);
  for (const effect of asked)
    assert.match(
      `${composed}\n${local}\n${mcp}\n${boot}`,
      new RegExp(`\\b${effect}[:,]`),
      `no code performs ${effect}`,
    );
});

test('what a failure leads to is accepted in every state in which an attempt can fail', () => {
  let checked = 0;
  const reached = runModels.flatMap((model) =>
    [...coverOf(model).states.values()].map(({ snapshot }) => ({ model, snapshot })),
  );
  for (const { model, snapshot } of reached) {
    if (!isIn(snapshot, 'starting') && !isIn(snapshot, 'streaming')) continue;
    for (const [error, lost] of [
      [retryable, true],
      [retryable, false],
      [lasting, true],
      [lasting, false],
    ] as [Failure, boolean][]) {
      const event = {
        ...afterFailure((snapshot as RunSnapshot).context, error, NOW, { lost }),
        at: NOW,
      };
      assert.ok(can(snapshot, event), `${model.key(snapshot)} ${event.type}`);
      checked += 1;
    }
  }
  assert.ok(checked >= 20);
});

test('every transition leads somewhere or does something: one that does neither would count as not accepted', () => {
  for (const machine of machines) {
    for (const node of [machine.root, ...getStateNodes(machine)]) {
      for (const { target = [], actions, eventType } of [...node.transitions.values()].flat()) {
        assert.ok(target.length > 0 || actions.length > 0, `${node.id} ${eventType}`);
      }
    }
  }
});

test('no state that is not final is without a way out, and a final one has none', () => {
  for (const model of models) {
    const { states, accepted } = coverOf(model);
    const left = new Set(
      accepted.filter(({ from, to }) => from.key !== to).map(({ from }) => from.key),
    );
    for (const { key, snapshot } of states.values())
      assert.is(left.has(key), snapshot.status === 'active', `${model.name} ${key}`);
  }
});

test.run();
