import { readFileSync } from 'node:fs';
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
  for (const machine of new Set(models.map((model) => model.machine))) {
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
