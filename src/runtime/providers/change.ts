import { SvcError } from '../../errors.ts';
import type { ProviderInput } from '../contract.ts';

/** Runs changes one after the other, so that providers.json and the providers agree. */
export function oneAtATime(): <T>(change: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (change) => {
    const mine = last.then(change);
    last = mine.catch(() => undefined);
    return mine;
  };
}

/** A change on a stalled disk may still take effect. A second request would then be refused. */
export function throwWithChange(thrown: unknown): never {
  if (!(thrown instanceof SvcError) || !STALLED.has(thrown.code)) throw thrown;
  const { code, message, details } = thrown;
  const hint =
    'Check the disk. When it can be written again, check with svc provider list that the change was made. If not, repeat it.';
  throw new SvcError(code, message, {
    cause: thrown,
    hint,
    ...(details === undefined ? {} : { details }),
  });
}

const STALLED: ReadonlySet<string> = new Set(['store_stalled', 'store_full']);

/** The fields that a request gives, without the id. */
export function providerSettings(input: ProviderInput): Record<string, unknown> {
  const { id: _, ...settings } = input;
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}
