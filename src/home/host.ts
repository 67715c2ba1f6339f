/**
 * The boot id of the operating system, which distinguishes a power cut from a kill. Null where the
 * system has no such id.
 */
export function hostBootId(): string | null {
  try {
    const file = '/proc/sys/kernel/random/boot_id';
    return process.getBuiltinModule('node:fs').readFileSync(file, 'latin1').trim();
  } catch {
    return null;
  }
}
