import { programVersion } from '../../home/version.ts';
import { type Check, ok, type Patient, warn } from './check.ts';

/** The bin has refused a version that is too old. */
export function checkNode(): Check[] {
  return [ok('node', `Node.js ${process.version} on ${process.platform} ${process.arch}`)];
}

/** The command line and the daemon may be of different versions after an upgrade. */
export function checkVersions({ alive }: Patient): Check[] {
  const mine = programVersion();
  if (alive === null || alive.status.version === mine) return [ok('version', `svc ${mine}`)];
  return [
    warn(
      'version',
      `This is svc ${mine}, the daemon that runs is ${alive.status.version}.`,
      'Run: svc restart',
    ),
  ];
}
