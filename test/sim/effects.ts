import type { Effect } from '../../machines/effects.ts';
import type { AttemptRequest } from '../../src/ports/providers.ts';
import { hold } from './violation.ts';
import type { World } from './world.ts';

/**
 * Effects between the kernel and their handlers.
 *
 * 1. An effect is requested once, after its event is durable.
 * 2. Only this class may lose one, and it records that.
 */
export class Effects {
  private readonly world: World;
  private readonly seen = new Set<string>();
  /** Attempts whose start was lost, as `run attempt`. */
  private readonly lost = new Set<string>();
  /** Attempts that reached their provider, as `run attempt`. */
  private readonly reachedProvider = new Set<string>();

  constructor(world: World) {
    this.world = world;
  }

  asked(effect: Effect, id: string, perform: () => void): void {
    const { oracle, random, settings, stats, isQuiet } = this.world;
    const [stream = '', version, index] = splitId(id);
    const run = oracle.runs.get(stream);
    const durable = stream === this.world.life.daemon ? oracle.daemonVersion : (run?.version ?? 0);
    hold(
      'effect-before-event',
      Number(version) <= durable,
      () =>
        `${effect.type} of ${oracle.aliasOf(stream)} is asked for before its event ${version} is on the disk`,
    );
    hold(
      'effect-once',
      !this.seen.has(id),
      () =>
        `${effect.type} of ${oracle.aliasOf(stream)} is asked for twice, by its event ${version} (${index})`,
    );
    this.seen.add(id);
    const { lostEffectIn, doubleEffectIn } = settings.faults;
    if (!isQuiet && lostEffectIn > 0 && random.onceIn(lostEffectIn)) {
      stats.count('lost effects');
      this.world.note(() => `  lost: ${effect.type} of ${oracle.aliasOf(stream)}`);
      if (effect.type === 'startAttempt') this.lost.add(nameOf(effect.params));
      return;
    }
    perform();
    if (isQuiet || doubleEffectIn === 0 || !random.onceIn(doubleEffectIn)) return;
    stats.count('effects performed twice');
    this.world.note(() => `  again: ${effect.type} of ${oracle.aliasOf(stream)}`);
    perform();
  }

  /** Checks that a provider gets an attempt only once. */
  reached(request: AttemptRequest): void {
    const name = nameOf(request);
    hold(
      'asked-once',
      !this.reachedProvider.has(name),
      () =>
        `attempt ${request.attempt} of ${this.world.oracle.aliasOf(request.run_id)} is asked twice`,
    );
    this.reachedProvider.add(name);
    this.checkTarget(request);
  }

  /** Only a target that the client named is asked, and a cloud one after the log says so. */
  private checkTarget({ run_id, attempt, request }: AttemptRequest): void {
    const run = this.world.oracle.runs.get(run_id);
    const { provider, model, cloud } = request;
    const named = run === undefined ? [] : [run.created.request, ...(run.created.fallbacks ?? [])];
    hold(
      'named',
      named.some((target) => target.provider === provider && target.model === model),
      () => `${run?.alias} goes to ${provider}/${model}, which its client did not name`,
    );
    hold(
      'told-before-sent',
      !cloud || run?.snapshot.context.sent.at(-1)?.attempt === attempt,
      () => `${run?.alias} is sent to ${provider}, and the log does not say so`,
    );
  }

  /** The attempt is not let in. */
  refuse(attempt: { run_id: string; attempt: number }): void {
    this.lost.add(nameOf(attempt));
  }

  wasLost(run_id: string, attempt: number): boolean {
    return this.lost.has(nameOf({ run_id, attempt }));
  }

  hasReached(run_id: string, attempt: number): boolean {
    return this.reachedProvider.has(nameOf({ run_id, attempt }));
  }

  opened(last_seq: number): void {
    const { oracle } = this.world;
    hold(
      'lost',
      last_seq === oracle.last_seq,
      () => `the log ends at ${last_seq}, and ${oracle.last_seq} were on the disk`,
    );
  }

  forget(): void {
    this.lost.clear();
    this.seen.clear();
  }
}

function nameOf({ run_id, attempt }: { run_id: string; attempt: number }): string {
  return `${run_id} ${attempt}`;
}

/** `daemon:boot_1:3:0` is the effect 0 of the event 3 of `daemon:boot_1`. */
function splitId(id: string): string[] {
  const parts = id.split(':');
  const [version = '', index = ''] = parts.splice(-2);
  return [parts.join(':'), version, index];
}
