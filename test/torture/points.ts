import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../src/control/client.ts';
import { readRuntimeFile } from '../../src/runtime-file.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { checkLog } from './check.ts';
import { type Life, launch, ready, serve } from './daemon.ts';
import { startFakeModel } from './fake-model.ts';
import { newSeen, note, type RunSeen } from './record.ts';

/** What came of a daemon that was killed at one system call. */
export interface Point {
  fault: string;
  /** False when the scenario was over before that call. */
  reached: boolean;
  acknowledged: number;
  problems: string[];
}

/** Plays a scripted scenario with a daemon that is killed at its n-th call of this kind to the files of the log; then starts it again, plays the rest, and checks. */
export async function crashAt(call: 'pwrite64' | 'fsync', when: number): Promise<Point> {
  const fault = `${call}:signal=SIGKILL:when=${when}`;
  const upstream = await startFakeModel();
  const home = makeHome({ SVC_MODEL: 'none', SVC_LIMIT_RESERVE_BYTES: '65536' });
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'fake', providers: { fake: { base_url: upstream.base_url, model: 'fake' } } }));
  const seen: RunSeen[] = [];
  try {
    const files = ['', '-wal', '.high-water'].flatMap((end) => ['-P', end === '.high-water' ? home.paths.highWater : `${home.paths.database}${end}`]);
    const traced = launch(home, {
      wrapper: ['strace', '-f', '-qqq', '-o', '/dev/null', '-e', 'signal=none', ...files, '-e', `trace=${call}`, '-e', `inject=${fault}`],
    });
    const over = traced.ended.then(() => true);
    const finished = await Promise.race([scenario(home, traced, seen).then(() => false), over]).catch(() => over);
    if (!finished) await traced.stop(0);
    await end(home, traced);
    const again = await serve(home);
    await scenario(home, again, seen);
    await again.stop(60_000);
    const { problems, acknowledged } = await checkLog(home, seen, new Map());
    return { fault, reached: finished, acknowledged, problems };
  } finally {
    await upstream.stop();
    await home.close();
  }
}

/** Five requests with a key each, one of them cancelled; asked again, each is answered with the same run. */
async function scenario(home: Home, life: Life, seen: RunSeen[]): Promise<void> {
  await ready(life);
  const client = await connect(home.paths.socket);
  try {
    for (let turn = 0; turn < 5; turn += 1) {
      const prompt = `fake t${turn} 6 ${turn === 2 ? 50 : 0}`;
      const one = seen[turn] ?? newSeen({ prompt, seed: null, temperature: null, key: `key-${turn}` });
      seen[turn] = one;
      const { id } = await client.call('run.start', { prompt, idempotency_key: one.key });
      one.ids.add(id);
      if (turn === 2) one.cancelled = (await client.call('run.cancel', { id })).state;
      one.events = [];
      for await (const event of client.stream('run.follow', { id, from_seq: 0 })) if ('type' in event) note(one, event);
    }
  } finally {
    client.close();
  }
}

/** The tracer's child outlives it: it is found in the home's own file. */
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
