import { systemCode } from '../causes.ts';

/** The hint for another thing in the place of a file that svc can make again. */
export const AWAY = 'Move it away; svc makes a new one when it starts.';

/** The hint for a file or a folder of the home that cannot be used. */
export function remedyFor(
  path: string,
  thrown: unknown,
  { away = AWAY, mode = '600' }: { away?: string; mode?: '600' | '700' } = {},
): string {
  switch (systemCode(thrown)) {
    case 'EACCES':
    case 'EPERM':
      return `Run: chown "$USER" ${path}; chmod ${mode} ${path}`;
    case 'EROFS':
      return 'Mount its disk writable, or choose another home with SVC_HOME.';
    case 'ENOTDIR':
      return 'Choose another place with SVC_HOME.';
    case 'EIO':
      return 'Look at its disk, or choose another home with SVC_HOME.';
    default:
      return away;
  }
}
