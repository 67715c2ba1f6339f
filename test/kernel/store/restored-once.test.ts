import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createStore, type StoredLog } from '../../../src/kernel/store/store.ts';

test('the calls that one rewrite of a damaged log interrupts share one restore', async () => {
  const asked: string[] = [];
  const waiting: (() => void)[] = [];
  let rewritten = 0;
  const log = {
    get rewritten() {
      return rewritten;
    },
    async ask(method: string) {
      asked.push(method);
      if (method === 'open') return { damaged: [] };
      if (method === 'recount') return null;
      if (rewritten === 0) await new Promise<void>((answer) => waiting.push(answer));
      return ['run_1'];
    },
  } as unknown as StoredLog;
  const store = createStore(log);
  const calls = [1, 2, 3].map(() => store.runsNamed('run_', 1));
  rewritten = 1;
  for (const answer of waiting) answer();
  assert.equal(await Promise.all(calls), [['run_1'], ['run_1'], ['run_1']]);
  assert.is(asked.filter((method) => method === 'open').length, 1);
  const again = store.runsNamed('run_', 1);
  assert.equal(await again, ['run_1']);
  assert.is(asked.filter((method) => method === 'open').length, 1, 'what came later is whole');
});

test.run();
