import { readFileSync } from 'node:fs';

const REPLACEMENT = '\u{fffd}';

/**
 * Whether a command line argument was UTF-8. Node has put replacement characters where it was not; one that was really
 * written can be told from those only by the bytes, where the system shows them.
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
