/**
 * The effects that machines ask for, as plain data.
 *
 * A machine names an effect. `src/` performs it after the commit of the event that asked for it,
 * and appends its outcome as another event. Every effect is safe to repeat.
 */

export interface Effects {
  /** Ask the provider of the run for an answer. */
  startAttempt: { run_id: string; attempt: number };
  /** Stop the work of the run, then append how it ended. */
  stopAttempt: { run_id: string; outcome: 'cancelled' | 'timed_out' | 'interrupted' };
  /** Resume the calls of the run that can continue. */
  callTools: { run_id: string };
  /** Release runs, engine and listeners, then append that the daemon stopped. */
  closeDaemon: { interrupt: boolean };
  /** `engine`: its number. `threads` is null if the engine chooses. Absent context: the usual. */
  startEngine: {
    engine: number;
    attempt: number;
    model: string;
    path: string;
    threads: number | null;
    context_tokens?: number;
  };
  stopEngine: { engine: number; attempt: number };
  killEngine: { engine: number; attempt: number };
  probeProvider: { provider_id: string; probe: number };
  /** Download the model, from where the last attempt stopped. */
  startPull: { pull_id: string; attempt: number };
  /** Stop the download. The bytes on disk stay. */
  stopPull: { pull_id: string; attempt: number };
  /** `number` counts the tool servers of this boot. */
  startToolServer: { number: number; attempt: number };
  stopToolServer: { number: number; attempt: number };
  killToolServer: { number: number; attempt: number };
}

export type EffectName = keyof Effects;
export type Effect = { [N in EffectName]: { type: N; params: Effects[N] } }[EffectName];

const NAMES: Readonly<Record<EffectName, true>> = {
  startAttempt: true,
  stopAttempt: true,
  callTools: true,
  closeDaemon: true,
  startEngine: true,
  stopEngine: true,
  killEngine: true,
  probeProvider: true,
  startPull: true,
  stopPull: true,
  startToolServer: true,
  stopToolServer: true,
  killToolServer: true,
};

/** Whether an action of a machine is an effect; the others only change its context. */
export function isEffect(name: string): name is EffectName {
  return Object.hasOwn(NAMES, name);
}

/** Types the parameters of an effect in the `setup` of a machine. */
export function effect<N extends EffectName>(_name: N): (_: unknown, params: Effects[N]) => void {
  return () => {};
}
