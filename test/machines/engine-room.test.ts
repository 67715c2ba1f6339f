import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeRoom, type Resident } from '../../machines/engine-room.ts';

const resident = (model: string, changes: Partial<Resident> = {}): Resident => ({
  model,
  bytes: 10,
  busy: false,
  wanted: false,
  in_turn: false,
  used_at: 0,
  loaded_at: 0,
  ...changes,
});
const names = (residents: Resident[] | null) => residents?.map(({ model }) => model) ?? null;

test('nothing leaves while there is room', () => {
  assert.equal(names(makeRoom(10, [resident('a')], { bytes: 20, models: 2 })), []);
});

test('the model whose last work began first leaves', () => {
  const residents = [resident('a', { used_at: 5 }), resident('b', { used_at: 3 })];
  assert.equal(names(makeRoom(10, residents, { bytes: 20, models: 8 })), ['b']);
});

test('a model that a run waits for leaves after one that no run waits for', () => {
  const residents = [resident('a', { used_at: 1, wanted: true }), resident('b', { used_at: 3 })];
  assert.equal(names(makeRoom(10, residents, { bytes: 20, models: 8 })), ['b']);
});

test('among models that runs wait for, the turn that began first ends first', () => {
  const wanted = { wanted: true };
  const residents = [
    resident('a', { ...wanted, loaded_at: 5, used_at: 1 }),
    resident('b', { ...wanted, loaded_at: 3, used_at: 9 }),
    resident('c', { ...wanted, loaded_at: 1, in_turn: true }),
  ];
  assert.equal(names(makeRoom(10, residents, { bytes: 30, models: 8 })), ['b']);
});

test('no model leaves that need not: one large model makes the room of two', () => {
  const residents = [
    resident('small', { used_at: 1 }),
    resident('large', { bytes: 50, used_at: 2 }),
  ];
  assert.equal(names(makeRoom(45, residents, { bytes: 60, models: 8 })), ['large']);
});

test('a model with work never leaves, and then there is no room', () => {
  const residents = [resident('a', { busy: true }), resident('b', { busy: true })];
  assert.is(makeRoom(10, residents, { bytes: 20, models: 8 }), null);
  assert.is(makeRoom(1, residents, { bytes: 90, models: 2 }), null);
});

test('whatever is in memory: those that leave have no work, all are needed, and then it fits', () => {
  const one = fc.record({
    bytes: fc.integer({ min: 1, max: 9 }),
    busy: fc.boolean(),
    wanted: fc.boolean(),
    in_turn: fc.boolean(),
    used_at: fc.nat(5),
    loaded_at: fc.nat(5),
  });
  const bounds = fc.record({
    bytes: fc.integer({ min: 1, max: 30 }),
    models: fc.integer({ min: 1, max: 5 }),
  });
  fc.assert(
    fc.property(
      fc.array(one, { maxLength: 6 }),
      fc.integer({ min: 1, max: 12 }),
      bounds,
      (all, bytes, bound) => {
        const residents = all.map((each, index) => ({ ...each, model: `m${index}` }));
        const fits = (staying: Resident[]) =>
          staying.length < bound.models &&
          staying.reduce((sum, each) => sum + each.bytes, bytes) <= bound.bytes;
        const leaving = makeRoom(bytes, residents, bound);
        if (leaving === null) return assert.not(fits(residents.filter(({ busy }) => busy)));
        const staying = residents.filter((each) => !leaving.includes(each));
        assert.ok(fits(staying));
        for (const each of leaving) {
          assert.not(each.busy);
          assert.not(fits([...staying, each]), 'it leaves without need');
        }
      },
    ),
  );
});

test.run();
