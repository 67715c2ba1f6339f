import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { execute } from '../../src/cli/terminal/execute.ts';
import { bootUntilEnd } from '../../src/daemon/index.ts';
import { SvcError } from '../../src/errors.ts';

const UNCAUGHT = ['uncaughtException', 'unhandledRejection'] as const;

test('a daemon that loses each of its leases begins again, and waits longer each time', async () => {
  const waits: number[] = [];
  let left = 20;
  const failure = await bootUntilEnd(
    async () => {
      left -= 1;
      return left < 0 ? null : new SvcError('lease_lost');
    },
    async (ms) => waits.push(ms),
  );
  assert.is(failure, null);
  assert.equal(waits.slice(0, 7), [250, 500, 1000, 2000, 4000, 8000, 10_000]);
  assert.is(waits.length, 20);
  assert.is(Math.max(...waits), 10_000);
});

test('a boot that fails otherwise is the last one', async () => {
  const failures = [new SvcError('lease_lost'), new SvcError('store_failed')];
  const rejoined: boolean[] = [];
  const failure = await bootUntilEnd(
    async (rejoins) => {
      rejoined.push(rejoins);
      return failures.shift() ?? null;
    },
    async () => {},
  );
  assert.equal(rejoined, [false, true]);
  assert.is(failure?.code, 'store_failed');
});

test('an error of a boot that has ended is a warning, and the next boot begins', async () => {
  const warned: string[] = [];
  const { emitWarning } = process;
  process.emitWarning = (warning) => {
    warned.push(String(warning));
  };
  const failures = [new SvcError('lease_lost')];
  const failure = await bootUntilEnd(
    async () => failures.shift() ?? null,
    async () => {
      process.emit('uncaughtException', new Error('late uncaughtException'));
      process.emit('unhandledRejection', new Error('late unhandledRejection'), never);
    },
  );
  process.emitWarning = emitWarning;
  assert.is(failure, null);
  assert.equal(
    warned,
    UNCAUGHT.map((event) => `Error: late ${event}`),
  );
  for (const event of UNCAUGHT) assert.is(process.listenerCount(event), 0);
});

test('an error that a daemon hears does not exit its process', async () => {
  const { exit } = process;
  const exits: unknown[] = [];
  const heard: string[] = [];
  process.exit = ((code: unknown) => exits.push(code)) as typeof process.exit;
  const hear = (error: Error) => heard.push(error.message);
  try {
    await execute(true, async () => {
      process.on('uncaughtException', hear);
      process.emit('uncaughtException', new Error('of a connection'));
      process.off('uncaughtException', hear);
      return 0;
    });
  } finally {
    process.exit = exit;
    process.removeAllListeners('uncaughtException');
  }
  assert.equal([heard, exits], [['of a connection'], []]);
});

const never = new Promise<never>(() => {});

test.run();
