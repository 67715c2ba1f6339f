import type { Home } from '../helpers/svc.ts';
import { ask, stream } from './http.ts';
import type { Given, KillableProvider } from './killable-provider.ts';

/** What became of the runs of a failover. */
export interface Tally {
  runs: number;
  /** Complete answers by provider. */
  first: number;
  second: number;
  /**
   * A killed provider had sent a part of their answer. They end with an error and keep it: another
   * answer would repeat what the client has read.
   */
  cut: number;
  /** Without an end, or without an answer although nothing had reached them. */
  lost: number;
  /** Their answer is not exactly one answer of one provider. */
  twice: number;
  attempts: number;
  moved: number;
  first_requests: number;
  second_requests: number;
  /** Prompts that both providers answered in full. The client got one of them. */
  asked_twice: number;
  problems: string[];
}

// biome-ignore lint/suspicious/noExplicitAny: it is compared, never trusted.
type Json = any;

interface Done {
  prompt: string;
  /** The text of the events, as the client read it. */
  text: string;
  ends: number;
  run: Json;
}

const MODELS = ['first/m', 'second/m'];
/** One prompt of so many gets its answer in pieces. */
const SLOW_EACH = 5;

/** Clients that ask one run after the other, and what they got. */
export class FailoverLoad {
  begun = 0;
  private readonly done: Done[] = [];
  private readonly home: Home;
  private readonly providers: readonly [KillableProvider, KillableProvider];
  private isOver = false;

  constructor(home: Home, providers: readonly [KillableProvider, KillableProvider]) {
    this.home = home;
    this.providers = providers;
  }

  /** Resolves when each client has the end of its last run. */
  async work(clients: number): Promise<void> {
    await Promise.all(Array.from({ length: clients }, () => this.client()));
  }

  finish(): void {
    this.isOver = true;
  }

  /** Complete answers of a provider so far. */
  answers(provider: string): number {
    return this.done.filter(({ run }) => isComplete(run) && run.provider === provider).length;
  }

  private async client(): Promise<void> {
    while (!this.isOver) {
      this.begun += 1;
      const speed = this.begun % SLOW_EACH === 0 ? 'slow' : 'quick';
      this.done.push(await this.run(`${speed} prompt ${this.begun}.`));
    }
  }

  private async run(prompt: string): Promise<Done> {
    const body = { prompt, model: MODELS };
    const { events, headers, status } = await stream(this.home, '/v1/runs', {
      method: 'POST',
      body,
    });
    let text = '';
    let ends = 0;
    for await (const { event, data } of events) {
      if (event === 'run.output_appended') text += data.data.text;
      if (TERMINAL.test(event)) ends += 1;
    }
    const id = headers['x-svc-run-id'];
    const { json } = await ask(this.home, `/v1/runs/${id}`);
    return { prompt, text, ends, run: { ...json, status } };
  }

  tally(): Tally {
    const [first, second] = this.providers;
    const judged = this.done.map((done) => ({ ...done, ...this.judge(done) }));
    const count = (of: (one: (typeof judged)[number]) => boolean) => judged.filter(of).length;
    const sum = (of: (run: Json) => number) =>
      this.done.reduce((total, { run }) => total + of(run), 0);
    return {
      runs: this.done.length,
      first: count(({ outcome, run }) => outcome === 'answered' && run.provider === 'first'),
      second: count(({ outcome, run }) => outcome === 'answered' && run.provider === 'second'),
      cut: count(({ outcome }) => outcome === 'cut'),
      lost: count(({ outcome }) => outcome === 'lost'),
      twice: count(({ outcome }) => outcome === 'twice'),
      attempts: sum((run) => run.attempts),
      moved: count(({ run }) => run.provider === 'second'),
      first_requests: first.requests,
      second_requests: second.requests,
      asked_twice: count(
        ({ prompt }) => this.given(prompt).filter((one) => one.isWhole).length > 1,
      ),
      problems: judged.flatMap(({ problems, prompt }) =>
        problems.map((what) => `${prompt} ${what}`),
      ),
    };
  }

  private given(prompt: string): Given[] {
    return this.providers.flatMap(({ given }) => given.get(prompt) ?? []);
  }

  private judge({ prompt, text, ends, run }: Done): { outcome: string; problems: string[] } {
    const given = this.given(prompt);
    const problems: string[] = [];
    if (ends !== 1) problems.push(`has ${ends} ends`);
    if (text !== run.output) problems.push('the events and the record differ');
    for (const { name } of this.providers) {
      const asked = given.filter(({ provider }) => provider === name).length;
      const tried = attemptsAt(name, run);
      if (asked > tried) problems.push(`${asked} requests but ${tried} attempts at ${name}`);
    }
    const crossed = run.sent_to_cloud?.length ?? 0;
    const atFirst = given.filter(({ provider }) => provider === 'first').length;
    if (crossed < atFirst) problems.push(`${atFirst} requests crossed, ${crossed} are recorded`);
    const outcome = outcomeOf(run, text, given);
    if (outcome === 'lost' || outcome === 'twice')
      problems.push(`${outcome}: ${run.state} ${run.error?.code} at ${run.provider}, "${text}"`);
    return { outcome, problems };
  }
}

function outcomeOf(run: Json, text: string, given: readonly Given[]): string {
  if (isComplete(run)) {
    const own = given.filter((one) => one.text === text && one.provider === run.provider);
    return own.length === 1 ? 'answered' : 'twice';
  }
  const isPart = text !== '' && given.some((one) => one.text.startsWith(text));
  return isPart && CUT.has(run.state) && run.error !== null ? 'cut' : 'lost';
}

function isComplete(run: Json): boolean {
  return run.state === 'completed';
}

/** The last attempt is at the present target, and the failed ones say theirs. */
function attemptsAt(provider: string, { failed_attempts = [], attempts, ...run }: Json): number {
  const failed = failed_attempts.filter((one: Json) => one.provider === provider).length;
  const last = attempts > failed_attempts.length && run.provider === provider ? 1 : 0;
  return failed + last;
}

const CUT: ReadonlySet<string> = new Set(['failed', 'interrupted']);
const TERMINAL = /^run\.(completed|failed|cancelled|interrupted|timed_out)$/;
