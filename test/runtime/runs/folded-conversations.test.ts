import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { StoredEvent } from '../../../src/kernel/store/port.ts';
import { stream } from '../../../src/kernel/stream.ts';
import { FoldedConversations } from '../../../src/runtime/conversations/folded.ts';

const key = stream.conversation('conv_1');
const CREATED = { conversation_id: 'conv_1', metadata: {}, messages: [] };

/** The events of a conversation with so many runs. They begin at this position of the log. */
function eventsOf(runs: number, first_seq = 1): StoredEvent[] {
  return Array.from({ length: runs + 1 }, (_, index) => ({
    seq: first_seq + index,
    stream: key,
    version: index + 1,
    type: index === 0 ? 'conversation.created' : 'conversation.run_added',
    schema: 2,
    at: 1,
    boot_id: 'b',
    data: index === 0 ? CREATED : { run_id: `run_${index}`, place: index - 1 },
  }));
}

/** A log that counts the events which it gives. */
function logOf(events: StoredEvent[]) {
  const log = {
    events,
    given: 0,
    readStream: async (_: string, from: number, limit: number) => {
      const page = log.events.filter(({ version }) => version >= from).slice(0, limit);
      log.given += page.length;
      return page;
    },
  };
  return log;
}

test('a conversation is folded once, and then from its last event on', async () => {
  const log = logOf(eventsOf(50));
  const folded = new FoldedConversations(log);
  const fold = async () => {
    log.given = 0;
    const instance = await folded.fold(key);
    return [log.given, instance?.snapshot.context.entries.length, instance?.version];
  };
  assert.equal(await fold(), [51, 50, 51]);
  assert.equal(await fold(), [1, 50, 51]);
  log.events = eventsOf(52);
  assert.equal(await fold(), [3, 52, 53]);
  const [one, two] = await Promise.all([folded.fold(key), folded.fold(key)]);
  assert.is.not(one, two, 'each caller has its own');
  assert.is(two?.recent.at(-1)?.version, 53);
});

test('a state is used only while the log has its last event', async () => {
  const log = logOf(eventsOf(5));
  const folded = new FoldedConversations(log);
  await folded.fold(key);
  log.events = eventsOf(3, 20);
  assert.is((await folded.fold(key))?.snapshot.context.entries.length, 3);
  log.events = [];
  assert.is(await folded.fold(key), undefined);
});

test.run();
