import type { LlamaContextSequence, Token } from 'node-llama-cpp';
import { type ConfidenceFilter, createConfidenceFilter } from './confidence-filter.ts';
import type { ContextPause } from './context-pause.ts';
import type { LoadedModel } from './load.ts';
import type { FromEngine, RunOrder } from './messages.ts';
import { fittingPrompt } from './prompt.ts';
import { steps } from './steps.ts';

export type Finish = Omit<Extract<FromEngine, { type: 'finished' }>, 'type' | 'id'>;

export interface Generation {
  loaded: LoadedModel;
  sequence: LlamaContextSequence;
  order: RunOrder;
  pause: ContextPause;
  signal: AbortSignal;
  /** Receives the tokens of the answer, in order. */
  emit(tokens: readonly Token[]): void;
}

/** Default sampling temperature. */
const TEMPERATURE = 0.7;

/**
 * Answers one run, token by token. Checks the signal between two tokens and two batches of the
 * prompt; null: it aborted. The default temperature is 0 for the built-in model, else 0.7. Throws
 * context_length_exceeded.
 */
export async function generate({
  loaded,
  sequence,
  order,
  pause,
  signal,
  emit,
}: Generation): Promise<Finish | null> {
  const { model, gate: rule, batch } = loaded;
  const prompt = fittingPrompt(loaded, order);
  const answered = (order.resume?.token_ids ?? []) as Token[];
  const most = Math.min(order.max_tokens, loaded.context_length - prompt.length);
  // The filter judged an answer before its first output.
  const filter: ConfidenceFilter = createConfidenceFilter(answered.length > 0 ? null : rule);
  const sampling = {
    temperature: order.temperature ?? (loaded.built_in ? 0 : TEMPERATURE),
    seed: order.seed,
    judged: rule?.tokens ?? 0,
    batch,
    pause,
  };
  const finish = (finish_reason: Finish['finish_reason'], output_tokens: number): Finish => ({
    finish_reason,
    usage: { input_tokens: prompt.length, output_tokens },
  });
  let made = answered.length;
  const declined = loaded.fallback.slice(0, most);
  if (made > 0 && rule !== null && declined.every((token, index) => token === answered[index]))
    return finish(declined.length < loaded.fallback.length ? 'length' : 'stop', declined.length);
  if (made >= most) return finish('length', made);
  for await (const { token, probability } of steps(
    sequence,
    { prompt, answered },
    sampling,
    signal,
  )) {
    const ended = loaded.stops.has(token) || model.isEogToken(token);
    if (!ended) made += 1;
    const over = ended || made >= most;
    const released = filter.accept(ended ? [] : [token], probability, over);
    if (released === 'declined') {
      emit(declined);
      return finish(declined.length < loaded.fallback.length ? 'length' : 'stop', declined.length);
    }
    if (released.length > 0) emit(released);
    if (over) return finish(ended ? 'stop' : 'length', made);
  }
  return null;
}
