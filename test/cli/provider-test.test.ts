import * as assert from 'uvu/assert';
import { suiteWithDaemon } from './fake-daemon.ts';

const test = suiteWithDaemon('svc provider test');

const record = { id: 'far', state: 'available', reason: null, credential: 'none' };

test('it says that a provider answers only if that was seen', async ({ home, daemon }) => {
  const said = async (models: number | null) => {
    daemon.on('provider.test', ({ result }) => result({ ...record, models }));
    const { code, stdout } = await home.svc(['provider', 'test', 'far']);
    assert.is(code, 0);
    return stdout.trim();
  };
  assert.is(await said(1), 'far answers and has 1 model.');
  assert.is(await said(null), 'far answers.');
  assert.is(
    await said(0),
    'far lists no models. To see whether it answers: svc run "…" --provider far',
  );
});

test.run();
