import { existsSync } from 'node:fs';
import type { Service } from './service.ts';

export const UNIT = 'svc.service';

/** Exit codes that a restart cannot mend: wrong flags, and a wrong configuration or home. */
const FINAL_EXITS = [2, 6];
const WATCHDOG_S = 30;

/**
 * The user unit. The engines get SIGTERM from the daemon, so systemd signals the daemon alone; what
 * is left is killed.
 */
export function unitText({ command, env, envFile, start_s, stop_s }: Service): string {
  const variables = Object.entries(env).map(
    ([name, value]) => `Environment=${quoteWord(`${name}=${value}`)}\n`,
  );
  return `[Unit]
Description=svc, a local AI runtime daemon

[Service]
Type=notify
NotifyAccess=all
ExecStart=${command.map(argument).join(' ')}
${variables.join('')}EnvironmentFile=-${path(envFile)}
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=${FINAL_EXITS.join(' ')}
WatchdogSec=${WATCHDOG_S}
TimeoutStartSec=${start_s}
TimeoutStopSec=${stop_s}
KillMode=mixed
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
`;
}

/** `%` begins a specifier of systemd. */
function path(text: string): string {
  return text.replaceAll('%', '%%');
}

function quoteWord(text: string): string {
  return `"${path(text).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** In a command line `$` begins a variable too. */
function argument(text: string): string {
  return quoteWord(text).replaceAll('$', '$$$$');
}

/** The hint that gives this shell a systemd of its user. */
export function noBusHint(env: NodeJS.ProcessEnv): string {
  const uid = process.getuid?.() ?? 0;
  const folder = `/run/user/${uid}`;
  const way = existsSync(folder)
    ? env.XDG_RUNTIME_DIR === folder
      ? 'Sign in again, at the machine or by ssh.'
      : `Run: export XDG_RUNTIME_DIR=${folder}. Then run the command again.`
    : 'su and sudo give no session: sign in at the machine or by ssh. ' +
      'Without that: loginctl enable-linger, as this user or root.';
  return `${way} Without a service: svc start`;
}
