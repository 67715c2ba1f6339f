import { readFileSync } from 'node:fs';

/** Identifies the life of the operating system, so that a power cut can be told from a kill; null where it does not tell. */
export function hostBootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}
