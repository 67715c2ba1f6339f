import { win32 } from 'node:path';

/** The arguments of `spawn`. */
export interface Spawnable {
  program: string;
  args: string[];
  options: { windowsVerbatimArguments?: boolean; shell?: boolean };
}

export function asWritten([program = '', ...args]: readonly string[]): Spawnable {
  return { program, args, options: {} };
}

/**
 * A command of Windows. CreateProcess finds only `.exe`, and npm installs `npx.cmd`, which only
 * cmd.exe can run.
 */
export function toCmdCall(
  [name = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
  exists: (file: string) => boolean = process.getBuiltinModule('node:fs').existsSync,
): Spawnable {
  const variable = (wanted: string) =>
    Object.entries(env).find(([each]) => each.toUpperCase() === wanted)?.[1] ?? '';
  const folders = /[\\/]/.test(name) ? [''] : variable('PATH').split(';').filter(Boolean);
  const ends = ['', ...(variable('PATHEXT') || '.COM;.EXE;.BAT;.CMD').split(';')];
  const program =
    folders
      .flatMap((folder) => ends.map((end) => win32.join(folder, name) + end.toLowerCase()))
      .find((file) => /\.\w+$/.test(file) && exists(file)) ?? name;
  if (!/\.(cmd|bat)$/i.test(program)) return { program, args, options: {} };
  // cmd.exe reads the line, and the script passes it to another one.
  const line = [
    escapeForCmd(program),
    ...args.map((word) => escapeForCmd(escapeForCmd(quote(word)))),
  ].join(' ');
  return {
    program: variable('COMSPEC') || 'cmd.exe',
    args: ['/d', '/s', '/c', `"${line}"`],
    options: { windowsVerbatimArguments: true },
  };
}

/** As a program of C reads it: backslashes count only before a quotation mark. */
function quote(word: string): string {
  const text = word.replace(/(\\*)("|$)/g, (_, slashes, end) => slashes + slashes + (end && '\\"'));
  return `"${text}"`;
}

function escapeForCmd(text: string): string {
  return text.replace(/[()\][%!^"`<>&|;, *?]/g, '^$&');
}
