import { writeFileSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { completed, run, suiteWithDaemon } from './fake-daemon.ts';

/** What a run asks for when the shell has SVC_PROVIDER or SVC_MODEL. */
const test = suiteWithDaemon('the target of a run');

const SHELL = { SVC_PROVIDER: 'mock', SVC_MODEL: 'tiny' };

const cases: [env: Record<string, string>, args: string[], asked: object][] = [
  [{}, [], {}],
  [{ SVC_PROVIDER: 'mock' }, [], { provider: 'mock' }],
  // The default provider of the daemon may be another than the local engine.
  [{ SVC_MODEL: 'tiny' }, [], { provider: 'local', model: 'tiny' }],
  [{ SVC_MODEL: 'other/m' }, [], { model: 'other/m' }],
  [{ SVC_MODEL: 'local/m' }, [], { model: 'local/m' }],
  [{ SVC_MODEL: 'team/m' }, [], { provider: 'local', model: 'team/m' }],
  [{ SVC_MODEL: 'team/m', SVC_PROVIDER: 'local' }, [], { provider: 'local', model: 'team/m' }],
  [{ SVC_MODEL: '/models/m.gguf' }, [], { model: '/models/m.gguf' }],
  // The model is one of the local engine.
  [SHELL, [], { provider: 'mock' }],
  [{ ...SHELL, SVC_PROVIDER: 'local' }, [], { provider: 'local', model: 'tiny' }],
  [SHELL, ['--provider', 'other'], { provider: 'other' }],
  [SHELL, ['--provider', 'local'], { provider: 'local', model: 'tiny' }],
  [SHELL, ['--model', 'other/m'], { model: 'other/m' }],
  [SHELL, ['--cloud'], { cloud: true }],
  [{ SVC_PROVIDER: '', SVC_MODEL: '' }, [], {}],
  [SHELL, ['--preset', 'far'], { provider: 'other' }],
  [SHELL, ['--preset', 'calm'], { provider: 'mock' }],
];

test('variables of the shell count where neither a flag nor a preset does', async ({
  home,
  daemon,
}) => {
  const presets = { far: { provider: 'other' }, calm: { temperature: 0 } };
  const providers = { other: { base_url: 'http://127.0.0.1:1/v1' } };
  writeFileSync(home.paths.config, JSON.stringify({ presets, providers }));
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    result(completed('hello'));
  });
  for (const [env, args, asked] of cases) {
    daemon.asked.length = 0;
    const { code, stderr } = await home.svc(['run', 'hi', '--no-start', ...args], { env });
    assert.is(code, 0, stderr);
    const asking = daemon.asked.find(({ method }) => method === 'run.start');
    const { provider, model, cloud } = asking?.params ?? {};
    const given = Object.entries({ provider, model, cloud }).filter(
      ([, value]) => value !== undefined,
    );
    assert.equal(Object.fromEntries(given), asked, JSON.stringify([env, args]));
  }
});

test.run();
