const sources = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/**
 * Aborted with the first of the signals. AbortSignal.any alone loses an abort if one of its
 * signals, such as a timeout, is garbage-collected before it is first used.
 */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const any = AbortSignal.any([...signals]);
  sources.set(any, signals);
  return any;
}
