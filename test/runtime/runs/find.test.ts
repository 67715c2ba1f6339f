import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { findRun } from '../../../src/runtime/runs/find.ts';
import { codeOf } from '../../helpers/wait.ts';

const IDS = [
  'run_01M80SCN000000000000000000',
  'run_01M80SCN000000000000000001',
  'run_01M80SCP000000000000000000',
];
const names = (ids = IDS) => ({
  runsNamed: async (prefix: string, limit: number) =>
    ids.filter((id) => id.startsWith(prefix)).slice(0, limit),
  lastRun: async () => ids.at(-1) ?? null,
});

test('a run is found by its id, by the beginning of it, and as the last one', async () => {
  for (const [written, found] of [
    [IDS[0], IDS[0]],
    ['run_01M80SCP', IDS[2]],
    ['01m80scp', IDS[2]],
    ['last', IDS[2]],
    ['daemon:boot_1', 'daemon:boot_1'],
    ['run_7', 'run_7'],
  ] as const)
    assert.is(await findRun(names(), written ?? ''), found, written);
});

test('a whole id asks no log, also when the run is gone', async () => {
  const none = { runsNamed: assert.unreachable, lastRun: assert.unreachable } as never;
  assert.is(
    await findRun(none, 'run_01M80SCN00000000000000000Z'),
    'run_01M80SCN00000000000000000Z',
  );
});

test('a beginning of several ids is refused with some of them', async () => {
  assert.is(await codeOf(findRun(names(), 'run_01M80SCN')), 'run_ambiguous');
  const many = Array.from({ length: 9 }, (_, index) => `run_01M80SCN00000000000000000${index}`);
  const refused = await findRun(names(many), '01M8').catch((error: Error) => error.message);
  assert.match(refused, `${many[0]}, `);
  assert.match(refused, ', ….');
  assert.not.match(refused, many[5] ?? '');
});

test('an empty log has no last run', async () => {
  assert.is(await codeOf(findRun(names([]), 'last')), 'run_unknown');
});

test.run();
