import { SvcError } from '../../../src/errors.ts';
import { notOpen } from '../../../src/kernel/store/failure.ts';
import { own } from '../../../src/kernel/store/files/ownership.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import type { SqliteOptions } from '../../../src/kernel/store/sqlite/sqlite.ts';
import { unpackError } from '../../../src/kernel/store/sqlite/thrown-error.ts';
import { answersOf } from '../../../src/kernel/store/sqlite/worker.ts';
import { type Ask, createStore } from '../../../src/kernel/store/store.ts';
import { defaultLimits } from '../../../src/limits.ts';

/**
 * The store that `createSqliteStore` makes, on the thread of the test: the start of a thread costs
 * more than most tests. What the thread and the caller send each other is copied here too.
 */
export function createStoreHere(options: SqliteOptions): EventStore {
  const { database, highWater, limits = defaultLimits, onAlarm = () => {} } = options;
  const { onReindexed = () => {} } = options;
  let perform: ReturnType<typeof answersOf> | null = null;
  let release: (() => void) | null = null;
  const ask: Ask = async (method, ...args) => {
    if (perform === null) throw notOpen();
    const reply = structuredClone(await perform(structuredClone({ id: 0, method, args })));
    if ('error' in reply) throw unpackError(reply.error);
    return reply.result as never;
  };
  const onRewritten = () => {
    rewritten += 1;
    onReindexed();
  };
  const end = () => {
    perform = null;
    release?.();
    release = null;
  };
  let rewritten = 0;
  return createStore(
    {
      ask,
      findsRequests: true,
      get rewritten() {
        return rewritten;
      },
      open: async () => {
        release = own(database);
        if (release === null) throw new SvcError('daemon_already_running');
        perform = answersOf({ database, highWater, limits }, (message) =>
          'alarm' in message ? onAlarm(unpackError(message.alarm)) : onRewritten(),
        );
        return ask('open').catch((error: unknown) => {
          end();
          throw error;
        });
      },
      close: async () => {
        if (perform === null) return;
        const closed = ask('close');
        perform = null;
        await closed.finally(end);
      },
    },
    options,
  );
}
