import type { PullContext } from './context.ts';
import { GOES_ON, pullError } from './failure.ts';

export type SpaceContext = Pick<PullContext, 'folder' | 'limits' | 'freeBytes'>;

/** Throws unless the bytes fit and the daemon's own disk space stays free. */
export async function checkSpace(
  { folder, limits, freeBytes: ask }: SpaceContext,
  bytes: number,
): Promise<void> {
  const free = await ask(folder);
  if (free >= bytes + limits.pull_spare_bytes) return;
  const rest =
    bytes > 0 ? `The download needs ${mebibytes(bytes)} more` : 'The disk is nearly full';
  throw pullError(
    'pull_failed',
    `${rest}: ${mebibytes(free)} are free, and the daemon keeps ` +
      `${mebibytes(limits.pull_spare_bytes)} of them.`,
    { hint: `Free some space. ${GOES_ON}` },
  );
}

function mebibytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 / 1024)} MiB`;
}
