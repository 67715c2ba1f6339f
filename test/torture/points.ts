import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import { connect } from '../../src/transport/control/client.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { checkLog } from './check.ts';
import { type Life, launch, ready, serve } from './daemon.ts';
import { startFakeModel } from './fake-model.ts';
import { newSeen, note, type RunSeen } from './record.ts';

/** The result of a kill at one system call. */
export interface Point {
  fault: string;
  /** False if the scenario ended before that call. */
  reached: boolean;
  acknowledged: number;
  problems: string[];
}

/**
 * Plays a scenario, and kills the daemon at its n-th such call on files of the log.
 * Then starts the daemon, plays the rest, and checks.
 */
export async function crashAt(
  call: 'pwrite64' | 'fsync' | 'fdatasync',
  when: number,
): Promise<Point> {
  const fault = `${call}:signal=SIGKILL:when=${when}`;
  const upstream = await startFakeModel();
  const home = makeHome({ SVC_MODEL: 'none', SVC_LIMIT_RESERVE_BYTES: '65536' });
  writeFileSync(
    home.paths.config,
    JSON.stringify({
      default_provider: 'fake',
      providers: { fake: { base_url: upstream.base_url, model: 'fake' } },
    }),
  );
  const seen: RunSeen[] = [];
  try {
    const files = ['', '-wal', '.high-water'].flatMap((end) => [
      '-P',
      end === '.high-water' ? home.paths.highWater : `${home.paths.database}${end}`,
    ]);
    const traced = launch(home, {
      wrapper: [
        'strace',
        '-f',
        '-qqq',
        '-o',
        '/dev/null',
        '-e',
        'signal=none',
        ...files,
        '-e',
        `trace=${call}`,
        '-e',
        `inject=${fault}`,
      ],
    });
    const reached = await diesAt(home, traced, seen);
    const again = await serve(home);
    await scenario(home, again, seen);
    await again.stop(60_000);
    const { problems, acknowledged } = await checkLog(home, seen, new Map());
    return { fault, reached, acknowledged, problems };
  } finally {
    await upstream.stop();
    await home.close();
  }
}

/**
 * Plays the scenario until it or the daemon ends. False if the scenario ended first.
 * Throws errors that happen while the daemon lives.
 */
async function diesAt(home: Home, traced: Life, seen: RunSeen[]): Promise<boolean> {
  const died = traced.ended.then(() => true);
  try {
    const played = scenario(home, traced, seen).then(
      () => false,
      // Connections break before the process is gone.
      (error: unknown) =>
        delay(DEATH_MS, undefined, { ref: false }).then(() => Promise.reject(error)),
    );
    const reached = await Promise.race([played, died]);
    if (!reached) await traced.stop(0);
    return reached;
  } finally {
    await end(home, traced);
  }
}

/** From the loss of its connections to the exit of the daemon: generous. */
const DEATH_MS = 30_000;

/** Five requests with a key each, one of them cancelled. Repeated, each gives the same run. */
async function scenario(home: Home, life: Life, seen: RunSeen[]): Promise<void> {
  await ready(life);
  const client = await connect(home.paths.socket);
  try {
    for (let turn = 0; turn < 5; turn += 1) {
      const prompt = `fake t${turn} 6 ${turn === 2 ? 50 : 0}`;
      const one =
        seen[turn] ?? newSeen({ prompt, seed: null, temperature: null, key: `key-${turn}` });
      seen[turn] = one;
      const { id } = await client.call('run.start', { prompt, idempotency_key: one.key });
      one.ids.add(id);
      if (turn === 2) one.cancelled = (await client.call('run.cancel', { id })).state;
      one.events = [];
      for await (const event of client.stream('run.follow', { id, from_seq: 0 }))
        if ('type' in event) note(one, event);
    }
  } finally {
    client.close();
  }
}

/** The daemon survives its tracer. The home's runtime file names it. */
async function end(home: Home, traced: Life): Promise<void> {
  const found = readRuntimeFile(home.paths.runtime);
  await traced.kill();
  if (found.kind !== 'present') return;
  for (let tries = 0; tries < 100; tries += 1) {
    try {
      process.kill(found.file.pid, 'SIGKILL');
    } catch {
      return;
    }
    await delay(20);
  }
}
