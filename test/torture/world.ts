import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { engineProcesses } from '../helpers/engine-processes.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import type { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, launch, ready } from './daemon.ts';
import { startFakeModel } from './fake-model.ts';
import type { Random } from './random.ts';

/** A home with a daemon that is killed again and again, and a provider that is not. */
export class World {
  readonly home: Home;
  readonly upstream: Upstream;
  life: Life;
  readonly counts: Record<Kind, number> = {
    daemon: 0,
    daemon_early: 0,
    engine: 0,
    engine_busy: 0,
    stop: 0,
  };
  /** Milliseconds from each start to the first ready answer. */
  readonly ready_ms: number[] = [];

  private deck: Kind[] = [];

  private constructor(home: Home, upstream: Upstream) {
    this.home = home;
    this.upstream = upstream;
    this.life = launch(home);
  }

  static async open(): Promise<World> {
    const upstream = await startFakeModel();
    const home = makeHome(ENVIRONMENT);
    mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
    makeGguf(join(home.paths.models, 'random.gguf'), {
      context: 1024,
      width: 128,
      layers: 6,
      seed: 5,
      template: null,
    });
    writeFileSync(
      home.paths.config,
      JSON.stringify({ providers: { fake: { base_url: upstream.base_url, model: 'fake' } } }),
    );
    const world = new World(home, upstream);
    await world.isReady();
    return world;
  }

  async isReady(): Promise<void> {
    const began = performance.now();
    await ready(this.life);
    this.ready_ms.push(performance.now() - began);
  }

  /** One cycle: kills or stops something at a random moment, and starts the daemon again. */
  async cycle(draw: Random): Promise<void> {
    const kind = this.deal(draw);
    await delay(draw.chance(0.6) ? draw.whole(0, SHORT_MS) : draw.whole(SHORT_MS, LONG_MS));
    if (kind === 'engine' || kind === 'engine_busy') return this.killEngine(kind, draw);
    if (kind === 'stop') await this.stop(0);
    else await this.killDaemon('daemon');
    this.life = launch(this.home);
    for (let early = kind === 'daemon_early'; early; early = draw.chance(0.3)) {
      await delay(draw.whole(0, EARLY_MS));
      await this.killDaemon('daemon_early');
      this.life = launch(this.home);
    }
    await this.isReady();
  }

  async stop(timeout_ms: number): Promise<void> {
    const { code } = await this.life.stop(timeout_ms);
    if (code !== 0)
      throw new Error(`a clean stop ended with ${code}:\n${this.life.printed().slice(-2000)}`);
    this.counts.stop += 1;
  }

  async close(): Promise<void> {
    await this.life.kill();
    await this.upstream.stop();
    await this.home.close();
  }

  private deal(draw: Random): Kind {
    if (this.deck.length === 0) this.deck = [...DECK];
    return this.deck.splice(draw.whole(0, this.deck.length - 1), 1)[0] as Kind;
  }

  private async killDaemon(kind: 'daemon' | 'daemon_early'): Promise<void> {
    await this.life.kill();
    this.counts[kind] += 1;
  }

  /**
   * Waits for an engine, since most boots end before its model is loaded. Kills only processes of
   * this daemon.
   */
  private async killEngine(kind: 'engine' | 'engine_busy', draw: Random): Promise<void> {
    await waitFor(kind === 'engine' ? 'there is an engine' : 'the engine computes', async () => {
      if (kind === 'engine_busy' && !(await this.isComputing())) return false;
      await delay(draw.whole(0, ENGINE_MS));
      const [pid] = await engineProcesses(this.life.pid);
      return pid !== undefined && kill(pid);
    });
    this.counts[kind] += 1;
  }

  private async isComputing(): Promise<boolean> {
    const report = await this.life.ask((client) => client.call('report')).catch(() => null);
    return report?.engine.state === 'warm.busy';
  }
}

/**
 * The kinds of cycles: kill the daemon or the engine, at any time or while it starts or computes,
 * or stop cleanly.
 */
export type Kind = 'daemon' | 'daemon_early' | 'engine' | 'engine_busy' | 'stop';

/** Draws kinds from a deck, so that each has its share on a slow machine too. */
export const DECK: readonly Kind[] = [
  'daemon',
  'daemon',
  'daemon',
  'daemon_early',
  'engine',
  'engine_busy',
  'stop',
];

/** Kinds that never happened in these worlds. */
export function neverExercised(worlds: readonly World['counts'][]): Kind[] {
  return [...new Set(DECK)].filter((kind) => worlds.every((counts) => counts[kind] === 0));
}

/** How long a boot is left alone: often too short to load the model. */
const SHORT_MS = 500;
const LONG_MS = 2000;
/** Longest time to a kill during the start. */
const EARLY_MS = 400;
/** Longest time from finding the engine to its kill. */
const ENGINE_MS = 200;

const ENVIRONMENT = {
  SVC_ENGINE_THREADS: '1',
  // Every answer has to be the one of a run alone.
  SVC_ENGINE_BATCHING: 'false',
  SVC_MODEL: 'random',
  // Limits above the number of kills, so that no run is given up.
  SVC_LIMIT_RUN_LOSSES: '1000',
  SVC_LIMIT_ENGINE_QUARANTINE_MS: '0',
  SVC_LIMIT_QUEUE_RUNS: '500',
  SVC_LIMIT_PROBE_EVERY_MS: '500',
};

/** False if it has ended meanwhile. */
function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}
