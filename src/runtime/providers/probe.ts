import type { ProviderSnapshot } from '../../../machines/provider.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../kernel/port.ts';
import type { ProviderKey } from '../../kernel/stream.ts';
import type { ProviderPort } from '../../providers/port.ts';

/** The models of a provider, or why it did not answer. */
export type ProbeResult = { models: string[] } | SvcError;

/** Probes a provider. Never rejects. */
export async function askProvider(port: ProviderPort, timeout_ms: number): Promise<ProbeResult> {
  try {
    return await port.probe(AbortSignal.timeout(timeout_ms));
  } catch (thrown) {
    if (thrown instanceof SvcError) return thrown;
    return new SvcError('provider_unreachable', 'The provider could not be probed.', {
      retryable: true,
      cause: thrown,
    });
  }
}

/** Whether the list has the known models, in the same order. */
export function isSameList(models: readonly string[], known: readonly string[]): boolean {
  return models.length === known.length && models.every((name, index) => name === known[index]);
}

export interface WatchOptions {
  kernel: Kernel;
  log: Log;
  probe_ms: number;
}

interface Watched {
  port: ProviderPort;
  removed: AbortController;
}

/**
 * Checks settled providers from time to time. It owns one timer for each watched provider.
 *
 * 1. A check without a change records nothing. A change starts a probe, which is recorded.
 * 2. A provider has one check at a time, and none while its machine waits for a probe.
 * 3. A check that ends after the removal of its provider changes nothing.
 */
export class ProviderWatch {
  private readonly options: WatchOptions;
  private readonly watched = new Map<ProviderKey, Watched>();

  constructor(options: WatchOptions) {
    this.options = options;
  }

  add(stream: ProviderKey, port: ProviderPort): void {
    this.watched.set(stream, { port, removed: new AbortController() });
    this.scheduleCheck(stream);
  }

  remove(stream: ProviderKey): void {
    this.watched.get(stream)?.removed.abort();
    this.watched.delete(stream);
  }

  close(): void {
    for (const stream of [...this.watched.keys()]) this.remove(stream);
  }

  private scheduleCheck(stream: ProviderKey): void {
    const { kernel, log } = this.options;
    const watched = this.watched.get(stream);
    const every_ms = this.snapshot(stream)?.context.probe_every_ms ?? null;
    if (watched === undefined || every_ms === null || kernel.closed) return;
    const check = () => {
      this.check(stream, watched.port)
        .catch((error: unknown) =>
          log.error({ err: error, stream }, 'a provider could not be checked'),
        )
        .finally(() => watched.removed.signal.aborted || this.scheduleCheck(stream));
    };
    kernel.clock.after(every_ms, check, watched.removed.signal);
  }

  private async check(stream: ProviderKey, port: ProviderPort): Promise<void> {
    const { kernel, probe_ms } = this.options;
    if (this.snapshot(stream)?.hasTag('settled') !== true) return;
    const result = await askProvider(port, probe_ms);
    const now = this.snapshot(stream);
    if (
      kernel.closed ||
      !this.watched.has(stream) ||
      now?.hasTag('settled') !== true ||
      !isChange(result, now)
    )
      return;
    await kernel.tryAppend(stream, {
      type: 'provider.probe_started',
      probe: now.context.probe + 1,
    });
  }

  private snapshot(stream: ProviderKey): ProviderSnapshot | undefined {
    return this.options.kernel.snapshot(stream);
  }
}

function isChange(result: ProbeResult, { context: { error, models } }: ProviderSnapshot): boolean {
  // The daemon has no descriptors left. That is no change of the provider.
  if (hasCode(result, 'descriptors_exhausted')) return false;
  if (!(result instanceof SvcError)) return error !== null || !isSameList(result.models, models);
  return error === null || error.code !== result.code || error.message !== result.message;
}
