import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createMethods, type Reply } from '../../src/control/methods.ts';
import { defaultLimits } from '../../src/limits.ts';
import type { RunPage, Runtime } from '../../src/runtime/runtime.ts';
import { run } from '../cli/fake-daemon.ts';

/** Pages of runs over the local socket. */
const reply: Reply = { signal: new AbortController().signal, event: async () => {} };

/** What is asked of a runtime that holds these, newest first, and answers with any page that is wanted. */
function listing(runs: readonly RunPage['runs'][number][], frame_bytes: number) {
  const asked: number[] = [];
  const runtime = {
    listRuns: async ({ limit = 20, before }: { limit?: number; before?: string }) => {
      asked.push(limit);
      const from = before === undefined ? 0 : runs.findIndex(({ id }) => id === before) + 1;
      const page = runs.slice(from, from + limit);
      return { runs: page, next: from + limit < runs.length ? (page.at(-1)?.id ?? null) : null };
    },
  } as unknown as Runtime;
  const handlers = createMethods({ runtime, limits: { ...defaultLimits, frame_bytes }, token: () => '', config: () => null, ticket: () => '' });
  return { asked, list: (params: object) => handlers['run.list']({ ...params }, reply) as Promise<RunPage> };
}

const made = (count: number, prompt: string) => Array.from({ length: count }, (_, index) => ({ ...run, id: `run_${index}`, prompt }));

test('small runs come as many as are asked for, and next tells whether there are more', async () => {
  const { list } = listing(made(30, 'p'), 1024);
  for (const [params, count, next] of [
    [{}, 20, 'run_19'],
    [{ limit: 7 }, 7, 'run_6'],
    [{ limit: 30 }, 30, null],
    [{ limit: 5, before: 'run_26' }, 3, null],
    [{ limit: 0 }, 0, null],
  ] as const) {
    const page = await list(params);
    assert.equal([page.runs.length, page.next], [count, next], JSON.stringify(params));
  }
});

test('a page of large runs ends early, holds one at least, and nothing is left out', async () => {
  for (const [length, most] of [
    [400, 2],
    [5000, 1],
  ] as const) {
    const { list, asked } = listing(made(13, 'p'.repeat(length)), 1024);
    const seen: string[] = [];
    for (let next: string | null | undefined; next !== null; ) {
      const page: RunPage = await list(next === undefined ? {} : { before: next });
      assert.ok(page.runs.length >= 1 && page.runs.length <= most);
      seen.push(...page.runs.map(({ id }) => id));
      next = page.next;
    }
    assert.equal(
      seen,
      made(13, '').map(({ id }) => id),
    );
    assert.ok(Math.max(...asked) < 20, 'a few are read at a time');
  }
});

test.run();
