const sources = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/**
 * Aborted with the first of them. AbortSignal.any alone loses an abort if one of its signals, such
 * as a timeout, is garbage-collected before somebody listens. Here they live as long as it does.
 */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const any = AbortSignal.any([...signals]);
  sources.set(any, signals);
  return any;
}
