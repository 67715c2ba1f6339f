import { existsSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { loadConfig } from '../../../config/config.ts';
import { SvcError } from '../../../errors.ts';
import { DAEMON_ALLOCATOR } from '../../../home/allocator.ts';
import type { Paths } from '../../../home/paths.ts';
import { programFile } from '../../../home/program-file.ts';
import type { Limits } from '../../../limits.ts';
import { installationOf, lastingPath } from '../../terminal/installed.ts';

/** The daemon, as a service manager needs it. */
export interface Service {
  /** The command line that runs the daemon in the foreground. */
  command: readonly string[];
  /** Variables of this shell that place the home; the daemon needs the same ones. */
  env: Readonly<Record<string, string>>;
  /** A file of further variables, such as keys; it need not exist. */
  envFile: string;
  /** Longest start and longest stop, in seconds. */
  start_s: number;
  stop_s: number;
  /** Output of the process before its log is open. */
  stderr: string;
}

/** Throws usage if the program is where it will not stay, and the errors of the configuration. */
export function describeService(paths: Paths, env: NodeJS.ProcessEnv): Service {
  const program = realpathSync(programFile());
  const place = installationOf(program);
  if (place.installed === 'npx')
    throw new SvcError(
      'usage',
      'This svc is in the cache of npx, and npx may delete it: a service needs one that stays.',
      {
        hint:
          'Install the package first: npm install --global <package>. Then: ' +
          'svc service install',
      },
    );
  const { limits } = loadConfig(paths.config);
  return {
    command: [lastingPath(process.execPath, place), lastingPath(program, place), 'serve'],
    env: { ...DAEMON_ALLOCATOR, ...placingVariables(env) },
    envFile: join(dirname(paths.config), 'service.env'),
    ...serviceSeconds(limits),
    stderr: paths.stderr,
  };
}

/** The longest start and stop that a service manager waits for. */
export function serviceSeconds(
  limits: Pick<Limits, 'start_ms' | 'drain_ms' | 'close_ms'>,
): Pick<Service, 'start_s' | 'stop_s'> {
  const seconds = (ms: number) => Math.ceil(ms / 1000) + SLACK_S;
  return { start_s: seconds(limits.start_ms), stop_s: seconds(limits.drain_ms + limits.close_ms) };
}

/** The service manager has its own environment, and another working folder. */
function placingVariables(env: NodeJS.ProcessEnv): Record<string, string> {
  const { SVC_HOME } = env;
  const folders = ['XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME'];
  if (SVC_HOME) return { SVC_HOME: resolve(SVC_HOME) };
  // Others do not count: see findPaths.
  return Object.fromEntries(
    folders.flatMap((name) => {
      const folder = env[name];
      return folder !== undefined && isAbsolute(folder) ? [[name, folder]] : [];
    }),
  );
}

/** Settings of this shell that the service will not have. */
export function findUnreached(env: NodeJS.ProcessEnv, envFile: string): string[] {
  if (existsSync(envFile)) return [];
  return Object.keys(env)
    .filter((name) => name.startsWith('SVC_') && name !== 'SVC_HOME' && name !== 'SVC_DEBUG')
    .sort();
}

const SLACK_S = 10;
