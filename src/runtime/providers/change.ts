import type { ProviderInput } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { rejectWhenStalled } from '../disk/refuse-when-stalled.ts';

/** Makes a change of the configuration. */
export type ChangeConfig = <T>(change: () => Promise<T>) => Promise<T>;

/**
 * Changes follow one another, so that the files of the configuration and the daemon agree. No
 * change waits for a full or stalled disk.
 */
export function changesOf(kernel: Kernel): ChangeConfig {
  let last: Promise<unknown> = Promise.resolve();
  return (change) =>
    rejectWhenStalled(kernel, () => {
      const mine = last.then(change);
      last = mine.catch(() => undefined);
      return mine;
    }).catch(throwWithChange);
}

/** A change on a stalled disk may still take effect. A second request would then be refused. */
function throwWithChange(thrown: unknown): never {
  if (!(thrown instanceof SvcError) || !STALLED.has(thrown.code)) throw thrown;
  const { code, message, details } = thrown;
  const hint =
    'Check the disk. When it can be written again, check with svc provider list that the ' +
    'change was made. If not, repeat it.';
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
