import { isTerminalEvent, type Recovery } from '../../machines/run/context.ts';
import type { RunInput, RunRecord } from '../../src/contract/contract.ts';
import type { SvcError } from '../../src/errors.ts';
import { Follower } from './follower.ts';
import { hashOf } from './random.ts';
import { allowed, hold } from './violation.ts';
import type { World } from './world.ts';

const SERVERS = ['box', 'notes/edit', 'notes/write', 'web/get'];

const TARGETS = ['local/m1', 'local/m2', 'near/m1', 'far/m1'];

/** A client that asks for runs, and records all answers. */
export class Client {
  readonly name: string;
  /** Runs that were acknowledged to it. */
  readonly runs = new Map<string, RunInput>();
  readonly followers: Follower[] = [];
  /** Prompts of refused requests, which it does not repeat. */
  readonly refused = new Set<string>();
  private readonly world: World;
  /** Requests with a key, to repeat. */
  private readonly unanswered: RunInput[] = [];
  private readonly keyed: RunInput[] = [];
  private readonly ids = new Map<string, string>();
  private asked = 0;

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
  }

  start(): void {
    const { random } = this.world;
    const again =
      this.unanswered.length > 0 && random.onceIn(2) ? this.unanswered.shift() : undefined;
    const input = again ?? this.draw();
    if (input.idempotency_key != null) this.keyed.push(input);
    this.send(input);
    if (input.idempotency_key != null && random.onceIn(4)) this.send(input);
  }

  follow(): void {
    const { random, oracle } = this.world;
    const waiting = this.followers.filter((follower) => !follower.attached && !follower.done);
    if (waiting.length > 0) random.pick(waiting).attach();
    if (waiting.length > 0 || this.runs.size === 0) return;
    const id = random.pick([...this.runs.keys()]);
    const from_seq = random.onceIn(2) ? 0 : random.below(oracle.last_seq + 2);
    const follower = new Follower(this.world, id, from_seq);
    this.followers.push(follower);
    follower.attach();
  }

  /** Returns to runs whose end it has not seen. */
  followAgain(): void {
    this.followers.find((follower) => !follower.attached && !follower.done)?.attach();
  }

  disconnect(): void {
    const { random } = this.world;
    const attached = this.followers.filter((follower) => follower.attached);
    if (attached.length === 0) return;
    const follower = random.pick(attached);
    follower.leave();
    if (random.onceIn(3)) this.cancel(follower.id);
  }

  cancel(id = this.runs.size === 0 ? null : this.world.random.pick([...this.runs.keys()])): void {
    if (id === null) return;
    const { world } = this;
    const call = world.life.runtime.runs.cancel(id, this.name);
    world.call(`${this.name} cancels ${world.oracle.aliasOf(id)}`, call, {
      ok: (record) => this.hasStopped(record),
      error: (error) =>
        allowed(error, ['daemon_stopping', 'not_ready', 'store_failed', 'store_stalled']),
    });
  }

  look(): void {
    const { world } = this;
    if (this.runs.size === 0) return;
    const id = world.random.pick([...this.runs.keys()]);
    world.call(
      `${this.name} looks at ${world.oracle.aliasOf(id)}`,
      world.life.runtime.runs.get(id),
      {
        ok: (record) =>
          hold(
            'lost',
            record.id === id && record.prompt === this.runs.get(id)?.prompt,
            () => `${id} is not the run that was asked for`,
          ),
        error: (error) => allowed(error, ['not_ready', 'store_failed', 'store_stalled']),
      },
    );
  }

  list(): void {
    const { world } = this;
    world.call(`${this.name} lists`, world.life.runtime.runs.list({ limit: 5 }), {
      ok: ({ runs }) => {
        const order = runs.map(({ id }) => world.oracle.runs.get(id)?.accepted_seq ?? 0);
        hold(
          'lost',
          order.every((seq, index) => seq > 0 && (index === 0 || seq < (order[index - 1] ?? 0))),
          () => `the history is in the order ${order}`,
        );
      },
      error: (error) => allowed(error, ['not_ready', 'store_failed', 'store_stalled']),
    });
  }

  private send(input: RunInput): void {
    const { world } = this;
    const { random, settings } = world;
    const isLost = settings.faults.lostAnswerIn > 0 && random.onceIn(settings.faults.lostAnswerIn);
    const lost = () => {
      if (input.idempotency_key != null) this.unanswered.push(input);
    };
    world.call(
      `${this.name} starts ${input.prompt}${input.idempotency_key == null ? '' : ` with ${input.idempotency_key}`}`,
      world.life.runtime.runs.start(input, this.name),
      {
        ok: (record) => (isLost ? lost() : this.acknowledged(input, record)),
        error: (error) =>
          ['store_failed', 'run_unconfirmed'].includes(error.code)
            ? lost()
            : this.wasRefused(input, error),
        lost,
      },
    );
  }

  private acknowledged(input: RunInput, record: RunRecord): void {
    const { oracle } = this.world;
    const run = oracle.runs.get(record.id);
    hold(
      'acknowledged',
      run !== undefined,
      () => `${input.prompt} was acknowledged and is not on the disk`,
    );
    hold(
      'acknowledged',
      record.prompt === input.prompt,
      () => `${input.prompt} was answered with the run of ${record.prompt}`,
    );
    const key = input.idempotency_key;
    if (key != null) {
      const known = this.ids.get(key);
      hold(
        'one-run-a-key',
        known === undefined || known === record.id,
        () => `the key ${key} gave two runs`,
      );
      this.ids.set(key, record.id);
    }
    this.runs.set(record.id, input);
    if (this.world.random.onceIn(3)) this.world.watch(record.id);
  }

  private wasRefused(input: RunInput, error: SvcError): void {
    allowed(error, [
      'busy',
      'not_ready',
      'daemon_stopping',
      'store_full',
      'store_stalled',
      'idempotency_conflict',
    ]);
    const key = input.idempotency_key;
    if (key == null) this.refused.add(input.prompt ?? '');
    const others = this.keyed.filter(
      (other) => other.idempotency_key === key && other.prompt !== input.prompt,
    );
    hold(
      'one-run-a-key',
      error.code !== 'idempotency_conflict' || others.length > 0,
      () => `${input.prompt} was in conflict with nothing`,
    );
  }

  private hasStopped({ id, state }: RunRecord): void {
    const { oracle, upstreams } = this.world;
    const run = oracle.runs.get(id);
    hold(
      'cancel',
      run?.ended === true && isTerminalEvent(run.events.at(-1)?.type ?? ''),
      () => `${run?.alias} was cancelled and is ${state}`,
    );
    const last = run?.events.at(-1);
    const open = [...upstreams.values()].some((upstream) =>
      [...upstream.open].some((stream) => stream.request.run_id === id),
    );
    // Work that does not stop in time is abandoned. No client hears of a run that was handed
    // over.
    const isGivenUp = last?.data.forced === true || last?.type === 'run.interrupted';
    hold('cancel', !open || isGivenUp, () => `${run?.alias} is ${state}, and its work goes on`);
  }

  private draw(): RunInput {
    const { random } = this.world;
    this.asked += 1;
    const prompt = `${this.name}.${this.asked}`;
    const recovery = random.pick<Recovery | null>([null, null, 'resume', 'restart', 'end']);
    const chain = random.onceIn(3)
      ? Array.from({ length: random.between(1, 4) }, () => random.pick(TARGETS))
      : null;
    const provider =
      chain === null ? random.pick(['local', 'local', 'local', 'near', 'far']) : null;
    const model = chain ?? (provider === 'local' && random.onceIn(4) ? 'm2' : 'm1');
    const timeout_ms = random.onceIn(4) ? random.between(5, 60) * 1000 : null;
    const earlier = this.keyed.length > 0 && random.onceIn(6) ? random.pick(this.keyed) : undefined;
    const key = earlier?.idempotency_key ?? (random.onceIn(3) ? `key-${prompt}` : null);
    return {
      prompt,
      provider,
      model,
      seed: random.below(1000),
      recovery,
      timeout_ms,
      idempotency_key: key,
      ...(hashOf(prompt) % 3 === 0 ? { tool_servers: SERVERS } : {}),
    };
  }
}
