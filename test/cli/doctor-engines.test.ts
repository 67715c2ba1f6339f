import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DoctorContext } from '../../src/cli/doctor/check.ts';
import { checkEngine } from '../../src/cli/doctor/engine-check.ts';

const engine = (state: string, model: string, error: string | null = null) => ({
  state,
  since: '2026-11-22T00:00:00.000Z',
  model,
  pid: 1,
  threads: 2,
  context_length: 4096,
  parallel: 4,
  error,
});

test('each engine of the daemon has its line', async () => {
  const engines = [
    engine('warm.busy', 'local/a'),
    engine('starting', 'local/b'),
    engine('crashed', 'local/c', 'It died.'),
    engine('warm.idle', 'local/d'),
  ];
  const checks = await checkEngine({
    paths: { data: '/none' },
    running: { report: { engines }, status: { models: [{ id: 'local/d', gpu: 'cuda' }] } },
  } as unknown as DoctorContext);
  assert.equal(
    checks.map(({ status, detail }) => [status, detail]),
    [
      ['ok', 'local/a loaded, 2 threads, 4096 tokens of context'],
      ['warn', 'local/c crashed: It died.'],
      ['ok', 'local/d loaded on cuda, 2 threads, 4096 tokens of context'],
    ],
  );
});

test.run();
