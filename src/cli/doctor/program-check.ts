import { programVersion } from '../../home/version.ts';
import { type Check, fail, ok, type Patient, warn } from './check.ts';

const NODE_MIN = [22, 13] as const;

export function checkNode(): Check[] {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const recent = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1]);
  if (recent)
    return [ok('node', `Node.js ${process.version} on ${process.platform} ${process.arch}`)];
  return [
    fail(
      'node',
      `Node.js ${process.version} is older than ${NODE_MIN.join('.')}.`,
      'Install a later Node.js.',
    ),
  ];
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
