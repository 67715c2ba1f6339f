/**
 * Every effect a machine can ask for, as plain data. A machine names it; `src/` performs it, after the
 * fact that asked for it is durable; its outcome comes back as another fact. Each is safe to repeat.
 */

export interface Effects {
  /** Ask the provider of the run for an answer. */
  startAttempt: { run_id: string; attempt: number };
  /** Make the work of the run stop, then record that it has. */
  stopAttempt: { run_id: string; outcome: 'cancelled' | 'timed_out' | 'interrupted' };
  /** Release what the daemon holds: runs, engine, listeners; then record that it stopped. */
  closeDaemon: { interrupt: boolean };
  /** `threads`: null where the engine chooses. */
  startEngine: { attempt: number; model: string; path: string; threads: number | null };
  stopEngine: { attempt: number };
  killEngine: { attempt: number };
  probeProvider: { provider_id: string; probe: number };
  /** Fetch the model, from where the last attempt stopped. */
  startPull: { pull_id: string; attempt: number };
  /** Make the work of the pull stop; what was fetched stays. */
  stopPull: { pull_id: string; attempt: number };
}

export type EffectName = keyof Effects;
export type Effect = { [N in EffectName]: { type: N; params: Effects[N] } }[EffectName];

/** Keeps the named actions of every machine to the vocabulary above. */
export function effect<N extends EffectName>(_name: N): (_: unknown, params: Effects[N]) => void {
  return () => {};
}
