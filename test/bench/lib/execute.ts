import { spawnSync } from 'node:child_process';

/** Runs a command to its end. Throws when it fails. */
export function execute(command: string, args: readonly string[], env: NodeJS.ProcessEnv): void {
  const { status, stderr } = spawnSync(command, args, {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${args.join(' ')}: ${status} ${stderr}`);
}
