import type { ProviderSnapshot } from '../../../machines/provider.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../kernel/port.ts';
import type { ProviderKey } from '../../kernel/stream.ts';
import type { ProviderPort } from '../../providers/port.ts';

/** What asking a provider found. */
export type Found = { models: string[] } | SvcError;

/** Asks a provider whether it is there. Never rejects. */
export async function askProvider(port: ProviderPort, timeout_ms: number): Promise<Found> {
  try {
    return await port.probe(AbortSignal.timeout(timeout_ms));
  } catch (thrown) {
    if (thrown instanceof SvcError) return thrown;
    return new SvcError('provider_unreachable', 'The provider could not be asked.', {
      retryable: true,
      cause: thrown,
    });
  }
}

/** Whether these are the models that are known already, in the same order. */
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
  callOff: () => void;
}

/**
 * Looks at providers in settled states from time to time. It owns the timer of each provider that is watched.
 *
 * 1. A look that finds what the log says already records nothing. One that finds news starts a probe, and the probe is recorded.
 * 2. A provider has one look at a time, and none while its machine waits for a probe.
 * 3. A look that ends after its provider was removed changes nothing.
 */
export class ProviderWatch {
  private readonly options: WatchOptions;
  private readonly watched = new Map<ProviderKey, Watched>();

  constructor(options: WatchOptions) {
    this.options = options;
  }

  add(stream: ProviderKey, port: ProviderPort): void {
    this.watched.set(stream, { port, callOff: () => {} });
    this.lookLater(stream);
  }

  remove(stream: ProviderKey): void {
    this.watched.get(stream)?.callOff();
    this.watched.delete(stream);
  }

  close(): void {
    for (const stream of [...this.watched.keys()]) this.remove(stream);
  }

  private lookLater(stream: ProviderKey): void {
    const { kernel, log } = this.options;
    const watched = this.watched.get(stream);
    const every_ms = this.snapshot(stream)?.context.probe_every_ms ?? null;
    if (watched === undefined || every_ms === null || kernel.closed) return;
    watched.callOff = kernel.clock.after(every_ms, () => {
      this.look(stream, watched.port)
        .catch((error: unknown) =>
          log.error({ err: error, stream }, 'a provider could not be looked at'),
        )
        .finally(() => this.watched.get(stream) === watched && this.lookLater(stream));
    });
  }

  private async look(stream: ProviderKey, port: ProviderPort): Promise<void> {
    const { kernel, probe_ms } = this.options;
    if (this.snapshot(stream)?.hasTag('settled') !== true) return;
    const found = await askProvider(port, probe_ms);
    const now = this.snapshot(stream);
    if (
      kernel.closed ||
      !this.watched.has(stream) ||
      now?.hasTag('settled') !== true ||
      !isNews(found, now)
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

function isNews(found: Found, { context: { error, models } }: ProviderSnapshot): boolean {
  // That says something of the daemon, and nothing of the provider.
  if (hasCode(found, 'descriptors_exhausted')) return false;
  if (!(found instanceof SvcError)) return error !== null || !isSameList(found.models, models);
  return error === null || error.code !== found.code || error.message !== found.message;
}
