import { SYSTEM } from '../../../home/platform.ts';
import { programVersion } from '../../../home/version.ts';
import { type Check, type DoctorContext, ok, warn } from './check.ts';

/** The bin has refused a version that is too old. */
export function checkNode(): Check[] {
  return [ok('node', `Node.js ${process.version} on ${SYSTEM}`)];
}

/** The command line and the daemon may be of different versions after an upgrade. */
export function checkVersions({ running }: DoctorContext): Check[] {
  const mine = programVersion();
  if (running === null || running.status.version === mine) return [ok('version', `svc ${mine}`)];
  return [
    warn(
      'version',
      `This is svc ${mine}; the running daemon is ${running.status.version}.`,
      'Run: svc restart',
    ),
  ];
}
