import { asSvcError } from '../errors.ts';
import type { FromEngine } from './protocol/from-engine.ts';

/** The ends of orders that have no answer of their own. */

/** The end of an order that read texts, and wrote none. */
export function readAll(id: number, input_tokens: number): FromEngine {
  const usage = { input_tokens, output_tokens: 0 };
  return { type: 'finished', id, finish_reason: 'stop', usage };
}

export function endOfFailure(id: number, thrown: unknown): FromEngine {
  const error = asSvcError(thrown, 'engine_failed');
  if (error.code === 'engine_failed') console.error(`order ${id}:`, error.cause ?? error);
  return { type: 'failed', id, error: error.summary() };
}
