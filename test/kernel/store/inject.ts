import { spawnSync } from 'node:child_process';

/** The command line that makes system calls of a command fail. */
export const inject = (fault: string): string[] => [
  'strace',
  '-f',
  '-qqq',
  '-e',
  `trace=${fault.split(':')[0]}`,
  '-e',
  'signal=none',
  '-o',
  '/dev/null',
  '-e',
  `inject=${fault}`,
];

/** Without strace, or without the right to trace, faults cannot be tested. */
export const possible =
  spawnSync('strace', [...inject('fsync:error=EIO').slice(1), 'true']).status === 0;
if (!possible) console.log('skipped: there is no strace here, or it may not trace');
