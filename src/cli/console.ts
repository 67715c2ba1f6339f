import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { hasCode } from '../errors.ts';
import { platform } from '../home/platform.ts';
import { oneLine } from '../logs/plain.ts';
import { starterOf } from './run/ensure-daemon.ts';
import { askDaemon } from './terminal/connect/ask-daemon.ts';
import type { Context } from './terminal/context.ts';
import { note, print, printJson } from './terminal/print/output.ts';

/**
 * Opens the console in the browser, signed in. Starts the daemon if none runs. Without a browser
 * the address is printed. It is valid for one sign-in, for one minute. The address is a secret, and
 * other users can read a command line. The browser therefore opens a private file that leads there.
 */
export async function run(context: Context): Promise<number> {
  const { paths, flags, json } = context;
  const [program, ...args] = flags['no-open'] === true ? [] : platform.opener(process.env);
  const appBrowser = flags.app === true && program !== undefined ? findAppBrowser() : null;
  const ask = () => askDaemon(paths, 'console', { file: program !== undefined });
  const { url, file } = await ask().catch(async (error: unknown) => {
    const startDaemon = starterOf(context);
    if (startDaemon === null || !hasCode(error, 'daemon_not_running')) throw error;
    await startDaemon('absent');
    return ask();
  });
  const page = program === undefined || file === null ? '' : pathToFileURL(file).href;
  const inWindow =
    appBrowser !== null && page !== '' && (await open(appBrowser, [`--app=${page}`]));
  if (flags.app === true && program !== undefined && !inWindow) note(NO_WINDOW);
  const opened =
    inWindow || (program !== undefined && page !== '' && (await open(program, [...args, page])));
  if (json) printJson({ url, opened });
  else if (opened) note(`Opened the console at ${oneLine(url.split('#')[0] ?? '')}`);
  else print(oneLine(url));
  return 0;
}

/** Whether the system's opener accepted the address. No shell reads it. */
export function open(program: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: 'ignore', detached: true });
    const settle = (opened: boolean) => {
      clearTimeout(timer);
      child.unref();
      resolve(opened);
    };
    const timer = setTimeout(settle, PATIENCE_MS, true);
    child.once('error', () => settle(false));
    child.once('exit', (code) => settle(code === 0));
  });
}

/** A browser that can open a window for one page; null without one. */
function findAppBrowser(): string | null {
  return platform.appBrowsers(process.env).find((file) => existsSync(file)) ?? null;
}

const NO_WINDOW =
  'It gets no own window: Chromium, Chrome or Edge is not there, or does not start. ' +
  'The browser opens instead.';

/** An opener that has not failed by then has succeeded. */
const PATIENCE_MS = 3_000;
