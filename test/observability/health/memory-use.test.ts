import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { bootRuntime } from '../../helpers/runtime.ts';
import { ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';

test('a process without free descriptors reports a health warning with the cause, and recovers', async () => {
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    store: createMemoryStore(),
  });
  const before = runtime.report();
  assert.is(before.status, 'pass');
  const ask = process.memoryUsage;
  process.memoryUsage = Object.assign(
    () => {
      throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
    },
    { rss: ask.rss },
  );
  try {
    const { status, output, memory, checks } = runtime.report();
    assert.is(status, 'warn');
    assert.match(output ?? '', /EMFILE/);
    assert.equal(memory, before.memory);
    assert.is(checks['memory:rss']?.[0]?.status, 'warn');
  } finally {
    process.memoryUsage = ask;
  }
  assert.is(runtime.report().status, 'pass');
});

test.run();
