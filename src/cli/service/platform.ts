import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { SvcError } from '../../errors.ts';
import { agentText, LABEL } from './launchd.ts';
import type { Service } from './service.ts';
import { UNIT, unitText } from './systemd.ts';

/** A service manager of a platform. Its commands throw service_manager_failed. */
export interface ServiceManager {
  name: 'systemd' | 'launchd' | 'task scheduler';
  /** The file that defines the service; the task scheduler keeps it to itself. */
  file: string | null;
  text(service: Service): string;
  /** Runs it at each login, and now. */
  install(service: Service): Promise<void>;
  /** Stops it and removes it. */
  remove(): Promise<void>;
  /** Whether it is installed, and its state in the words of the manager. */
  status(): Promise<{ installed: boolean; state: string }>;
}

/** The service manager of this platform. */
export function serviceManager(env: NodeJS.ProcessEnv = process.env): ServiceManager {
  if (process.platform === 'darwin') return launchd();
  if (process.platform === 'win32') return taskScheduler();
  return systemd(env);
}

function systemd(env: NodeJS.ProcessEnv): ServiceManager {
  const folder = env.XDG_CONFIG_HOME ?? join(homedir(), '.config');
  const file = join(folder, 'systemd', 'user', UNIT);
  const control = (...args: string[]) => execute('systemctl', ['--user', ...args]);
  return {
    name: 'systemd',
    file,
    text: unitText,
    install: async (service) => {
      writeDefinition(file, unitText(service));
      await control('daemon-reload');
      await control('enable', '--now', UNIT);
    },
    remove: async () => {
      await control('disable', '--now', UNIT);
      rmSync(file, { force: true });
      await control('daemon-reload');
    },
    status: async () => ({
      installed: existsSync(file),
      state: await stateFrom('systemctl', ['--user', 'is-active', UNIT]),
    }),
  };
}

function launchd(): ServiceManager {
  const file = join(homedir(), 'Library', 'LaunchAgents', `${LABEL}.plist`);
  const domain = `gui/${userInfo().uid}`;
  return {
    name: 'launchd',
    file,
    text: agentText,
    install: async (service) => {
      writeDefinition(file, agentText(service));
      await execute('launchctl', ['bootout', `${domain}/${LABEL}`]).catch(() => {});
      await execute('launchctl', ['bootstrap', domain, file]);
    },
    remove: async () => {
      await execute('launchctl', ['bootout', `${domain}/${LABEL}`]);
      rmSync(file, { force: true });
    },
    status: async () => {
      const text = await stateFrom('launchctl', ['print', `${domain}/${LABEL}`]);
      const state = /^\s*state = (.+)$/m.exec(text)?.[1] ?? 'not loaded';
      return { installed: existsSync(file), state };
    },
  };
}

function taskScheduler(): ServiceManager {
  const task = (...args: string[]) => execute('schtasks', [...args, '/TN', TASK]);
  const line = ({ command }: Service) => command.map((word) => `"${word}"`).join(' ');
  return {
    name: 'task scheduler',
    file: null,
    text: line,
    install: async (service) => {
      await task('/Create', '/F', '/SC', 'ONLOGON', '/RL', 'LIMITED', '/TR', line(service));
      await task('/Run');
    },
    remove: async () => {
      await task('/End').catch(() => {});
      await task('/Delete', '/F');
    },
    status: async () => {
      const text = await stateFrom('schtasks', ['/Query', '/FO', 'CSV', '/NH', '/TN', TASK]);
      const state = /"([^"]*)"\s*$/.exec(text)?.[1];
      return { installed: state !== undefined, state: state ?? 'not installed' };
    },
  };
}

const TASK = 'svc';
const COMMAND_MS = 120_000;

function writeDefinition(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text, { mode: 0o644 });
}

async function execute(command: string, args: readonly string[]): Promise<string> {
  const { code, output } = await outcomeOf(command, args);
  if (code === 0) return output;
  const what = code === 'ENOENT' ? 'it is not installed' : output.trim() || `exit code ${code}`;
  throw new SvcError('service_manager_failed', `\`${command} ${args.join(' ')}\` failed: ${what}`);
}

/** The words of a command that also fails to say that nothing runs. */
async function stateFrom(command: string, args: readonly string[]): Promise<string> {
  const { code, output } = await outcomeOf(command, args);
  return code === 'ENOENT' ? `unknown: ${command} is not installed` : output.trim();
}

function outcomeOf(
  command: string,
  args: readonly string[],
): Promise<{ code: number | string; output: string }> {
  return new Promise((resolve) => {
    execFile(command, [...args], { timeout: COMMAND_MS }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : (error.code ?? 'killed'), output: stdout || stderr }),
    );
  });
}
