import { readdirSync, readFileSync } from 'node:fs';
import { processTree } from '../../src/providers/local/memory-watch.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { addModels, type Followed, followAnswer, once } from './answers.ts';
import { enginePid, type Life, serve } from './daemon.ts';
import { type Random, random } from './random.ts';

/**
 * An engine under SIGKILL in the middle of an answer with a seed. Every second one is beside
 * answers without a seed, whose batches it must not share. Every answer must be the one of an
 * engine that was not killed. Then the model is loaded and unloaded, and the daemon must keep
 * nothing of it.
 */
export interface EngineResult {
  /** By what answered beside it. */
  kills: Record<string, number>;
  answers: number;
  wrong: number;
  /** Attempts that went on from tokens. */
  resumed: number;
  loads: number;
  /** Open files of the daemon after the first loads, and at the end. */
  files: string;
  /** The same of its resident memory, in MiB. */
  memory: string;
  problems: string[];
}

const MODEL = 'local/slow';
const SEEDS = 5;
const TOKENS = 60;
/** After these the code of a daemon is compiled, and its caches are full. */
const LOADS_FIRST = 20;
const GROWTH_MIB = 24;
const ask = (seed: number | null) => ({
  model: MODEL,
  messages: [{ role: 'user', content: [{ type: 'text', text: `Question ${seed}` }] }],
  temperature: 0.9,
  max_tokens: TOKENS,
  ...(seed === null ? {} : { seed }),
});

export async function tortureEngine(options: {
  kills: number;
  loads: number;
  seed: number;
  signal: AbortSignal;
}): Promise<EngineResult> {
  // A model whose engine dies again and again would be refused.
  const home = makeHome({
    SVC_LIMIT_ENGINE_QUARANTINE_MS: '0',
    SVC_ENGINE_BATCHING: 'true',
    SVC_ENGINE_PRELOAD: 'false',
  });
  addModels(home);
  const life = await serve(home);
  const torture = new Torture(home, life, random(options.seed));
  try {
    await torture.learn();
    for (let at = 0; at < options.kills && !options.signal.aborted; at += 1) await torture.kill(at);
    await torture.load(options.loads, options.signal);
  } finally {
    await life.stop(0);
    await home.close();
  }
  return torture.result;
}

class Torture {
  readonly result: EngineResult = {
    kills: {},
    answers: 0,
    wrong: 0,
    resumed: 0,
    loads: 0,
    files: '',
    memory: '',
    problems: [],
  };
  private readonly home: Home;
  private readonly life: Life;
  private readonly draw: Random;
  private readonly whole: Followed[] = [];
  private killed: number | null = null;

  constructor(home: Home, life: Life, draw: Random) {
    [this.home, this.life, this.draw] = [home, life, draw];
  }

  /** The answers of an engine that is not killed. */
  async learn(): Promise<void> {
    for (let seed = 0; seed < SEEDS; seed += 1)
      this.whole.push(await followAnswer(this.home, ask(seed)));
  }

  async kill(at: number): Promise<void> {
    const seed = at % SEEDS;
    const [name, count] = at % 2 === 0 ? ['alone', 0] : ['beside answers without a seed', 3];
    const pid = await this.engine();
    const beside = Array.from({ length: count }, () => followAnswer(this.home, ask(null)));
    const cut = this.draw.whole(1, TOKENS - 10);
    const heard = await followAnswer(
      this.home,
      ask(seed),
      once(cut, () => {
        this.result.kills[name] = (this.result.kills[name] ?? 0) + 1;
        process.kill(pid, 'SIGKILL');
        this.killed = pid;
      }),
    );
    await Promise.all(beside);
    this.check(at, heard, this.whole[seed]);
  }

  /** Its pid. An answer can be over before the daemon hears of the end of its engine. */
  private async engine(): Promise<number> {
    await waitFor('the daemon knows that the engine ended', async () => {
      const { engine } = await this.life.ask((client) => client.call('report'));
      return engine.pid !== this.killed;
    });
    await this.life.ask((client) => client.call('model.load', { model: MODEL }));
    return enginePid(this.life);
  }

  private check(at: number, { id, record, events }: Followed, whole: Followed | undefined): void {
    this.result.answers += 1;
    this.result.resumed += events.filter((event) => event === 'run.started').length - 1;
    if (record?.state === 'completed' && record.output === whole?.text) return;
    this.result.wrong += 1;
    const said = JSON.stringify(record?.output);
    this.result.problems.push(`kill ${at}, ${id}: ${record?.state}, ${said}`);
  }

  /** Loads and unloads the model. The daemon keeps no file and no memory of it. */
  async load(loads: number, signal: AbortSignal): Promise<void> {
    let first = await this.use();
    for (let at = 0; at < loads && !signal.aborted; at += 1) {
      await this.life.ask((client) => client.call('model.load', { model: MODEL }));
      await this.life.ask((client) => client.call('model.unload', { model: MODEL }));
      this.result.loads += 1;
      if (at + 1 === Math.min(LOADS_FIRST, loads)) first = await this.use();
    }
    const last = await this.use();
    this.result.files = `${first.files}, ${last.files}`;
    this.result.memory = `${first.memory}, ${last.memory}`;
    if (last.files > first.files)
      this.result.problems.push(`${last.files} open files after ${first.files}`);
    if (last.memory > first.memory + GROWTH_MIB)
      this.result.problems.push(`${last.memory} MiB of memory after ${first.memory}`);
  }

  /** Of the daemon, once no engine is left. */
  private async use(): Promise<{ files: number; memory: number }> {
    const { pid } = this.life;
    await this.life.ask((client) => client.call('model.unload', { model: MODEL }));
    await waitFor('no engine is left', async () => (await processTree(pid)).length === 1);
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return {
      files: readdirSync(`/proc/${pid}/fd`).length,
      memory: Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024),
    };
  }
}
