import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { SvcError } from '../../../errors.ts';
import { type Platform, platform } from '../../../home/platform.ts';
import { agentText, LABEL } from './launch-agent.ts';
import type { Service } from './service.ts';
import { noBusHint, UNIT, unitText } from './systemd.ts';
import { taskText } from './task.ts';

/** A service manager of a platform. Its commands throw service_manager_failed. */
export interface ServiceManager {
  name: Platform['serviceManager'];
  /** The file that defines the service; the task scheduler keeps it to itself. */
  file: string | null;
  text(service: Service): string;
  /** Changes nothing. Throws if the manager cannot be queried from here. */
  reach(): Promise<void>;
  /** Runs it at each login, and now. After a failure the definition is as before. */
  install(service: Service): Promise<void>;
  /** Stops and removes it. Resolves with the refusal of the manager: a file is gone anyway. */
  remove(): Promise<SvcError | null>;
  status(): Promise<ServiceStatus>;
}

export interface ServiceStatus {
  installed: boolean;
  /** In the words of the manager; `unknown` where it cannot be queried. */
  state: string;
  /** Why it cannot be queried; null where it can. */
  problem: SvcError | null;
}

/** The service manager of this platform. */
export function serviceManager(env: NodeJS.ProcessEnv = process.env): ServiceManager {
  return MANAGERS[platform.serviceManager](env);
}

function systemd(env: NodeJS.ProcessEnv): ServiceManager {
  const folder = join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'systemd', 'user');
  const file = join(folder, UNIT);
  const control = (...args: string[]) => execute('systemctl', ['--user', ...args]);
  const reload = () => control('daemon-reload');
  /** The state of a unit is on stdout, also for exit codes above 0. Empty without a bus. */
  const state = async () => {
    const outcome = await outcomeOf('systemctl', ['--user', 'is-active', UNIT]);
    if (outcome.code === 0 || outcome.stdout !== '') return outcome.stdout;
    throw outcome.failure(noBusHint(env));
  };
  const remove = async () => {
    const refused = await refusalOf(control('disable', '--now', UNIT));
    rmSync(file, { force: true });
    // The links that `disable` removes, where it failed.
    rmSync(join(folder, 'default.target.wants', UNIT), { force: true });
    return (await refusalOf(reload())) ?? refused;
  };
  return {
    name: 'systemd',
    file,
    text: unitText,
    reach: async () => void (await state()),
    install: (service) =>
      define(file, unitText(service), { remove, reload }, async () => {
        await reload();
        await control('enable', '--now', UNIT);
      }),
    remove,
    status: () => statusFrom(state, () => existsSync(file)),
  };
}

function launchd(): ServiceManager {
  const file = join(homedir(), 'Library', 'LaunchAgents', `${LABEL}.plist`);
  const domain = `gui/${userInfo().uid}`;
  const control = (...args: string[]) => execute('launchctl', args);
  const remove = async () => {
    const isLoaded = (await outcomeOf('launchctl', ['print', `${domain}/${LABEL}`])).code === 0;
    const refused = isLoaded ? await refusalOf(control('bootout', `${domain}/${LABEL}`)) : null;
    rmSync(file, { force: true });
    return refused;
  };
  const reach = async () => {
    const outcome = await outcomeOf('launchctl', ['print', domain]);
    if (outcome.code !== 0) throw outcome.failure(NO_GUI);
  };
  return {
    name: 'launchd',
    file,
    text: agentText,
    reach,
    install: (service) =>
      define(file, agentText(service), { remove }, async () => {
        await control('bootout', `${domain}/${LABEL}`).catch(() => {});
        await control('bootstrap', domain, file);
      }),
    remove,
    status: () =>
      statusFrom(
        async () => {
          await reach();
          const { stdout } = await outcomeOf('launchctl', ['print', `${domain}/${LABEL}`]);
          return /^\s*state = (.+)$/m.exec(stdout)?.[1] ?? 'not loaded';
        },
        () => existsSync(file),
      ),
  };
}

function taskScheduler(): ServiceManager {
  const task = (...args: string[]) => execute('schtasks', [...args, '/TN', TASK]);
  const remove = async () => {
    await task('/End').catch(() => {});
    await task('/Delete', '/F');
    return null;
  };
  const state = async () => {
    const { stdout } = await outcomeOf('schtasks', ['/Query', '/FO', 'CSV', '/NH', '/TN', TASK]);
    return /"([^"]*)"\s*$/.exec(stdout)?.[1] ?? 'not installed';
  };
  return {
    name: 'task scheduler',
    file: null,
    text: (service) => taskText(service, userInfo().username),
    reach: async () => void (await execute('schtasks', ['/Query', '/FO', 'CSV', '/NH'])),
    install: async (service) => {
      const folder = mkdtempSync(join(tmpdir(), 'svc-task-'));
      try {
        const file = join(folder, 'task.xml');
        writeFileSync(file, `\ufeff${taskText(service, userInfo().username)}`, 'utf16le');
        await task('/Create', '/F', '/XML', file);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
      await task('/Run').catch(async (error: unknown) => {
        await refusalOf(remove());
        throw error;
      });
    },
    remove,
    status: async () => {
      const found = await statusFrom(state, () => false);
      return { ...found, installed: found.state !== 'not installed' };
    },
  };
}

const MANAGERS = { systemd, launchd, 'task scheduler': taskScheduler };
const TASK = 'svc';
const NO_GUI =
  'launchd runs agents in a session at the screen. Sign in there, and run the command again. ' +
  'Without a service: svc start';

/** Writes the definition and starts the service. On failure the previous definition is restored. */
async function define(
  file: string,
  text: string,
  { remove, reload }: { remove: () => Promise<unknown>; reload?: () => Promise<unknown> },
  start: () => Promise<void>,
): Promise<void> {
  const before = existsSync(file) ? readFileSync(file) : null;
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text, { mode: 0o644 });
    await start();
  } catch (error) {
    if (before === null) await remove();
    else {
      writeFileSync(file, before, { mode: 0o644 });
      if (reload !== undefined) await refusalOf(reload());
    }
    throw error;
  }
}

/** Why the manager refused a command; null if it did not. */
function refusalOf(command: Promise<unknown>): Promise<SvcError | null> {
  return command.then(
    () => null,
    (error: unknown) => {
      if (error instanceof SvcError) return error;
      throw error;
    },
  );
}

async function statusFrom(
  state: () => Promise<string>,
  isInstalled: () => boolean,
): Promise<ServiceStatus> {
  const installed = isInstalled();
  try {
    return { installed, state: await state(), problem: null };
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return { installed, state: 'unknown', problem: error };
  }
}

/** A command of a service manager that has ended. */
interface CommandOutcome {
  /** Its exit code; a word if it did not run, or was killed. */
  code: number | string;
  stdout: string;
  /** The error for an outcome that is a failure. */
  failure(hint?: string): SvcError;
}

const COMMAND_MS = 120_000;

/** Resolves with its output. Throws service_manager_failed. */
async function execute(command: string, args: readonly string[]): Promise<string> {
  const outcome = await outcomeOf(command, args);
  if (outcome.code === 0) return outcome.stdout;
  throw outcome.failure();
}

function outcomeOf(command: string, args: readonly string[]): Promise<CommandOutcome> {
  return new Promise((resolve) => {
    execFile(command, [...args], { timeout: COMMAND_MS }, (error, stdout, stderr) => {
      const code = error === null ? 0 : (error.code ?? 'killed');
      const words = (stderr || stdout).trim();
      const what = code === 'ENOENT' ? 'it is not installed' : words || `exit code ${code}`;
      const failure = (hint?: string) =>
        new SvcError(
          'service_manager_failed',
          `\`${command} ${args.join(' ')}\` failed: ${what}`,
          hint === undefined ? {} : { hint },
        );
      resolve({ code, stdout: stdout.trim(), failure });
    });
  });
}
