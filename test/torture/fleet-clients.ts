import { setTimeout as delay } from 'node:timers/promises';
import type { RealFleet } from '../helpers/fleet.ts';
import { ask, type Sent, stream } from './http.ts';
import type { Random } from './random.ts';

/** A run that some node acknowledged, and what its client has seen of it. */
export interface FleetRun {
  key: string;
  ids: Set<string>;
  last_seq: number;
  version: number;
  /** Types of the events that end it. */
  ends: string[];
  cancelled: boolean;
  /** The prompts of the completed turns that it continues, oldest first. */
  earlier: readonly string[];
}

/** Clients that ask any node, again and again until they have the end of their run. */
export class FleetClients {
  readonly runs: FleetRun[] = [];
  readonly problems: string[] = [];
  private readonly fleet: RealFleet;
  private readonly draw: Random;
  private isOver = false;

  constructor(fleet: RealFleet, draw: Random) {
    this.fleet = fleet;
    this.draw = draw;
  }

  /** Resolves when each client has the end of its last run. */
  async work(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, (_, index) => this.client(`c${index}`)));
  }

  finish(): void {
    this.isOver = true;
  }

  /** The ids of runs whose end no client had, or the keys of those that no node accepted. */
  waiting(): string[] {
    const open = this.runs.filter(({ ends }) => ends.length === 0);
    return open.map(({ key, ids, version }) => `${[...ids].join(' ') || key} after ${version}`);
  }

  private async client(name: string): Promise<void> {
    let last: { id: string; prompts: readonly string[] } | null = null;
    for (let turn = 0; !this.isOver; turn += 1) {
      const continued = this.draw.chance(0.5) ? last : null;
      const run: FleetRun = {
        key: `${name}-${turn}`,
        ids: new Set<string>(),
        last_seq: 0,
        version: 0,
        ends: [],
        cancelled: false,
        earlier: continued?.prompts ?? [],
      };
      const id = await this.start(name, run, continued?.id);
      this.runs.push(run);
      if (this.draw.chance(0.1)) void this.cancel(id, run);
      while (run.ends.length === 0) await this.follow(id, run);
      // A run whose end is known has the same end everywhere.
      if (run.earlier.length > 0 || this.draw.chance(0.1)) await this.compare(id, run);
      const isWhole = run.ends[0] === 'run.completed';
      last = isWhole ? { id, prompts: [...run.earlier, run.key] } : null;
    }
  }

  private anyHome() {
    return this.fleet.home(this.draw.whole(0, this.fleet.homes.length - 1));
  }

  private async start(client: string, run: FleetRun, conversation?: string): Promise<string> {
    const recovery = this.draw.pick(['restart', 'restart', 'end']);
    const body = { prompt: run.key, client, recovery, conversation };
    for (;;) {
      const answer = await bounded(
        ask(this.anyHome(), '/v1/runs', {
          method: 'POST',
          body,
          headers: { 'idempotency-key': run.key },
        }),
      );
      if (answer?.status === 202) {
        run.ids.add(String(answer.json.id));
        return String(answer.json.id);
      }
      if (answer !== null && isFinal(answer.status))
        this.problems.push(`${run.key} was refused with ${answer.status} ${answer.text}`);
      await delay(AGAIN_MS);
    }
  }

  private async follow(id: string, run: FleetRun): Promise<void> {
    const headers: Record<string, string> =
      run.last_seq === 0 ? {} : { 'last-event-id': String(run.last_seq) };
    const following = await bounded(stream(this.anyHome(), `/v1/runs/${id}/events`, { headers }));
    if (following === null || following.status !== 200) {
      following?.leave();
      if (following !== null && isFinal(following.status))
        this.problems.push(`${id} could not be followed: ${following.status}`);
      await delay(AGAIN_MS);
      return;
    }
    // A stopped node says nothing: its client asks another one.
    let heard = performance.now();
    const impatient = setInterval(() => {
      if (performance.now() - heard > SILENT_MS) following.leave();
    }, 500);
    try {
      for await (const event of following.events) {
        heard = performance.now();
        this.take(id, run, event);
        if (run.ends.length > 0) break;
      }
    } finally {
      clearInterval(impatient);
      following.leave();
    }
  }

  private take(id: string, run: FleetRun, { id: seq, event, data }: Sent): void {
    if (seq === null) return;
    if (seq <= run.last_seq || data.version !== run.version + 1)
      this.problems.push(`out of order: ${id} after ${run.version} came ${data.version}`);
    run.last_seq = seq;
    run.version = data.version;
    if (TERMINAL.test(event)) run.ends.push(event);
  }

  private async cancel(id: string, run: FleetRun): Promise<void> {
    run.cancelled = true;
    await delay(this.draw.whole(0, 400));
    await bounded(ask(this.anyHome(), `/v1/runs/${id}/cancel`, { method: 'POST' }));
  }

  private async compare(id: string, run: FleetRun): Promise<void> {
    const answer = await bounded(ask(this.anyHome(), `/v1/runs/${id}`));
    if (answer?.status !== 200) return;
    if (`run.${answer.json.state}` !== run.ends[0])
      this.problems.push(`${id} ended with ${run.ends[0]}, and another node says ${answer.text}`);
    if (run.earlier.length > 0 && `${promptsOf(answer.json)}` !== `${[...run.earlier, run.key]}`)
      this.problems.push(`${id} continues ${run.earlier}, and another node says ${answer.text}`);
  }
}

/** Null for a node that is gone, or does not answer. */
async function bounded<T>(asked: Promise<T>): Promise<T | null> {
  const over = new AbortController();
  const late = delay(ANSWER_MS, null, { signal: over.signal }).catch(() => null);
  return Promise.race([asked.catch(() => null), late]).finally(() => over.abort());
}

/** What the user said in the conversation of a run. */
function promptsOf(run: Record<string, unknown>): unknown[] {
  const messages = run.messages as { role: string; content: { text: string }[] }[];
  return messages.filter(({ role }) => role === 'user').map(({ content }) => content[0]?.text);
}

/** A node that was stopped in the middle of a request says that it came too slowly: 408. */
function isFinal(status: number): boolean {
  return status < 429 && status !== 408;
}

export const TERMINAL = /^run\.(completed|failed|cancelled|interrupted|timed_out)$/;
const AGAIN_MS = 50;
const ANSWER_MS = 20_000;
const SILENT_MS = 8000;
