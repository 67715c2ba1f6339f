import type { RunContext } from '../../../machines/run/context.ts';

/**
 * Tokens a second, to a tenth: every speed that svc shows. Null: unknown.
 *
 * 1. The report of the engine that computed the answer is the best source.
 * 2. Without such a report the times of the pieces count, from the first one on.
 */
export function speedOf(context: RunContext): number | null {
  const { completion, output_tokens } = context;
  const said: unknown = completion?.tokens_per_second;
  // A file of a run may have anything.
  if (typeof said === 'number' && Number.isFinite(said)) return toTenth(said);
  const ms = answerMs(context);
  const tokens = completion?.usage.output_tokens ?? output_tokens;
  return ms === null || tokens < 2 ? null : toTenth(((tokens - 1) / ms) * 1000);
}

function toTenth(speed: number): number {
  return Math.round(speed * 10) / 10;
}

/**
 * Milliseconds from the first output of an answer to its end.
 * Null where that time is unknown, or is not that of the model:
 *
 * 1. All of the answer came as one piece, or so fast that it was sent together.
 * 2. Tools or persons worked in between.
 * 3. The work was lost in the middle, and resumed later.
 */
function answerMs(context: RunContext): number | null {
  const { first_output_at, ended_at, outputs, turns, attempt, failed_attempts } = context;
  if (first_output_at === null || ended_at === null || outputs < 2) return null;
  if (turns.length > 0 || attempt > failed_attempts.length + 1) return null;
  const ms = ended_at - first_output_at;
  return ms < ANSWER_MS_MIN ? null : ms;
}

/** Within this time, pieces that were sent together arrive one after the other. */
const ANSWER_MS_MIN = 50;
