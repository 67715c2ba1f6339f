import type { ModelRecord } from '../../src/contract/model-record.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../../src/ports/providers.ts';

export type Move = OutputPart | Error | (() => Promise<void> | void);

/**
 * A provider that follows a script of moves: it yields a part, throws an error or awaits a
 * function. It counts its open streams, so that a test sees work that does not stop.
 */
export class ScriptedProvider implements ProviderPort {
  readonly id: string;
  readonly asked: AttemptRequest[] = [];
  open = 0;
  script: Move[] | ((request: AttemptRequest, signal: AbortSignal) => Move[]);

  constructor(id: string, script: ScriptedProvider['script']) {
    this.id = id;
    this.script = script;
  }

  async *stream(request: AttemptRequest, signal: AbortSignal): AsyncIterable<OutputPart> {
    this.asked.push(request);
    this.open += 1;
    try {
      for (const move of typeof this.script === 'function'
        ? this.script(request, signal)
        : this.script) {
        if (signal.aborted) return;
        if (typeof move === 'function') await move();
        else if (move instanceof Error) throw move;
        else yield move;
      }
    } finally {
      this.open -= 1;
    }
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
}

export const output = (text: string, ...token_ids: number[]): OutputPart => ({
  type: 'output',
  text,
  token_ids,
});
export const finish = (): OutputPart => ({
  type: 'finish',
  finish_reason: 'stop',
  usage: { input_tokens: 1, output_tokens: 1 },
});

/** Resolves when the signal aborts: work that runs until it is stopped. */
export const untilAborted = (signal: AbortSignal) => () =>
  new Promise<void>((resolve) =>
    signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve(), { once: true }),
  );

/** A promise and its resolve function. */
export function gate(): { opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
