import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunPage } from '../../../src/contract/contract.ts';
import type { Runtime } from '../../../src/operations/port.ts';
import { eventData } from '../../../src/transport/stream/event-forms.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';

const never = new AbortController().signal;

/** The ids of runs with these prompts, answered one after the other. */
async function answered(runtime: Runtime, prompts: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const prompt of prompts) {
    const run = await runtime.runs.start({ prompt }, 'test');
    for await (const _ of runtime.runs.follow(run.id, { form: eventData, signal: never }));
    ids.push(run.id);
  }
  return ids;
}

test('a page of history continues where the last one ended', async () => {
  const { runtime } = await bootRuntime({ local: new ScriptedProvider('local', [finish()]) });
  const ids = (await answered(runtime, ['0', '1', '2', '3', '4'])).reverse();
  const first = await runtime.runs.list({ limit: 3 });
  const second = await runtime.runs.list({
    limit: 3,
    ...(first.next === null ? {} : { before: first.next }),
  });
  assert.equal(
    [...first.runs, ...second.runs].map((run) => run.id),
    ids,
  );
  assert.is(second.next, null);
});

test('small runs fill a page as requested, and next shows whether there are more', async () => {
  const { runtime } = await bootRuntime({ local: new ScriptedProvider('local', [finish()]) });
  const ids = (await answered(runtime, Array<string>(30).fill('p'))).reverse();
  for (const [query, count, next] of [
    [{}, 20, ids[19]],
    [{ limit: 7 }, 7, ids[6]],
    [{ limit: 8 }, 8, ids[7]],
    [{ limit: 30 }, 30, null],
    [{ limit: 5, before: ids[26] as string }, 3, null],
    [{ limit: 0 }, 0, null],
  ] as const) {
    const page = await runtime.runs.list(query);
    assert.equal([page.runs.length, page.next], [count, next], JSON.stringify(query));
  }
});

test('a page of short texts has the beginning of each run, and marks the shortened ones', async () => {
  const local = new ScriptedProvider('local', [output('y'.repeat(5000), 1), finish()]);
  const { runtime } = await bootRuntime({ local, limits: { page_bytes: 1024 } });
  const long = await answered(runtime, ['x'.repeat(3000), 'x'.repeat(3000)]);
  const page = await runtime.runs.list({ texts: 'short' });
  assert.equal(
    page.runs.map(({ id, prompt, output, shortened }) => [
      id,
      prompt.length,
      output.length,
      shortened,
    ]),
    [...long].reverse().map((id) => [id, 200, 200, true]),
  );
  assert.is(page.next, null);
  assert.is((await runtime.runs.list({ texts: 'whole' })).runs[0]?.output.length, 5000);
});

test('a page of short runs has as many as it was asked for, however large they are', async () => {
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', [finish()]),
    limits: { page_bytes: 4096, store_page_bytes: 4096 },
  });
  await answered(runtime, Array<string>(13).fill('p'.repeat(5000)));
  const { runs, next } = await runtime.runs.list({ limit: 13 });
  assert.equal([runs.length, next], [13, null]);
  assert.ok(runs.every((run) => run.prompt === 'p'.repeat(200) && run.shortened === true));
});

test('a page of whole large runs ends early, has at least one, and omits none', async () => {
  for (const [length, most] of [
    [400, 2],
    [5000, 1],
  ] as const) {
    const { runtime } = await bootRuntime({
      local: new ScriptedProvider('local', [finish()]),
      limits: { page_bytes: 1024 },
    });
    const ids = await answered(runtime, Array<string>(13).fill('p'.repeat(length)));
    const seen: string[] = [];
    for (let next: string | null | undefined; next !== null; ) {
      const page: RunPage = await runtime.runs.list(
        next === undefined ? { texts: 'whole' } : { texts: 'whole', before: next },
      );
      assert.ok(page.runs.length >= 1 && page.runs.length <= most);
      seen.push(...page.runs.map(({ id }) => id));
      next = page.next;
    }
    assert.equal(seen, ids.reverse());
  }
});

test.run();
