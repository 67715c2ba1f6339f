import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import type { Upstream } from '../helpers/upstream.ts';
import { type Life, launch, ready } from './daemon.ts';
import { startFakeModel } from './fake-model.ts';
import type { Random } from './random.ts';

/** A home with a daemon that is killed again and again, and a provider beside it that is not. */
export class World {
  readonly home: Home;
  readonly upstream: Upstream;
  life: Life;
  /** Kills of the daemon, of those before it was ready, and of the engine; and its clean stops. */
  readonly counts = { kills: 0, early_kills: 0, engine_kills: 0, stops: 0 };
  /** From the start of each life to its first ready answer, in milliseconds. */
  readonly ready_ms: number[] = [];

  private constructor(home: Home, upstream: Upstream) {
    this.home = home;
    this.upstream = upstream;
    this.life = launch(home);
  }

  static async open(): Promise<World> {
    const upstream = await startFakeModel();
    const home = makeHome(ENVIRONMENT);
    mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
    makeGguf(join(home.paths.models, 'random.gguf'), { context: 1024, width: 128, layers: 6, seed: 5 });
    writeFileSync(home.paths.config, JSON.stringify({ providers: { fake: { base_url: upstream.base_url, model: 'fake' } } }));
    const world = new World(home, upstream);
    await world.isReady();
    return world;
  }

  async isReady(): Promise<void> {
    const began = performance.now();
    await ready(this.life);
    this.ready_ms.push(performance.now() - began);
  }

  /** One cycle: something is killed or stopped at a random moment, and the daemon runs again afterwards. */
  async cycle(draw: Random): Promise<void> {
    await delay(draw.chance(0.6) ? draw.whole(0, SHORT_MS) : draw.whole(SHORT_MS, LONG_MS));
    if (draw.chance(0.3) && (await this.killEngine())) return;
    if (draw.chance(0.04)) await this.stop(0);
    else await this.killDaemon();
    this.life = launch(this.home);
    while (draw.chance(0.12)) {
      await delay(draw.whole(0, EARLY_MS));
      await this.killDaemon();
      this.counts.early_kills += 1;
      this.life = launch(this.home);
    }
    await this.isReady();
  }

  async stop(timeout_ms: number): Promise<void> {
    const { code } = await this.life.stop(timeout_ms);
    if (code !== 0) throw new Error(`a clean stop ended with ${code}:\n${this.life.printed().slice(-2000)}`);
    this.counts.stops += 1;
  }

  async close(): Promise<void> {
    await this.life.kill();
    await this.upstream.stop();
    await this.home.close();
  }

  private async killDaemon(): Promise<void> {
    await this.life.kill();
    this.counts.kills += 1;
  }

  /** False when there is none to kill. */
  private async killEngine(): Promise<boolean> {
    const report = await this.life.ask((client) => client.call('report')).catch(() => null);
    const pid = report?.engine.pid ?? null;
    if (pid === null || !isChild(pid, this.life.pid)) return false;
    process.kill(pid, 'SIGKILL');
    this.counts.engine_kills += 1;
    return true;
  }
}

/** How long a life of the daemon goes undisturbed: often too short for the engine to load its model. */
const SHORT_MS = 500;
const LONG_MS = 2000;
/** Longest time until it is killed on its way up. */
const EARLY_MS = 400;

const ENVIRONMENT = {
  SVC_ENGINE_THREADS: '1',
  SVC_MODEL: 'random',
  // It is killed far more often than any program that is given up for it.
  SVC_LIMIT_RUN_LOSSES: '1000',
  SVC_LIMIT_QUEUE_RUNS: '500',
  SVC_LIMIT_PROBE_EVERY_MS: '500',
};

/** Only a process that this daemon has made is ever killed. */
function isChild(pid: number, parent: number): boolean {
  try {
    return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]) === parent;
  } catch {
    return false;
  }
}
