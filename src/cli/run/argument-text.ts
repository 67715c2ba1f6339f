import { readFileSync } from 'node:fs';

const REPLACEMENT = '\u{fffd}';

/**
 * Whether a command line argument was UTF-8. Node replaces invalid bytes by replacement characters.
 * Only the raw bytes, where the OS shows them, distinguish these from characters of the user.
 */
export function isArgumentText(argument: string): boolean {
  if (!argument.includes(REPLACEMENT)) return true;
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(readFileSync('/proc/self/cmdline'));
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ERR_ENCODING_INVALID_ENCODED_DATA';
  }
}
