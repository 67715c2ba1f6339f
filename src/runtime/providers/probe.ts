import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import { probeWait } from '../../../machines/provider/circuit.ts';
import { isIn } from '../../../machines/step.ts';
import { timeoutSignal } from '../../async/timers.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { ProviderKey } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';
import type { ProviderPort } from '../../ports/providers.ts';

/** The models of a provider, or why it did not answer. */
export type ProbeResult = { models: string[] } | SvcError;

/** Probes a provider. Never rejects. */
export async function askProvider(port: ProviderPort, timeout_ms: number): Promise<ProbeResult> {
  try {
    return await port.probe(timeoutSignal(timeout_ms));
  } catch (thrown) {
    if (thrown instanceof SvcError) return thrown;
    return new SvcError('provider_unreachable', 'The provider could not be probed.', {
      retryable: true,
      cause: thrown,
    });
  }
}

/** Lets the probe time out first, because its error says why. */
export const PROBE_SLACK_MS = 250;

/** Whether a probe has its outcome, or can no longer get one. */
export function hasEnded(snapshot: ProviderSnapshot, awaited: number): boolean {
  const { probe } = snapshot.context;
  const isOver = probe > awaited || (probe === awaited && !isIn(snapshot, 'probing'));
  return isOver || snapshot.status !== 'active';
}

/** Whether the list has the known models, in the same order. */
export function isSameList(models: readonly string[], known: readonly string[]): boolean {
  return models.length === known.length && models.every((name, index) => name === known[index]);
}

export interface WatchOptions {
  kernel: Kernel;
  log: Log;
  limits: Pick<Limits, 'probe_ms' | 'probe_idle_ms'>;
  /** From 0 to 1, for the jitter of waits. */
  random: () => number;
}

interface Watched {
  port: ProviderPort;
  removed: AbortController;
  /** Looks in a row that found nothing new. */
  unchanged: number;
  /** When the state that it was last seen in began. */
  since: number;
  looking: Promise<void> | null;
}

/**
 * Checks settled providers from time to time. It owns one timer for each watched provider.
 *
 * 1. A look without a change records nothing. A change starts a probe, which is recorded.
 * 2. The waits have jitter, and grow while nothing changes.
 * 3. A provider has one look at a time, and none while its machine waits for a probe.
 * 4. A look that ends after the removal of its provider changes nothing.
 */
export class ProviderWatch {
  private readonly options: WatchOptions;
  private readonly watched = new Map<ProviderKey, Watched>();

  constructor(options: WatchOptions) {
    this.options = options;
  }

  add(stream: ProviderKey, port: ProviderPort): void {
    const watched = { port, removed: new AbortController(), unchanged: 0, since: 0, looking: null };
    this.watched.set(stream, watched);
    this.schedule(stream);
  }

  remove(stream: ProviderKey): void {
    this.watched.get(stream)?.removed.abort();
    this.watched.delete(stream);
  }

  close(): void {
    for (const stream of [...this.watched.keys()]) this.remove(stream);
  }

  /** Looks now. Resolves when the state shows what was found. */
  look(stream: ProviderKey): Promise<void> {
    const { log } = this.options;
    const watched = this.watched.get(stream);
    if (watched === undefined) return Promise.resolve();
    watched.looking ??= this.check(stream, watched)
      .catch((error: unknown) =>
        log.error({ err: error, stream }, 'a provider could not be checked'),
      )
      .finally(() => {
        watched.looking = null;
      });
    return watched.looking;
  }

  private schedule(stream: ProviderKey): void {
    const { kernel, limits, random } = this.options;
    const watched = this.watched.get(stream);
    const context = this.snapshot(stream)?.context;
    if (watched === undefined || context?.probe_every_ms == null || kernel.closed) return;
    if (context.since !== watched.since) watched.unchanged = 0;
    watched.since = context.since;
    const waits = { first_ms: context.probe_every_ms, longest_ms: limits.probe_idle_ms };
    const wait_ms = probeWait(watched.unchanged, waits, random());
    const lookAgain = () => {
      watched.unchanged += 1;
      void this.look(stream).finally(() => watched.removed.signal.aborted || this.schedule(stream));
    };
    kernel.clock.after(wait_ms, lookAgain, watched.removed.signal);
  }

  private async check(stream: ProviderKey, { port }: Watched): Promise<void> {
    const { kernel, limits } = this.options;
    if (!isOpenToLooks(this.snapshot(stream))) return;
    const result = await askProvider(port, limits.probe_ms);
    const now = this.snapshot(stream);
    if (
      kernel.closed ||
      !this.watched.has(stream) ||
      now === undefined ||
      !isOpenToLooks(now) ||
      !isChange(result, now)
    )
      return;
    const probe = now.context.probe + 1;
    await kernel.tryAppend(stream, { type: 'provider.probe_started', probe });
    await kernel.waitFor(stream, (then) => !isIn(then, 'probing') || then.context.probe !== probe);
  }

  private snapshot(stream: ProviderKey): ProviderSnapshot | undefined {
    return this.options.kernel.snapshot(stream);
  }
}

/** An open circuit with a time is tried by a request, after that time. */
function isOpenToLooks(snapshot: ProviderSnapshot | undefined): boolean {
  return snapshot?.hasTag('settled') === true && snapshot.context.retry_at === null;
}

function isChange(result: ProbeResult, { context: { error, models } }: ProviderSnapshot): boolean {
  // The daemon has no descriptors left: the provider has not changed.
  if (hasCode(result, 'descriptors_exhausted')) return false;
  if (!(result instanceof SvcError)) return error !== null || !isSameList(result.models, models);
  return error === null || error.code !== result.code || error.message !== result.message;
}
