import { readFileSync } from 'node:fs';

/**
 * The boot id of the operating system, which distinguishes a power cut from a kill; null where
 * there is none.
 */
export function hostBootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}
