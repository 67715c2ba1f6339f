import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type DaemonSnapshot, daemonMachine } from '../../machines/daemon/chart.ts';
import type { DaemonEvent } from '../../machines/daemon/context.ts';
import { init, step } from '../../machines/step.ts';
import { ServiceNotice } from '../../src/daemon/service-notice.ts';
import { CREATED, EVENTS_TO, NOW } from '../helpers/daemon-paths.ts';
import { silent } from '../helpers/kernel.ts';
import { waitFor } from '../helpers/wait.ts';

const test = suite('service notice');

/** The real machine drives the notice. Messages arrive when the test says so. */
function setUp(env: NodeJS.ProcessEnv = { NOTIFY_SOCKET: '/run/notify' }) {
  const sent: string[][] = [];
  const onTheirWay: (() => void)[] = [];
  const ended = new AbortController();
  let listener: ((event: never, snapshot: DaemonSnapshot) => void) | null = null;
  let { snapshot } = init(daemonMachine, CREATED);
  new ServiceNotice(
    {
      kernel: {
        subscribe: (_: unknown, heard: never) => {
          listener = heard;
        },
      },
      daemon: 'daemon:boot_1',
      log: silent,
      env,
      send: (fields) => {
        sent.push([...fields]);
        return new Promise((resolve) => onTheirWay.push(resolve));
      },
    },
    ended.signal,
  );
  return {
    sent,
    listens: () => listener !== null,
    play: (events: readonly object[]) => {
      for (const event of events) {
        ({ snapshot } = step(daemonMachine, snapshot, { ...event, at: NOW } as DaemonEvent));
        listener?.({} as never, snapshot);
      }
    },
    arrive: async () => {
      onTheirWay.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
    end: () => ended.abort(),
  };
}

const to = (state: string) => EVENTS_TO[state] ?? [];
const admitted = { type: 'daemon.run_admitted', run_id: 'run_x' };
const settled = { type: 'daemon.run_settled', run_id: 'run_x' };

test('without the socket of systemd it listens to nothing', () => {
  assert.not(setUp({}).listens());
});

test('READY=1 is sent once, and runs that begin and end send nothing', async () => {
  const { play, sent, arrive } = setUp();
  play(to('starting.probing'));
  assert.equal(sent, []);
  play(to('ready').slice(-1));
  await arrive();
  play([admitted, settled, admitted, settled]);
  await arrive();
  assert.equal(sent, [['READY=1', 'STATUS=ready']]);
});

test('a full disk and its end are sent, with what they mean', async () => {
  const { play, sent, arrive } = setUp();
  play(to('running.disk_full'));
  await arrive();
  play([{ type: 'daemon.store_freed' }]);
  await arrive();
  assert.equal(sent, [
    ['READY=1', 'STATUS=ready'],
    ['STATUS=The disk is full: no new runs are accepted.'],
    ['STATUS=running: 1 run'],
  ]);
});

test('a message waits for the one before, and has the newest state', async () => {
  const { play, sent, arrive } = setUp();
  play(to('ready'));
  play([admitted, ...to('stopping.draining').slice(-1)]);
  assert.is(sent.length, 1);
  await arrive();
  assert.equal(sent[1], ['STOPPING=1', 'STATUS=stopping: 1 run']);
  await arrive();
  play([settled]);
  await arrive();
  assert.is(sent.length, 2);
});

/** Resolves after two intervals of a watchdog of the same limit. */
async function anotherHearsTwice(): Promise<void> {
  const { sent, arrive, end } = setUp({ NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '300000' });
  for (const count of [1, 2]) {
    await waitFor('another watchdog hears', () => sent.length >= count);
    await arrive();
  }
  end();
}

test('the watchdog hears from the loop, until the daemon has ended', async () => {
  const { play, sent, arrive, end } = setUp({
    NOTIFY_SOCKET: '/run/notify',
    WATCHDOG_USEC: '300000',
    WATCHDOG_PID: String(process.pid),
  });
  play(to('ready'));
  for (const count of [2, 3]) {
    await arrive();
    await waitFor('the watchdog hears', () => sent.length >= count);
    assert.equal(sent[count - 1], ['WATCHDOG=1', 'STATUS=ready']);
  }
  end();
  await arrive();
  const before = sent.length;
  await anotherHearsTwice();
  assert.is(sent.length, before);
});

test('a watchdog of another process is not ours', async () => {
  const { play, sent, arrive } = setUp({
    NOTIFY_SOCKET: '/run/notify',
    WATCHDOG_USEC: '1000',
    WATCHDOG_PID: '1',
  });
  play(to('ready'));
  await arrive();
  await anotherHearsTwice();
  assert.equal(sent, [['READY=1', 'STATUS=ready']]);
});

test.run();
