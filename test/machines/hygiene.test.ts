import { readdirSync, readFileSync } from 'node:fs';
import { getStateNodes } from '@xstate/graph';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyStateNode,
  and,
  enqueueActions,
  not,
  or,
  raise,
  stateIn,
} from 'xstate';
import { describe } from '../../machines/describe.ts';
import type { MachineEvent } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import { can, init, isIn, statePath, step } from '../../machines/step.ts';
import { coverOf, type Reached } from './cover.ts';
import { models } from './models/all.ts';
import { type Model, NOW } from './models/model.ts';

/**
 * What holds of every machine, whatever it is about: it is pure, it is wholly reachable, and
 * nothing gets stuck in it.
 */

const FOLDER = 'machines';
const MODELS = 'test/machines/models/';
const sources = new Map(
  readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.startsWith('diagrams/'))
    .map((file) => [file, readFileSync(`${FOLDER}/${file}`, 'utf8')]),
);
/** Steps that a state may take to its end by itself. */
const STEPS_MAX = 20;

for (const model of models) {
  const { states } = coverOf(model);

  test(`${model.name}: a state that is not stable has a deadline that it accepts`, () => {
    for (const from of states.values()) {
      if (!isStuckWithout(model, from) || from.snapshot.hasTag('stable')) continue;
      const deadlines = deadlinesOf(from.snapshot);
      assert.ok(deadlines.length > 0, `${from.key} has no deadline`);
      for (const { at } of deadlines)
        assert.ok(Number.isFinite(at) && at >= NOW - 1000, `${from.key} is due at ${at}`);
      const moves = deadlines.filter(({ at, event }) =>
        can(from.snapshot, { ...event, at } as MachineEvent),
      );
      assert.ok(moves.length > 0, `${from.key} accepts none of its deadlines`);
    }
  });

  test(`${model.name}: deadlines alone lead every state to an end or to a stable state`, () => {
    for (const from of states.values()) {
      const trail = drift(model, from.snapshot);
      const end = trail.at(-1) ?? from.snapshot;
      assert.ok(
        model.isOver(end) || end.hasTag('stable'),
        `${from.key} → ${trail.map(model.key).join(' → ')}`,
      );
    }
  });

  test(`${model.name}: a request to end leads every state to its end`, () => {
    for (const from of states.values()) {
      const asked = can(from.snapshot, model.stop)
        ? step(model.machine, from.snapshot, model.stop).snapshot
        : from.snapshot;
      const trail = drift(model, asked);
      assert.ok(
        model.isOver(trail.at(-1) ?? asked),
        `${from.key} → ${trail.map(model.key).join(' → ')}`,
      );
    }
  });

  test(`${model.name}: no invoke, no timer, no child, no transition without an event`, () => {
    for (const node of nodesOf(model.machine)) {
      assert.is(node.invoke.length, 0, node.id);
      assert.is(node.after.length, 0, node.id);
      assert.is(node.always?.length ?? 0, 0, node.id);
    }
    for (const { snapshot } of states.values()) assert.equal(Object.keys(snapshot.children), []);
  });
}

for (const machine of new Set(models.map((model) => model.machine))) {
  const covers = models.filter((model) => model.machine === machine).map(coverOf);

  test(`${machine.id}: every state of the machine is reached`, () => {
    const reached = new Set(
      covers.flatMap(({ states }) =>
        [...states.values()].flatMap(({ snapshot }) => snapshot._nodes.map((node) => node.id)),
      ),
    );
    const all = nodesOf(machine).map(({ id }) => id);
    assert.equal(
      all.filter((id) => !reached.has(id)),
      [],
      `add events that lead there to ${MODELS}`,
    );
  });

  test(`${machine.id}: the chart uses only what the stepper supports`, () => {
    const { schemas: _, ...config } = machine.config as Node;
    assert.equal(unsupported(config), []);
  });

  test(`${machine.id}: a state path leaves out the groups, and nothing else`, () => {
    const groups = describe(machine).states.flatMap(({ path, type }) =>
      type === 'group' ? [path.split('.').at(-1)] : [],
    );
    for (const { states } of covers) {
      for (const { snapshot } of states.values()) {
        const leaf = snapshot._nodes.find(({ type }) => type !== 'compound');
        const all = leaf?.path.filter((key) => !groups.includes(key)).join('.');
        assert.is(statePath(snapshot), all);
        for (const name of leaf?.path ?? []) assert.ok(isIn(snapshot, name), name);
      }
    }
  });

  test(`${machine.id}: every event of every state is accepted there in some payload class`, () => {
    const taken = new Set(
      covers.flatMap(({ accepted }) =>
        accepted.flatMap(({ from, event }) =>
          from.snapshot._nodes.map((node) => `${node.id} ${event.type}`),
        ),
      ),
    );
    for (const node of nodesOf(machine)) {
      for (const type of node.ownEvents)
        assert.ok(taken.has(`${node.id} ${type}`), `${node.id} never takes ${String(type)}`);
    }
  });
}

test('a chart with what the stepper does not support is found by its name', () => {
  const chart = (state: object, edge: object = {}): Node => ({
    initial: 'a',
    states: { a: { on: { 'x.y': { target: 'a', ...edge } }, ...state } },
  });
  assert.equal(unsupported(chart({})), []);
  for (const name of ['always', 'exit', 'after', 'invoke', 'onDone', 'history', 'output', 'route'])
    assert.equal(unsupported(chart({ [name]: [] })), [name]);
  assert.equal(unsupported(chart({ type: 'parallel' })), ['type parallel']);
  assert.equal(unsupported(chart({ on: { '*': 'a' } })), ['event *']);
  for (const name of ['reenter', 'in', 'internal'])
    assert.equal(unsupported(chart({}, { [name]: true })), [name]);
  assert.equal(unsupported(chart({}, { target: ['a', 'b'] })), ['several targets']);
  for (const guard of [and(['a', 'b']), or(['a', 'b']), not('a'), stateIn('a')])
    assert.equal(unsupported(chart({}, { guard })), ['guard is a function']);
  assert.equal(unsupported(chart({}, { guard: { type: 'a', params: () => ({}) } })), [
    'guard with a function',
  ]);
  assert.equal(unsupported(chart({}, { actions: raise({ type: 'b' }) })), ['action is a function']);
  assert.equal(unsupported(chart({ entry: enqueueActions(() => {}) })), ['action is a function']);
});

/** They import types only, or nothing. */
const PARTS = /\/src\/contract\/(messages\/parts|words)\.ts$/;

test('machines import xstate, each other, words and the parts of messages, and know no clock, no chance and no world outside', () => {
  const banned =
    /\b(Date|Math\.random|performance|crypto|process|globalThis|setTimeout|setInterval|setImmediate|fetch|console|require)\b|\bimport\(|\b(invoke|after|spawn\w*|fromPromise|fromCallback|sendTo|raise)\s*[:(]/;
  for (const [file, source] of sources) {
    // The types of what is recorded come from their schemas.
    const loaded = source.replace(/\btype \{[^}]*\} from '[./]+\/src\/contract\/[\w-]+\.ts'/g, '');
    for (const [, from = ''] of loaded.matchAll(/\bfrom '([^']+)'/g))
      assert.ok(
        from === 'xstate' || PARTS.test(from) || /^\.\.?\/([a-z]+\/)?[a-z-]+\.ts$/.test(from),
        `${file} imports ${from}`,
      );
    const code = source.replace(/\/\*[\s\S]*?\*\/|\/\/.*|'[^'\n]*'/g, '');
    assert.is(banned.exec(code)?.[0], undefined, file);
  }
});

test('every effect is asked for by some machine, and nothing else is', () => {
  const block =
    /export interface Effects \{([\s\S]*?)\n\}/.exec(sources.get('effects.ts') ?? '')?.[1] ?? '';
  const named = [...block.matchAll(/^ {2}(\w+): /gm)].map(([, name]) => name);
  const asked = new Set<string>();
  for (const model of models) {
    for (const { type } of init(model.machine, model.created).effects) asked.add(type);
    for (const { from, event } of coverOf(model).accepted)
      for (const { type } of step(model.machine, from.snapshot, event).effects) asked.add(type);
  }
  assert.ok(named.length >= 7);
  assert.equal([...asked].sort(), named.sort(), '`Effects` is in machines/effects.ts');
});

function nodesOf(machine: AnyStateMachine): AnyStateNode[] {
  return [machine.root, ...getStateNodes(machine)];
}

type Node = Record<string, unknown>;
const OF_A_STATE = new Set('id context initial states on entry tags meta type'.split(' '));
const OF_AN_EDGE = new Set(['target', 'guard', 'actions']);

/** What `step.ts` would ignore, or do in another way than XState. */
function unsupported({ states = {}, on = {}, ...node }: Node): string[] {
  const names: string[] = Object.keys(node).filter((key) => !OF_A_STATE.has(key));
  if (node.type !== undefined && node.type !== 'final') names.push(`type ${node.type}`);
  const check = (kind: string, part: unknown) => {
    if (typeof part === 'function') names.push(`${kind} is a function`);
  };
  for (const action of [node.entry ?? []].flat()) check('action', action);
  for (const [type, choices] of Object.entries(on as Node)) {
    if (type.includes('*') || type === '') names.push(`event ${type}`);
    for (const choice of [choices].flat()) {
      const edge = (typeof choice === 'object' ? choice : {}) as Node;
      names.push(...Object.keys(edge).filter((key) => !OF_AN_EDGE.has(key)));
      if (Array.isArray(edge.target)) names.push('several targets');
      check('guard', edge.guard);
      if (typeof (edge.guard as Node | undefined)?.params === 'function')
        names.push('guard with a function');
      for (const action of [edge.actions ?? []].flat()) check('action', action);
    }
  }
  return [
    ...names,
    ...Object.values(states as Node).flatMap((inner) => unsupported(inner as Node)),
  ];
}

function isStuckWithout(model: Model, { snapshot }: Reached): boolean {
  return snapshot.status === 'active' && !model.isOver(snapshot);
}

/** The states that follow from deadlines alone, until the end, rest, or the bound. */
function drift(model: Model, start: AnyMachineSnapshot): AnyMachineSnapshot[] {
  const trail: AnyMachineSnapshot[] = [];
  let now = NOW;
  for (let snapshot = start; trail.length < STEPS_MAX && !model.isOver(snapshot); ) {
    const due = deadlinesOf(snapshot)
      .sort((a, b) => a.at - b.at)
      .find(({ at, event }) => can(snapshot, { ...event, at } as MachineEvent));
    if (due === undefined || snapshot.hasTag('stable')) break;
    now = Math.max(now, due.at);
    snapshot = step(model.machine, snapshot, { ...due.event, at: now } as MachineEvent).snapshot;
    trail.push(snapshot);
  }
  return trail;
}

test.run();
