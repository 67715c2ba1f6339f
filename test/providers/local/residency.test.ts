import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type EngineSnapshot, engineMachine } from '../../../machines/engine.ts';
import { noTurn } from '../../../machines/engine-room.ts';
import { init, step } from '../../../machines/step.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { type ModelShape, memoryNeeds } from '../../../src/models/memory-needs.ts';
import { MINI } from '../../../src/providers/local/load-check.ts';
import {
  ANY,
  checkFile,
  type Needs,
  nextStep,
  Residency,
  type Tenant,
} from '../../../src/providers/local/residency.ts';
import { failure } from '../../helpers/failure.ts';

/** Which models are in memory, and what a caller does: exactly, without a process. */

const MIB = 1024 * 1024;
const shape: ModelShape = { ...MINI, weights: 100 * MIB };
const CONTEXT = { parallel: 1, context_tokens: 512 };
/** The memory of one model. */
const EACH = memoryNeeds(shape, CONTEXT);
const EVENTS = {
  load: (attempt: number, path: string) => ({
    type: 'engine.load_requested',
    attempt,
    model: path,
    path,
  }),
  start: (attempt: number) => ({ type: 'engine.process_started', attempt, pid: 1 }),
  loaded: (attempt: number, path: string) => ({
    type: 'engine.model_loaded',
    attempt,
    info: { model: path, path, pid: 1, threads: 2, context_length: 512, parallel: 1, load_ms: 1 },
  }),
  work: { type: 'engine.work_started' },
  idle: { type: 'engine.work_finished' },
  stop: { type: 'engine.stop_requested', reason: 'room' },
  exit: (attempt: number) => ({ type: 'engine.exited', attempt, exit_code: 0, signal: null }),
};

class Model implements Tenant {
  readonly key: string;
  readonly model: Tenant['model'];
  readonly wanted = CONTEXT;
  readonly line: object[] = [];
  used_at = 0;
  turn = noTurn;
  snapshot: EngineSnapshot;
  private readonly residency: Residency<Model>;

  constructor(residency: Residency<Model>, name: string) {
    const times = { start_ms: 1, load_ms: 1, stop_ms: 1, kill_ms: 1, idle_ms: 1 };
    const created = { type: 'engine.created', number: 1, ...times, at: 0 } as const;
    [this.residency, this.key] = [residency, name];
    this.model = { id: `local/${name}`, name, path: name };
    this.snapshot = init(engineMachine, created).snapshot as EngineSnapshot;
  }

  see(at: number, ...events: object[]): void {
    for (const event of events) {
      this.snapshot = step(engineMachine, this.snapshot, { ...event, at } as never)
        .snapshot as EngineSnapshot;
      this.residency.note(this);
    }
  }

  /** It is loaded, and has no work. */
  load(at: number): void {
    const attempt = this.snapshot.context.attempt + 1;
    this.residency.claim(this, shape, null);
    assert.equal(this.residency.serve(at).granted, [this]);
    this.see(at, EVENTS.load(attempt, this.key), EVENTS.start(attempt));
    this.see(at, EVENTS.loaded(attempt, this.key));
  }

  leave(at: number): void {
    this.see(at, EVENTS.stop, EVENTS.exit(this.snapshot.context.attempt));
  }
}

function makeRoom(places = 2, models = 8) {
  const looked: string[] = [];
  const residency = new Residency<Model>({
    limits: { ...defaultLimits, local_engines: models, local_models: 2, engine_turn_ms: 1000 },
    budget_bytes: places * EACH,
    load: {
      ...CONTEXT,
      gpu_layers: 'auto',
      attention: { cache_keys: 'f16', cache_values: 'f16', flash: 'auto' },
    },
    keep: { 'local/kept': 7000, short: 5 },
    free: () => 10 * EACH,
    look: (name) => looked.push(name),
  });
  const make = (name: string) => new Model(residency, name);
  return { residency, looked, make };
}

const busyOf = ({ residency }: ReturnType<typeof makeRoom>, now = 0) =>
  residency.residents(now).map(({ model, busy }) => [model, busy]);

test('claims are granted in order while they fit, and the first that does not waits for all after it', () => {
  const room = makeRoom();
  const [a, b, c] = ['a', 'b', 'c'].map(room.make) as [Model, Model, Model];
  for (const each of [a, b, c]) room.residency.claim(each, shape, null);
  assert.is(room.residency.usedBytes, 0);
  assert.equal(room.residency.serve(0), { granted: [a, b], leaving: [] });
  assert.equal(
    [a, b, c].map((each) => room.residency.bytesOf(each)),
    [EACH, EACH, null],
  );
  assert.is(room.residency.usedBytes, 2 * EACH);
  assert.equal(room.residency.serve(0), { granted: [], leaving: [] }, 'both are being loaded');
  assert.equal(busyOf(room), [
    ['a', true],
    ['b', true],
    ['c', true],
  ]);
});

test('the model without work that was used first leaves, and its memory is free once its process is gone', () => {
  const room = makeRoom();
  const [a, b, c] = ['a', 'b', 'c'].map(room.make) as [Model, Model, Model];
  a.load(0);
  b.load(0);
  [a.used_at, b.used_at] = [2, 1];
  room.residency.claim(c, shape, null);
  assert.equal(room.residency.serve(100).leaving, [b]);
  b.see(100, EVENTS.stop);
  assert.equal(room.residency.serve(100), { granted: [], leaving: [] }, 'it counts as gone');
  b.see(101, EVENTS.exit(1));
  assert.equal(room.residency.serve(101), { granted: [c], leaving: [] });
});

test('no model with work or with a caller leaves', () => {
  const room = makeRoom(1);
  const [a, b] = [room.make('a'), room.make('b')];
  a.load(0);
  room.residency.claim(b, shape, null);
  a.see(1, EVENTS.work);
  assert.equal(room.residency.serve(1).leaving, []);
  a.see(2, EVENTS.idle);
  a.line.push({});
  assert.equal(room.residency.serve(2).leaving, []);
  a.line.pop();
  assert.equal(room.residency.serve(2).leaving, [a]);
});

test('a model that runs wait for leaves after one that no run waits for', () => {
  const room = makeRoom();
  const [a, b, c] = ['a', 'b', 'c'].map(room.make) as [Model, Model, Model];
  a.load(0);
  b.load(0);
  [a.used_at, b.used_at] = [1, 2];
  room.residency.remember('name of a', 'a', shape);
  room.residency.queued = () => new Set(['name of a', 'another']);
  room.residency.claim(c, shape, null);
  assert.equal(room.residency.serve(100).leaving, [b]);
});

test('the number of models has a bound too', () => {
  const { residency, make } = makeRoom(5, 1);
  const [a, b] = [make('a'), make('b')];
  a.load(0);
  residency.claim(b, shape, null);
  assert.equal(residency.serve(1), { granted: [], leaving: [a] });
});

test('a crash frees the memory, and an event of an earlier attempt does not', () => {
  const { residency, make } = makeRoom();
  const a = make('a');
  a.load(0);
  a.see(1, EVENTS.exit(1));
  assert.is(a.snapshot.hasTag('failing'), true);
  assert.is(residency.bytesOf(a), null);
  const claim = residency.claim(a, shape, null);
  residency.serve(2);
  assert.is(claim.attempt, 2);
  a.see(2, { type: 'engine.backoff_elapsed' });
  assert.is(residency.bytesOf(a), EACH, 'it is that of the next attempt');
});

test('a claim that is released is no longer in the way, and an old one takes nothing from a new one', () => {
  const { residency, make } = makeRoom(1);
  const [a, b] = [make('a'), make('b')];
  const first = residency.claim(a, shape, null);
  residency.claim(b, shape, null);
  assert.equal(residency.serve(0).granted, [a]);
  residency.release(first);
  assert.equal(residency.serve(0).granted, [b]);
  const second = residency.claim(a, shape, null);
  residency.release(first);
  assert.is(residency.residents(0).length, 2);
  residency.release(second);
  assert.is(residency.residents(0).length, 1);
});

test('the measured memory counts, for its attempt and if it is more', () => {
  const { residency, make } = makeRoom();
  const a = make('a');
  a.load(0);
  residency.grow(a, 2, 9 * EACH);
  residency.grow(a, 1, EACH - 1);
  assert.is(residency.bytesOf(a), EACH);
  residency.grow(a, 1, 9 * EACH);
  assert.is(residency.bytesOf(a), 9 * EACH);
});

test('a model that does not fit alone is refused, with what is loaded', async () => {
  const { residency, make } = makeRoom();
  make('a').load(0);
  const large = { ...shape, weights: 3 * EACH };
  const refused = await failure((async () => void residency.claim(make('large'), large, null))());
  assert.is(refused.code, 'model_too_large');
  const needs_bytes = memoryNeeds(large, CONTEXT);
  const loaded = [{ id: 'local/a', bytes: EACH }];
  assert.equal(refused.details, { needs_bytes, budget_bytes: 2 * EACH, loaded });
  assert.is(residency.residents(0).length, 1, 'it waits for nothing');
});

test('a model is looked at once, then its needs are known; one that does not fit needs no room', () => {
  const { residency, looked } = makeRoom();
  for (const _ of [1, 2]) residency.learn('m');
  assert.equal(looked, ['m']);
  let changes = 0;
  residency.onChange(() => {
    changes += 1;
  });
  assert.equal(residency.remember('m', '/m', shape), { key: '/m', bytes: EACH, runs: 1 });
  assert.is(changes, 1);
  residency.learn('m');
  assert.equal(looked, ['m']);
  const large = { ...shape, weights: 3 * EACH };
  assert.is(residency.remember('large', '/large', large).bytes, 0);
  assert.equal(residency.remember('bad', 'bad', null), { key: 'bad', bytes: 0 });
  assert.is(residency.find('m'), undefined, 'the oldest of three is forgotten');
  residency.forget('large', '/large');
  assert.is(residency.find('large')?.key, '/large', 'the name leads to the same file');
  residency.forget('large', '/other');
  assert.is(residency.find('large'), undefined);
  residency.forget('bad');
  assert.is(residency.find('bad'), undefined);
});

test('a model stays as the last request said, else as its name has it; a zero is for once', () => {
  const { residency, make } = makeRoom();
  const kept = make('kept');
  assert.is(residency.keepMs(kept.model), 7000);
  assert.is(residency.keepMs(make('short').model), 5);
  const a = make('a');
  assert.is(residency.keepMs(a.model), undefined);
  residency.keep('a', 60);
  a.load(0);
  a.leave(1);
  assert.is(residency.keepMs(a.model), 60);
  residency.keep('a', 0);
  a.load(2);
  assert.is(residency.keepMs(a.model), 0);
  a.leave(3);
  assert.is(residency.keepMs(a.model), defaultLimits.engine_idle_ms);
});

test('a rest ends a part of the load time after the work, and then none is known', () => {
  const { residency, make } = makeRoom();
  const a = make('a');
  residency.claim(a, shape, null);
  residency.serve(0);
  a.see(1000, EVENTS.load(1, 'a'), EVENTS.start(1));
  a.see(1400, EVENTS.loaded(1, 'a'));
  assert.is(residency.restEnds(1400), 1500);
  assert.is(residency.restEnds(1500), null);
});

test('with the memory of a GPU fewer runs are planned, and vectors take one at a time', () => {
  const { residency } = makeRoom();
  const one = new Residency<Model>({
    limits: defaultLimits,
    budget_bytes: 1,
    load: {
      parallel: 0,
      context_tokens: 4096,
      gpu_layers: 'auto',
      attention: { cache_keys: 'q8_0', cache_values: 'f16', flash: 'auto' },
    },
    keep: {},
    free: () => 0,
    look() {},
  });
  assert.is(one.contextOf('answers').parallel, 0);
  one.gpu_bytes = 1;
  assert.is(one.contextOf('answers').parallel, 4);
  assert.equal(one.contextOf('embeddings'), { parallel: 1, context_tokens: 512, batch: 512 });
  assert.is(residency.fit(shape).free_bytes, 10 * EACH);
});

test('what a caller does follows from the state of the engine and from its needs', () => {
  const { make } = makeRoom();
  const a = make('a');
  const next = (needs: Partial<Needs> = {}, isOwn = false) =>
    nextStep(a, { ...ANY, ...needs }, isOwn);
  assert.is(next(), 'load');
  a.load(0);
  assert.is(next(), 'use');
  assert.is(next({ threads: 2 }), 'use');
  assert.is(next({ threads: 3 }), 'replace');
  assert.is(next({ threads: 3 }, true), 'use', 'it was loaded for this caller');
  assert.is(next({ context_tokens: 512 }), 'use');
  assert.is(next({ context_tokens: 513 }), 'replace');
  a.see(1, EVENTS.work);
  assert.is(next(), 'use');
  assert.is(next({ threads: 3 }), 'wait');
  a.see(2, EVENTS.idle, EVENTS.stop);
  assert.is(next(), 'wait');
  a.see(3, EVENTS.exit(1));
  assert.is(next(), 'load');
  a.see(4, { ...EVENTS.load(2, 'a'), context_tokens: 1024 });
  assert.is(next(), 'wait');
  a.see(4, EVENTS.start(2));
  a.see(4, EVENTS.loaded(2, 'a'));
  assert.is(next({ context_tokens: 1024 }), 'use');
  a.see(5, EVENTS.exit(2));
  assert.is(next(), 'wait', 'after a crash it waits');
});

test('an answer goes on with the file that began it, or with none', async () => {
  const { make } = makeRoom();
  const { model } = make('a');
  const needs = { ...ANY, model_file: 'sha256:0123456789abcdef' };
  checkFile(needs, model, needs.model_file);
  checkFile(ANY, model, null);
  const changed = await failure((async () => checkFile(needs, model, null))());
  assert.is(changed.code, 'model_changed');
  assert.match(
    changed.message,
    /of a: sha256:0123456789ab…\. Here it is a file that cannot be read/,
  );
});

test.run();
