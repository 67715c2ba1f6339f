import { platform } from './platform.ts';

// Not imported: see paths.ts.
const { fstatSync, readFileSync, statSync } = process.getBuiltinModule('node:fs');

/** Whether the descriptor is a terminal. */
export function isTerminal(fd: number): boolean {
  try {
    // Checked first: the tty module, which loads that of sockets, is slow.
    const found = fstatSync(fd);
    if (!found.isCharacterDevice() || found.rdev === nullDevice()) return false;
    return process.getBuiltinModule('node:tty').isatty(fd);
  } catch {
    return false;
  }
}

/** The usual stdin of a script or a service. Undefined on Windows. */
function nullDevice(): number | undefined {
  return statSync('/dev/null', { throwIfNoEntry: false })?.rdev;
}

/**
 * Whether SIGHUP ends this process.
 *
 * 1. Node resets the signals that the caller ignored, and the system does not keep that they were.
 *    So `nohup` is known by its effect: no terminal. BSD's leaves stdin.
 * 2. `trap '' HUP` is known by the shell, while it is our parent. Only Linux lists ignored signals.
 * 3. On Windows the signal is the end of the console, and cannot be ignored.
 */
export function endsAtHangup(): boolean {
  const { hangup } = platform;
  return hangup === null || (hangup.some(isTerminal) && !parentIgnoresHangup());
}

/** SIGHUP is the first signal, so it is the lowest bit. */
function parentIgnoresHangup(): boolean {
  try {
    const text = readFileSync(`/proc/${process.ppid}/status`, 'latin1');
    const [, ignored = '0'] = /^SigIgn:\s*([0-9a-f]+)$/m.exec(text) ?? [];
    return (BigInt(`0x${ignored}`) & 1n) === 1n;
  } catch {
    return false;
  }
}
