/**
 * Whether SIGHUP ends this process.
 *
 * 1. Node resets the signals that the caller ignored, and the system does not keep that they were.
 *    So `nohup` is known by what it leaves: no terminal. BSD's leaves stdin.
 * 2. `trap '' HUP` is known by the shell, where it still is our parent and Linux says what it ignores.
 * 3. On Windows the signal is the end of the console, and cannot be ignored.
 */
export const endsAtHangup: boolean =
  process.platform === 'win32' || (hasTerminal() && !parentIgnoresHangup());

function hasTerminal(): boolean {
  const { isatty } = process.getBuiltinModule('node:tty');
  return (process.platform === 'linux' ? [0, 1, 2] : [1, 2]).some((fd) => isatty(fd));
}

/** SIGHUP is the first signal, so it is the lowest bit. */
function parentIgnoresHangup(): boolean {
  try {
    const { readFileSync } = process.getBuiltinModule('node:fs');
    const text = readFileSync(`/proc/${process.ppid}/status`, 'latin1');
    const [, ignored = '0'] = /^SigIgn:\s*([0-9a-f]+)$/m.exec(text) ?? [];
    return (BigInt(`0x${ignored}`) & 1n) === 1n;
  } catch {
    return false;
  }
}
