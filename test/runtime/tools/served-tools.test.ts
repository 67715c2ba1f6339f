import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { withServedTools } from '../../../src/runtime/tools/served-tools.ts';

test('a request without tool servers makes no timer and no signal', async () => {
  const asked: string[] = [];
  let signals = 0;
  const servers = {
    tools: async (server: string) => {
      asked.push(server);
      return [];
    },
    policy: () => 'allow' as const,
  };
  const until = () => {
    signals += 1;
    return new AbortController().signal;
  };
  const given = { servers, narrowings: [] };
  const input = await withServedTools({ prompt: 'p', tools: [] }, given, defaultLimits, until);
  assert.equal([input, asked, signals], [{ prompt: 'p', tools: [] }, [], 0]);
  const named = { prompt: 'p', tool_servers: ['notes'] };
  await withServedTools(named, given, defaultLimits, until);
  assert.equal([asked, signals], [['notes'], 1]);
});

test.run();
