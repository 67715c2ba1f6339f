import { globSync, readdirSync, readFileSync } from 'node:fs';
import { getStateNodes } from '@xstate/graph';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { deadlineName, deadlineRules } from '../../machines/machine.ts';
import { runEvents } from '../../src/contract/run-events.ts';
import { models } from './models/all.ts';

/** The names of machines, events, guards, actions and deadlines: each is used, and each exists. */

const FOLDER = 'machines';
const MODELS = 'test/machines/models/';
const machines = [...new Set(models.map(({ machine }) => machine))];
const charts = new Map(
  readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.startsWith('diagrams/'))
    .map((file) => [file, readFileSync(`${FOLDER}/${file}`, 'utf8')]),
);
const machineFiles = globSync('machines/**/*.ts');
const sources = globSync('src/**/*.ts');
const text = (files: readonly string[]) =>
  files.map((file) => readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '')).join('\n');
const EVENT =
  /\btype: (?:[^'\n;]*\? )?'((?:daemon|run|provider|engine|pull|mcp|lease|conversation|tool_call)\.\w+)'(?: : '((?:daemon|run|provider|engine|pull|mcp|lease|conversation|tool_call)\.\w+)')?/g;

/** Events that a part, a policy or a deadline proposes. */
const proposed = new Set(
  [...text([...sources, ...machineFiles]).matchAll(EVENT)].flatMap(([, one, other]) =>
    [one, other].filter((type) => type !== undefined),
  ),
);
/** Events that a machine hears: it is created by them, or some state takes them. */
const heard = new Set([
  ...models.map(({ created }) => String(created.type)),
  ...machines.flatMap((machine) => nodesOf(machine).flatMap((node) => node.ownEvents.map(String))),
]);

test('every event that a part proposes is heard by a machine', () => {
  assert.ok(proposed.size >= 40, `${proposed.size} events`);
  assert.equal(
    [...proposed].filter((type) => !heard.has(type)),
    [],
    'take the event in a chart of machines/',
  );
});

test('every event that a machine accepts is proposed by some code', () => {
  assert.equal(
    [...heard].filter((type) => !proposed.has(type)),
    [],
    'append the event in src/, or remove it from the chart',
  );
});

test('every machine of the folder is walked', () => {
  const walked = new Set(models.map(({ machine }) => machine.id));
  const found = [...charts].flatMap(([, source]) =>
    [...source.matchAll(/\bid: '(\w+)',/g)].map(([, id = '']) => id),
  );
  assert.ok(found.length >= 4);
  assert.equal([...walked].sort(), found.sort(), `add a model of the machine to ${MODELS}`);
});

test('every event of the vocabulary is taken by a machine', () => {
  const source = [...charts.values()].join('\n');
  const created = new Set<string>(models.map(({ created: { type } }) => type));
  const ofOthers = [...source.matchAll(/\bEventOf<\s*'(\w+\.\w+)'/g)].map(([, type]) => type);
  const named = new Set([...ofOthers, ...Object.keys(runEvents)]);
  const taken = new Set<string>(
    models.flatMap(({ machine }) => nodesOf(machine).flatMap((node) => node.ownEvents.map(String))),
  );
  assert.ok(named.size >= 40);
  assert.equal(
    [...named].sort(),
    [...created, ...taken].sort(),
    'a chart takes each event of its context.ts, and of src/contract/run-events.ts',
  );
});

for (const machine of machines) {
  test(`${machine.id}: guards and actions go by name, and each is used`, () => {
    const used = namesIn(machine.config);
    for (const kind of ['guards', 'actions'] as const) {
      const there = Object.keys(machine.implementations[kind] as object).sort();
      assert.equal([...used[kind]].sort(), there, `${kind} of the chart, in setup()`);
    }
  });

  test(`${machine.id}: a state names deadlines that there are, and each is named`, () => {
    const named = nodesOf(machine).flatMap((node) => deadlineName(node) ?? []);
    assert.equal(
      [...new Set(named)].sort(),
      Object.keys(deadlineRules(machine)).sort(),
      'edit `meta` of the states, or the deadlines beside the chart',
    );
  });

  test(`${machine.id}: the name of each state is unique, so isIn needs no path`, () => {
    const keys = nodesOf(machine).map(({ key }) => key);
    assert.equal([...new Set(keys)], keys);
  });
}

function nodesOf(machine: AnyStateMachine): AnyStateNode[] {
  return [machine.root, ...getStateNodes(machine)];
}

/** The names of guards and actions in a machine's definition; a function in their place throws. */
function namesIn(config: AnyStateMachine['config']): { guards: Set<string>; actions: Set<string> } {
  const guards = new Set<string>();
  const actions = new Set<string>();
  const note = (into: Set<string>, found: unknown) => {
    for (const item of [found].flat()) {
      const name =
        typeof item === 'object' && item !== null ? (item as { type?: unknown }).type : item;
      if (typeof name === 'string') into.add(name);
      else if (item !== undefined) throw new Error(`not a name: ${String(item)}`);
    }
  };
  const walk = (node: Record<string, unknown>) => {
    note(actions, node.entry);
    note(actions, node.exit);
    for (const transition of Object.values((node.on ?? {}) as object).flat() as Record<
      string,
      unknown
    >[]) {
      note(guards, transition.guard);
      note(actions, transition.actions);
    }
    for (const child of Object.values((node.states ?? {}) as object))
      walk(child as Record<string, unknown>);
  };
  walk(config as Record<string, unknown>);
  return { guards, actions };
}

test.run();
