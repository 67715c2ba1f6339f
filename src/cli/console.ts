import { spawn } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { oneLine } from '../logs/plain.ts';
import { askDaemon } from './connect/ask-daemon.ts';
import type { Context } from './context.ts';
import { note, print, printJson } from './print/output.ts';

/**
 * Opens the console in the browser, signed in. Where there is none the address is printed; it is good for one sign-in, within a minute.
 * The address is a secret and every user can read a command line, so the browser is given the name of a page that leads there.
 */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const [program, ...args] = flags['no-open'] === true ? [] : opener();
  const { url, file } = await askDaemon(paths, 'console', { file: program !== undefined });
  const opened =
    program !== undefined &&
    file !== null &&
    (await open(program, [...args, pathToFileURL(file).href]));
  if (json) printJson({ url, opened });
  else if (opened) note(`Opened the console at ${oneLine(url.split('#')[0] ?? '')}`);
  else print(oneLine(url));
  return 0;
}

/** Whether the system's own way to open an address took it. */
function open(program: string, args: readonly string[]): Promise<boolean> {
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

function opener(): string[] {
  if (process.platform === 'darwin') return ['open'];
  if (process.platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler'];
  const { BROWSER, DISPLAY, WAYLAND_DISPLAY } = process.env;
  return BROWSER || DISPLAY || WAYLAND_DISPLAY ? ['xdg-open'] : [];
}

/** One that has not failed by then has opened it. */
const PATIENCE_MS = 3_000;
