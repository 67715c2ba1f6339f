import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { processTree } from '../../src/providers/local/memory-watch.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Followed, followAnswer } from './answers.ts';
import { enginePid, type Life, serve } from './daemon.ts';
import { type Random, random } from './random.ts';

/**
 * Computed prompts in files, under SIGKILL. Each round has a conversation of two turns. The engine
 * or the daemon is killed while the first turn is written, or while the second one reads it. Every
 * answer must be the one that a daemon without such files gave.
 */
export interface CacheResult {
  rounds: number;
  /** By what was killed, and when. */
  kills: Record<string, number>;
  answers: number;
  wrong: number;
  /** Second turns that used a file or what was in memory. */
  reused: number;
  /** Runs that a kill ended without an answer. */
  ended: number;
  problems: string[];
}

const WHENS = ['writes', 'reads'] as const;
const VICTIMS = ['engine', 'daemon'] as const;
/** After the order to unload, or to answer. */
const DELAY_MS = 60;
const MODEL = 'local/random';
/** The prompt has at least 256 tokens, so that it is kept. */
const LONG = Array.from({ length: 30 }, (_, at) => `sentence ${at}`).join('. ');
const said = (role: string, text: string) => ({ role, content: [{ type: 'text', text }] });
const ask = (messages: object[]) => ({
  model: MODEL,
  messages,
  temperature: 0,
  seed: 7,
  max_tokens: 12,
});
const first = (round: number) => [said('user', `${round}. ${LONG}`)];
const second = (round: number, answer: string) => [
  ...first(round),
  said('assistant', answer),
  said('user', 'and then?'),
];

export async function tortureCache(options: {
  rounds: number;
  seed: number;
  signal: AbortSignal;
}): Promise<CacheResult> {
  const plain = makeHome({ SVC_LIMIT_PROMPT_CACHE_BYTES: '0' });
  // A file that killed the engine twice would be refused.
  const home = makeHome({ SVC_LIMIT_ENGINE_QUARANTINE_MS: '0' });
  for (const { paths } of [plain, home]) {
    mkdirSync(paths.models, { recursive: true, mode: 0o700 });
    makeGguf(join(paths.models, 'random.gguf'), { context: 2048 });
  }
  const lives = [await serve(plain), await serve(home)] as const;
  const torture = new Torture(plain, home, lives[1], random(options.seed));
  try {
    for (let round = 0; round < options.rounds && !options.signal.aborted; round += 1)
      await torture.round(round);
    await torture.end();
  } finally {
    await lives[0].stop(0);
    await torture.life.stop(0);
    await Promise.all([plain.close(), home.close()]);
  }
  return torture.result;
}

class Torture {
  life: Life;
  readonly result: CacheResult = {
    rounds: 0,
    kills: {},
    answers: 0,
    wrong: 0,
    reused: 0,
    ended: 0,
    problems: [],
  };
  private readonly plain: Home;
  private readonly home: Home;
  private readonly draw: Random;

  constructor(plain: Home, home: Home, life: Life, draw: Random) {
    this.plain = plain;
    this.home = home;
    this.life = life;
    this.draw = draw;
  }

  async round(round: number): Promise<void> {
    const one = (await followAnswer(this.plain, ask(first(round)))).text;
    const two = (await followAnswer(this.plain, ask(second(round, one)))).text;
    this.check(round, await followAnswer(this.home, ask(first(round))), one);
    const [when, victim] = [WHENS[round % 2] ?? 'writes', this.draw.pick(VICTIMS)];
    const engine = await enginePid(this.life);
    if (when === 'writes') {
      const unloaded = this.unload();
      await this.kill(when, victim, engine);
      await unloaded;
    } else await this.unload();
    const answering = followAnswer(this.home, ask(second(round, one)));
    if (when === 'reads') await this.kill(when, victim, await this.loadingPid());
    const answer = await answering;
    this.check(
      round,
      answer.record === null ? await followAnswer(this.home, answer.id) : answer,
      two,
    );
    const again = await followAnswer(this.home, ask(second(round, one)));
    this.check(round, again, two);
    if ((again.record?.usage?.cached_tokens ?? 0) > 0) this.result.reused += 1;
    this.result.rounds += 1;
  }

  /** A clean stop leaves whole files alone. */
  async end(): Promise<void> {
    await this.life.stop();
    this.life = await serve(this.home);
    await followAnswer(this.home, ask(first(0)));
    await this.unload();
    const drafts = this.files().filter((name) => !name.endsWith('.prompt'));
    if (drafts.length > 0) this.result.problems.push(`left in the folder: ${drafts.join(', ')}`);
    if (this.files().length === 0) this.result.problems.push('no prompt was written');
  }

  private check(round: number, { record, text, id }: Followed, expected: string): void {
    if (record?.state !== 'completed') {
      this.result.ended += 1;
      if (record !== null && !expected.startsWith(text))
        this.result.problems.push(`round ${round}, ${id}: it began with another text`);
      return;
    }
    this.result.answers += 1;
    if (record.output === expected) return;
    this.result.wrong += 1;
    this.result.problems.push(
      `round ${round}, ${id}: ${JSON.stringify(record.output)}, not ${JSON.stringify(expected)}`,
    );
  }

  /** Kills at a random moment. A killed daemon is started again. */
  private async kill(when: string, victim: string, engine: number): Promise<void> {
    await wait(this.draw.whole(0, DELAY_MS));
    const name = `${victim} ${when}`;
    this.result.kills[name] = (this.result.kills[name] ?? 0) + 1;
    if (victim === 'engine') {
      try {
        process.kill(engine, 'SIGKILL');
      } catch {
        // It has ended.
      }
      return;
    }
    await this.life.kill();
    this.life = await serve(this.home);
  }

  private unload(): Promise<unknown> {
    return this.life
      .ask(async (client) => client.call('model.unload', { model: MODEL }))
      .catch(() => null);
  }

  /** Its pid is not in the log before the model is loaded. */
  private loadingPid(): Promise<number> {
    const { pid } = this.life;
    return waitFor('the next engine', async () =>
      (await processTree(pid)).find((each) => each !== pid),
    );
  }

  private files(): string[] {
    const folder = join(this.home.paths.cache, 'prompts');
    return existsSync(folder) ? readdirSync(folder) : [];
  }
}
