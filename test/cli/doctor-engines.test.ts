import * as assert from 'uvu/assert';
import type { DoctorContext } from '../../src/cli/upkeep/doctor/check.ts';
import { checkDrafts, checkEngine } from '../../src/cli/upkeep/doctor/engine-check.ts';
import { suiteWithDaemon } from './fake-daemon.ts';

const test = suiteWithDaemon('svc doctor, of models');

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

test('each draft model of the configuration has a row: whether it fits, or which name is wrong', async ({
  home,
  daemon,
}) => {
  const drafts: Record<string, object | null> = {
    large: { model: 'small', problem: null },
    wide: { model: 'other', problem: 'it has another vocabulary' },
    gone: null,
  };
  daemon.on('model.show', ({ params: { id }, result, error }) => {
    const draft = drafts[String(id)];
    if (draft == null) return error({ code: 'model_unknown', message: 'There is none.' });
    result({ ...SHOWN, id: `local/${id}`, name: id, draft });
  });
  const config = {
    aliases: { both: ['large', 'gone'] },
    model_drafts: { both: 'small', wide: 'other', gone: 'small' },
  };
  const running = { config, models: [] };
  const checks = await checkDrafts({ paths: home.paths, running } as unknown as DoctorContext);
  assert.equal(
    checks.map(({ name, status, detail }) => [name, status, detail]),
    [
      ['draft of local/large', 'ok', 'small guesses its tokens.'],
      [
        'draft of local/wide',
        'warn',
        'The draft model other does not fit: it has another vocabulary.',
      ],
      ['model_drafts', 'warn', 'gone is not a local model that can have a draft model.'],
    ],
  );
  const row = async (id: string) =>
    /draft model +(.*)/.exec((await home.svc(['model', 'show', id])).stdout)?.[1];
  assert.is(await row('large'), 'small');
  assert.is(await row('wide'), 'other, which does not fit: it has another vocabulary');
});

const SHOWN = {
  provider: 'local',
  built_in: false,
  default: false,
  state: 'available',
  size_bytes: 1,
  parameters: null,
  quantization: null,
  context_length: null,
  capabilities: ['chat'],
  digest: null,
  path: '/m.gguf',
  metadata: {},
  metadata_left_out: 0,
};

test.run();
