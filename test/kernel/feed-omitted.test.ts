import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EventRecord } from '../../src/contract/contract.ts';
import type { SvcError } from '../../src/errors.ts';
import { strippingStore } from '../../src/kernel/content.ts';
import { NobodyElse } from '../../src/kernel/elsewhere.ts';
import { EventPages } from '../../src/kernel/event-pages.ts';
import { followStream } from '../../src/kernel/feed.ts';
import { RECENT_MAX } from '../../src/kernel/instance.ts';
import { followLog } from '../../src/kernel/log-feed.ts';
import { LogTail } from '../../src/kernel/log-tail.ts';
import { stream } from '../../src/kernel/stream.ts';
import type { OutputPart } from '../../src/ports/providers.ts';
import { eventData } from '../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../helpers/events.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, gate, output, ScriptedProvider } from '../helpers/scripted-provider.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { waitFor } from '../helpers/wait.ts';

const PIECES = RECENT_MAX * 2;
const ANSWER = Array.from({ length: PIECES }, (_, index) => `piece ${index} é𝄞\n`);
const LIMITS = { feed_events: 16, feed_bytes: 1e6, event_followers: 2, store_page_bytes: 1e6 };
const isLast = ({ type }: { type: string }) => type === 'run.completed';
const never = () => new AbortController().signal;

/** A run of many pieces, stored without their text. It ends when the test says so. */
async function begun(
  history: { outputs?: 'omit'; redact?: string[] },
  pieces: readonly OutputPart[] = ANSWER.map((piece) => output(piece, 1)),
) {
  const store = strippingStore(createMemoryStore(), {
    prompts: 'keep',
    outputs: 'keep',
    redact: [],
    ...history,
  });
  const end = gate();
  const breath = () => new Promise<void>((resolve) => setImmediate(resolve));
  const local = new ScriptedProvider('local', [
    ...pieces.flatMap((piece) => [piece, breath]),
    () => end.opened,
    finish(),
  ]);
  const harness = await bootRuntime({ local, store });
  const { runtime, kernel } = harness;
  const pages = new EventPages(1e6);
  const id = stream.run((await runtime.runs.start({ prompt: 'tell' }, 'test')).id);
  const follow = (from_seq = 0) =>
    eventsOf(
      followStream({ kernel, store, pages, elsewhere: new NobodyElse(kernel) }, id, {
        form: eventData,
        from_seq,
        signal: never(),
        isLast,
      }),
    )[Symbol.asyncIterator]();
  const answer = pieces.flatMap((piece) =>
    piece.type === 'output' && piece.kind === undefined ? [piece.text] : [],
  );
  const isSaid = async () => (await runtime.runs.get(id)).output === answer.join('');
  return {
    ...harness,
    store,
    id,
    follow,
    said: () => waitFor('the text is complete', isSaid),
    end: end.open,
    ended: () => waitFor('it is over', () => !kernel.instances.has(id)),
  };
}

async function textOf(events: AsyncIterator<EventRecord>): Promise<string> {
  let text = '';
  for (let next = await events.next(); next.done !== true; next = await events.next()) {
    if (next.value.type === 'run.output_appended') text += next.value.data.text;
  }
  return text;
}

/** Thoughts, then two calls in turns, then text: more pieces than the memory has. */
const KINDS: readonly OutputPart[] = Array.from({ length: PIECES }, (_, index): OutputPart => {
  const said: Extract<OutputPart, { type: 'output' }> = {
    type: 'output',
    text: `${index} é𝄞 `,
    token_ids: [1],
  };
  if (index < PIECES / 4) return { ...said, kind: 'reasoning' };
  if (index >= PIECES / 2) return said;
  const id = index % 2 === 0 ? 'even' : 'odd';
  return { ...said, kind: 'tool_call', call: { id, name: 'count' } };
});

/** All texts by kind and call, as a follower gets them. */
async function kindsOf(events: AsyncIterator<EventRecord>): Promise<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (let next = await events.next(); next.done !== true; next = await events.next()) {
    const { type, data } = next.value;
    if (type !== 'run.output_appended') continue;
    const { kind = 'text', call } = data as { kind?: string; call?: { id: string } };
    const name = `${kind} ${call?.id ?? ''}`;
    texts[name] = (texts[name] ?? '') + data.text;
  }
  return texts;
}

test('a slow follower gets every kind of output in full, each call apart', async () => {
  const { follow, said, end, ended } = await begun({ outputs: 'omit' }, KINDS);
  const slow = follow();
  await slow.next();
  await said();
  const texts = kindsOf(slow);
  end();
  await ended();
  const textsOf = (name: string) =>
    KINDS.flatMap((piece) =>
      piece.type === 'output' && `${piece.kind ?? 'text'} ${piece.call?.id ?? ''}` === name
        ? [piece.text]
        : [],
    ).join('');
  const names = ['reasoning ', 'tool_call even', 'tool_call odd', 'text '];
  assert.equal(await texts, Object.fromEntries(names.map((name) => [name, textsOf(name)])));
});

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);

for (const history of [{ outputs: 'omit' as const }, { redact: ['secret'] }]) {
  const what = JSON.stringify(history);

  test(`a slow follower gets the whole text, during the run and after its end: ${what}`, async () => {
    const { follow, said, end, ended } = await begun(history);
    const [during, after] = [follow(), follow()];
    await Promise.all([during.next(), after.next()]);
    await said();
    const text = textOf(during);
    const late = textOf(follow());
    end();
    assert.is(await text, ANSWER.join(''));
    assert.is(await late, ANSWER.join(''), 'who comes later, too');
    await ended();
    assert.is(await textOf(after), ANSWER.join(''));
  });

  test(`a follower of a run that left memory learns that its text is not kept: ${what}`, async () => {
    const { follow, said, end, ended, runtime, id } = await begun(history);
    await said();
    end();
    await ended();
    assert.is(await codeOf(textOf(follow())), 'content_not_kept');
    assert.is(
      await codeOf(textOf(follow((await runtime.runs.get(id)).seq - 1))),
      'content_not_kept',
    );
    assert.is(
      await textOf(follow((await runtime.runs.get(id)).seq)),
      '',
      'who has it all is not troubled',
    );
  });
}

test('a slow follower of the whole log gets the text of a run in memory, and later what the log holds', async () => {
  const { kernel, store, said, end, ended } = await begun({ outputs: 'omit' });
  const tail = new LogTail(kernel, LIMITS);
  const read = () =>
    eventsOf(
      followLog(
        { kernel, store, tail, pages: new EventPages(1e6), elsewhere: new NobodyElse(kernel) },
        { form: eventData, from_seq: 1, follow: false, signal: never(), wants: () => true },
      ),
    )[Symbol.asyncIterator]();
  await said();
  assert.is(await textOf(read()), ANSWER.join(''));
  end();
  await ended();
  assert.is(await textOf(read()), '');
});

test.run();
