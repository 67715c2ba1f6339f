import { SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { readRuntimeFile } from '../../../home/runtime-file.ts';

/**
 * The error for a key that this shell has and the daemon has not. Null: that is not the reason.
 * `credential` is the one of the provider's record.
 */
export function keyOfThisShell(
  { id, credential }: { id: string; credential: string },
  paths: Paths,
): SvcError | null {
  const name = /^env:(\w+) \(not set\)$/.exec(credential)?.[1];
  if (name === undefined || !process.env[name]) return null;
  const found = readRuntimeFile(paths.runtime);
  const pid = found.kind === 'present' ? ` (pid ${found.file.pid})` : '';
  return new SvcError(
    'provider_unauthorised',
    `The key of ${id} is not set in the daemon${pid}, but ${name} is set in this shell.`,
    {
      hint:
        `Store it: svc provider key ${id} --from-env ${name}. ` +
        'Or restart the daemon from this shell: svc restart',
    },
  );
}
