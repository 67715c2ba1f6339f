import { asSvcError, SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import type { Context } from '../../terminal/context.ts';
import { note, print, printJson, say } from '../../terminal/print/output.ts';
import { startDaemon, WAIT } from '../daemon/start-daemon.ts';
import { stopDaemon } from '../daemon/stop-daemon.ts';
import { serviceManager } from './managers.ts';
import { describeService, findUnreached } from './service.ts';

/**
 * Installs the service and starts it. A daemon that runs already is stopped first, if the service
 * manager can be queried. If the manager refuses, the daemon is started again.
 */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const manager = serviceManager();
  const service = describeService(paths, process.env);
  if (flags.print === true) {
    if (json) printJson({ manager: manager.name, file: manager.file, text: manager.text(service) });
    else print(manager.text(service).trimEnd());
    return 0;
  }
  await manager.reach();
  const { pid } = await stopDaemon({ paths, force: false, timeout_ms: undefined });
  await manager.install(service).catch(async (error: unknown) => {
    if (!(error instanceof SvcError)) throw error;
    const again = pid === null ? '' : ` ${await startAgain(paths)}`;
    throw new SvcError('service_manager_failed', error.message, {
      cause: error,
      hint: `Nothing was installed.${again} See why: svc logs`,
    });
  });
  const { state } = await manager.status();
  if (json) printJson({ manager: manager.name, file: manager.file, state, stopped_pid: pid });
  else {
    if (pid !== null)
      note(`The daemon that ran (pid ${pid}) was stopped: the service replaces it.`);
    say(`svc is a service of ${manager.name}, and starts when you sign in.`);
    for (const line of advice(manager.name, service.envFile)) note(line);
  }
  return 0;
}

/** Replaces the daemon that was stopped for the service. Resolves with the outcome. */
async function startAgain(paths: Paths): Promise<string> {
  try {
    const { status } = await startDaemon({ paths, flags: {}, wait_ms: WAIT.default_ms });
    return `The daemon runs again (pid ${status.pid}).`;
  } catch (error) {
    const { message } = asSvcError(error);
    return `The daemon was stopped, and does not start: ${message} Run: svc start.`;
  }
}

function advice(manager: string, envFile: string): string[] {
  const missing = findUnreached(process.env, envFile);
  const kept = manager === 'systemd' ? ` Put them in ${envFile}, or` : '';
  return [
    ...(manager === 'systemd'
      ? ['It stops when you sign out. To keep it: loginctl enable-linger']
      : []),
    ...(missing.length > 0
      ? [
          `The service does not have ${missing.join(', ')} of this ` +
            `shell.${kept || ' For a setting,'} use the configuration: svc config show`,
        ]
      : []),
    'It has the keys that svc stores: svc provider key <id>',
  ];
}
