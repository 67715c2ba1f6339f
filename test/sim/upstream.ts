import type { ModelRecord } from '../../src/contract/model-record.ts';
import { SvcError } from '../../src/errors.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../../src/ports/providers.ts';
import type { Random } from './random.ts';
import { Stream, type Trouble, troubles } from './stream.ts';

/**
 * A provider whose streams advance with the simulation.
 * Its undisturbed answer is a pure function of the request; faults are drawn with the request.
 */

export interface UpstreamOptions {
  id: string;
  resumable: boolean;
  random: Random;
  /** One stream in this many has trouble; 0: none. */
  troubleIn(): number;
  onAsked(request: AttemptRequest): void;
  /** For planted bugs: tokens by which a resumed stream is off. */
  shift?: number;
}

export class Upstream implements ProviderPort {
  readonly id: string;
  /** Streams in progress. */
  readonly open = new Set<Stream>();
  private readonly options: UpstreamOptions;

  constructor(options: UpstreamOptions) {
    this.id = options.id;
    this.options = options;
  }

  stream(request: AttemptRequest, signal: AbortSignal): AsyncIterable<OutputPart> {
    const { random, resumable, onAsked, shift = 0 } = this.options;
    const stream: Stream = new Stream({
      request,
      signal,
      random,
      resumable,
      shift,
      trouble: this.trouble(),
      onEnd: () => this.open.delete(stream),
    });
    this.open.add(stream);
    onAsked(request);
    return stream;
  }

  /** Drops all work at once, like the death of its process. */
  die(): void {
    const gone = new SvcError('engine_crashed', 'The engine process died.', {
      retryable: true,
      lost: true,
      computing: this.open.size,
    });
    for (const stream of [...this.open]) stream.die(gone);
  }

  models(): Promise<ModelRecord[]> {
    return Promise.resolve([]);
  }

  probe(): Promise<{ models: string[] }> {
    return Promise.resolve({ models: [] });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  private trouble(): Trouble {
    const { random, troubleIn } = this.options;
    const once = troubleIn();
    return once > 0 && random.onceIn(once) ? random.pick(troubles) : 'none';
  }
}
