import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CUT, FILE, isThere, MODEL, OTHER, pulls } from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';

/** Pulls that are cancelled, left alone, silent, or several at one time. */

pulls(
  'silence in the middle of a file ends the attempt, its connection too, and the next one goes on',
  async (harness) => {
    const { pull, hub, clock, config } = harness;
    hub.next.push({ hangAfter: CUT });
    const pulling = pull('hf:user/tiny');
    await harness.fetched(FILE, CUT);
    clock.advance(config.limits.pull_idle_ms + 1);
    const { records, last } = await pulling;
    assert.ok(
      records.some(
        ({ state, error }) => state === 'backoff' && error?.message.includes('stopped sending'),
      ),
    );
    assert.is(last?.state, 'completed');
    assert.is(hub.sent, MODEL.length);
    isThere(harness);
  },
);

pulls(
  'silence instead of an answer ends the attempt, and a hub that stays silent ends the pull',
  async ({ pull, hub, clock, config }) => {
    for (let time = 0; time < 20; time += 1) hub.nextLists.push({ silent: true });
    const pulling = pull('hf:user/tiny');
    for (let time = 1; time <= config.limits.pull_failures; time += 1) {
      await waitFor(`the hub was asked ${time} times`, () => hub.lists.length === time);
      clock.advance(config.limits.pull_idle_ms + 1);
    }
    const { error } = await pulling;
    assert.is(error?.code, 'pull_failed');
    assert.is(hub.lists.length, config.limits.pull_failures);
    await waitFor('no connection is left open', () => hub.open.size === 0);
  },
);

pulls(
  'cancelled, it is over when the work has stopped; what was fetched stays and is gone on with',
  async (harness) => {
    const { pull, hub, runtime, events, sizeOf } = harness;
    hub.next.push({ hangAfter: CUT });
    let id = '';
    const first = pull('hf:user/tiny', {
      onRecord: (record) => {
        id = record.id;
      },
    });
    await harness.fetched(FILE, CUT);
    assert.equal(await runtime.pulls.cancel(id, 'test'), { cancelled: true });
    assert.is((await events()).at(-1)?.type, 'pull.cancelled');
    assert.equal((await events()).at(-1)?.data, { forced: false });
    assert.is((await first).error?.code, 'pull_cancelled');
    assert.is(sizeOf(`${FILE}.partial`), CUT);
    assert.equal(await runtime.pulls.cancel(id, 'test'), { cancelled: true });
    const { last } = await pull('hf:user/tiny');
    assert.is(last?.offset_bytes, CUT);
    assert.is(hub.sent, MODEL.length);
    isThere(harness);
  },
);

pulls(
  'while it waits for its next attempt it can be cancelled',
  async ({ runtime, hub, inFolder, events }) => {
    hub.usual = { status: 503 };
    const signal = new AbortController().signal;
    const codes: string[] = [];
    try {
      for await (const record of runtime.pulls.pull(
        { reference: 'hf:user/tiny', name: null, sha256: null },
        'test',
        signal,
      )) {
        if (record.state === 'backoff') await runtime.pulls.cancel(record.id, 'test');
      }
    } catch (error) {
      codes.push((error as { code: string }).code);
    }
    assert.equal(codes, ['pull_cancelled']);
    assert.equal(inFolder(), []);
    assert.is((await events()).at(-1)?.type, 'pull.cancelled');
  },
);

pulls(
  'two who ask for the same wait for one pull, and it goes on when one of them leaves',
  async (harness) => {
    const { pull, hub, runtime } = harness;
    hub.next.push({ hangAfter: CUT });
    const leave = new AbortController();
    const ids = new Set<string>();
    const seen = (record: { id: string }) => void ids.add(record.id);
    const first = pull('hf:user/tiny', { signal: leave.signal, onRecord: seen });
    await harness.fetched(FILE, CUT);
    let attached = false;
    const second = pull('hf:user/tiny', {
      onRecord: (record) => {
        attached = true;
        seen(record);
      },
    });
    await waitFor('the second waits too', () => attached);
    const [id = ''] = ids;
    assert.equal(await runtime.pulls.cancel(id, 'test'), { cancelled: false });
    leave.abort();
    await first;
    harness.clock.advance(harness.config.limits.pull_idle_ms + 1);
    const { last, error } = await second;
    assert.is(error, null);
    assert.is(last?.model?.id, 'local/tiny-Q4_K_M');
    assert.is(ids.size, 1);
    assert.is(hub.sent, MODEL.length);
    isThere(harness);
  },
);

pulls('two models are fetched at one time, and a third is refused as busy', async (harness) => {
  const { pull, hub, inFolder } = harness;
  hub.files.set('b.gguf', OTHER);
  hub.files.set('c.gguf', OTHER);
  hub.next.push({ hangAfter: CUT }, { hangAfter: CUT });
  const both = [pull(`${hub.url}/${FILE}`), pull(`${hub.url}/b.gguf`)];
  await harness.fetched(FILE, CUT);
  await harness.fetched('b.gguf', CUT);
  assert.is((await pull(`${hub.url}/c.gguf`)).error?.code, 'busy');
  harness.clock.advance(harness.config.limits.pull_idle_ms + 1);
  const ends = await Promise.all(both);
  assert.equal(
    ends.map(({ last }) => last?.state),
    ['completed', 'completed'],
  );
  assert.equal(inFolder(), ['b.gguf', FILE]);
  assert.is((await pull(`${hub.url}/c.gguf`)).last?.state, 'completed');
});

pulls('two references that come to the same file do not write it at one time', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ hangAfter: CUT });
  const first = pull('hf:user/tiny');
  await harness.fetched(FILE, CUT);
  const { error } = await pull('hf:user/tiny:Q4_K_M');
  assert.is(error?.code, 'busy');
  assert.match(error?.hint ?? '', 'Wait until it has ended');
  harness.clock.advance(harness.config.limits.pull_idle_ms + 1);
  assert.is((await first).last?.state, 'completed');
  isThere(harness);
});

pulls(
  'when the daemon stops, pulls stop with it, and say that they can be gone on with',
  async (harness) => {
    const { pull, hub, pulls: all, sizeOf } = harness;
    hub.next.push({ hangAfter: CUT });
    const pulling = pull('hf:user/tiny');
    await harness.fetched(FILE, CUT);
    await all.close();
    assert.is((await pulling).error?.code, 'daemon_stopping');
    assert.is(sizeOf(`${FILE}.partial`), CUT);
  },
);

pulls(
  'how far it came is known also when nothing more comes, and told no more often than it may be',
  async (harness) => {
    const { pull, hub, events } = harness;
    hub.next.push({ hangAfter: CUT });
    const seen: number[] = [];
    const stop = new AbortController();
    const pulling = pull('hf:user/tiny', {
      signal: stop.signal,
      onRecord: ({ bytes }) => {
        seen.push(bytes);
      },
    });
    await waitFor('the last byte that arrived is reported', () => seen.includes(CUT));
    stop.abort();
    await pulling;
    const told = (await events())
      .filter(({ type }) => type === 'pull.progressed')
      .map(({ data }) => data.bytes);
    assert.is(new Set(told).size, told.length);
  },
);

pulls(
  'a pull that is quicker than the time between two events of progress has none',
  async ({ pull, events }) => {
    assert.is((await pull('hf:user/tiny')).last?.state, 'completed');
    assert.not.ok(
      (await events()).some(({ type }) => type === 'pull.progressed' || type === 'pull.hashed'),
    );
  },
  { limits: { pull_progress_ms: 60_000 } },
);

test.run();
