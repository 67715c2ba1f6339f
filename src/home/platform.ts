import { posix, win32 } from 'node:path';
import { hostBootId } from './host.ts';
import { asWritten, toCmdCall } from './program-words.ts';

// Not imported: see paths.ts.
const { readFileSync } = process.getBuiltinModule('node:fs');

/**
 * The differences between Linux, macOS and Windows, in this order. No other file of src asks which
 * system this is.
 */
const rows = {
  path: [posix, posix, win32],
  /** The folders of svc, without SVC_HOME. */
  folders: [xdgFolders, libraryFolders, localFolders],
  /** The name of the system in packages of llama.cpp. */
  engineSystem: ['linux', 'mac', 'win'],
  userFolder: [homeOfUnix, homeOfUnix, homeOfWindows],
  /** The address of the local socket that belongs at a path. */
  socket: [socketFile, socketFile, pipe],
  hasSocketFile: [true, true, false],
  /** Bits of a mode by which other users use a file. Windows has lists, which folders pass on. */
  others: [0o077, 0o077, 0],
  isOwn: [isOwnUser, isOwnUser, () => true],
  hasFolderSync: [true, true, false],
  /** Whether a file says how many blocks of the disk it has. */
  hasBlocks: [true, true, false],
  /** A scanner of files may have one open, which then cannot be replaced for a moment. */
  renameTries: [1, 1, 40],
  /** Whether `/proc` shows memory, listeners and descendants of processes. */
  hasProc: [true, false, false],
  setpriv: [['/usr/bin/setpriv', '/bin/setpriv'], [], []],
  /** Whether a process can lead a group, which a signal reaches as a whole. */
  hasGroups: [true, true, false],
  /** Asks a process to end. On Windows every signal kills. */
  endSignal: ['SIGTERM', 'SIGTERM', null],
  /** See ownerOf. `zombie`: it has ended. Null: unknown. */
  processStart: [startInProc, startInPs, startInPowerShell],
  /** A program of the path. On Windows npm installs scripts of cmd.exe. */
  program: [asWritten, asWritten, toCmdCall],
  /** SIGHUP ends a process if one of these descriptors is a terminal. Null: always. */
  hangup: [[0, 1, 2], [1, 2], null],
  serviceManager: ['systemd', 'launchd', 'task scheduler'],
  /** Opens a page; nothing without a screen. */
  opener: [openerOfDesktop, () => ['open'], () => ['rundll32', OPEN_URL]],
  appBrowsers: [browsersOfPath, browsersOfMac, browsersOfWindows],
  editor: ['vi', 'vi', 'notepad'],
  edit: [editInSh, editInSh, editInCmd],
} as const satisfies Record<string, readonly [unknown, unknown, unknown]>;

const columns = ['linux', 'darwin', 'win32'] as const;
export type System = (typeof columns)[number];
export type Platform = { readonly [row in keyof typeof rows]: (typeof rows)[row][number] };

/** The column of a system. An unknown one is most like Linux. */
export function platformOf(system: NodeJS.Platform): Platform {
  const at = Math.max(0, columns.indexOf(system as System));
  return Object.fromEntries(Object.entries(rows).map(([row, cells]) => [row, cells[at]])) as never;
}

export const platform: Platform = platformOf(process.platform);

/** As packages for a system and its processor are called, such as `linux-x64`. */
export const SYSTEM = `${process.platform}-${process.arch}`;

export interface Folders {
  config: string;
  data: string;
  state: string;
  cache: string;
}

function xdgFolders(env: NodeJS.ProcessEnv): Folders {
  const pick = (xdg: string | undefined, fallback: string) =>
    posix.join(xdg && posix.isAbsolute(xdg) ? xdg : posix.join(homeOfUnix(env), fallback), 'svc');
  return {
    config: pick(env.XDG_CONFIG_HOME, '.config'),
    data: pick(env.XDG_DATA_HOME, '.local/share'),
    state: pick(env.XDG_STATE_HOME, '.local/state'),
    cache: pick(env.XDG_CACHE_HOME, '.cache'),
  };
}

function libraryFolders(env: NodeJS.ProcessEnv): Folders {
  return allIn(posix.join(homeOfUnix(env), 'Library/Application Support/svc'), posix.sep);
}

function localFolders(env: NodeJS.ProcessEnv): Folders {
  const { LOCALAPPDATA: local = '' } = env;
  const base = win32.isAbsolute(local) ? local : win32.join(homeOfWindows(env), 'AppData\\Local');
  return allIn(win32.join(base, 'svc'), win32.sep);
}

function allIn(base: string, sep: string): Folders {
  return { config: base, data: base, state: base, cache: `${base}${sep}cache` };
}

/**
 * The daemon has another working directory than its clients, so a relative path would be two
 * places.
 */
function homeOfUnix({ HOME }: NodeJS.ProcessEnv): string {
  if (HOME && posix.isAbsolute(HOME)) return HOME;
  const { homedir, userInfo } = process.getBuiltinModule('node:os');
  return HOME === undefined ? homedir() : userInfo().homedir;
}

/** Not HOME, which shells of Unix set to a path of theirs. */
function homeOfWindows({ USERPROFILE = '' }: NodeJS.ProcessEnv): string {
  if (win32.isAbsolute(USERPROFILE)) return USERPROFILE;
  return process.getBuiltinModule('node:os').homedir();
}

/** The longest path of a Unix socket on all our platforms. */
const SOCKET_PATH_MAX = 103;

/** If the path is too long, the socket is in the temporary folder, named by a hash. */
function socketFile(wanted: string): string {
  if (Buffer.byteLength(wanted) <= SOCKET_PATH_MAX) return wanted;
  const folder = process.getBuiltinModule('node:os').tmpdir();
  return posix.join(folder, `svc-${process.getuid?.()}`, `${hashOf(wanted)}.sock`);
}

/** A folder has one pipe, however its name is written. */
function pipe(wanted: string): string {
  return `\\\\.\\pipe\\svc-${hashOf(wanted.toLowerCase())}`;
}

function hashOf(text: string): string {
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function isOwnUser(uid: number): boolean {
  return uid === process.getuid?.();
}

function startInProc(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the program's name in brackets. It may contain spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state] = fields;
    const ticks = fields[19];
    if (state === 'Z' || state === 'X') return 'zombie';
    return ticks === undefined ? null : `${hostBootId() ?? ''}:${ticks}`;
  } catch {
    return null;
  }
}

function startInPs(pid: number): string | null {
  const said = outputOf('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]);
  const [, state = '', start = ''] = /^(\S+)\s+(.+)$/.exec(said) ?? [];
  return state.startsWith('Z') ? 'zombie' : start || null;
}

function startInPowerShell(pid: number): string | null {
  const script = `(Get-Process -Id ${pid}).StartTime.ToFileTimeUtc()`;
  return outputOf('powershell', ['-NoProfile', '-NonInteractive', '-Command', script]) || null;
}

const COMMAND_MS = 10_000;

/** The output of a command of the system; empty if it fails. */
function outputOf(command: string, args: readonly string[]): string {
  const { stdout, status } = process
    .getBuiltinModule('node:child_process')
    .spawnSync(command, args, {
      encoding: 'utf8',
      env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' },
      timeout: COMMAND_MS,
      windowsHide: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  return status === 0 ? stdout.trim() : '';
}

const OPEN_URL = 'url.dll,FileProtocolHandler';

function openerOfDesktop({ BROWSER, DISPLAY, WAYLAND_DISPLAY }: NodeJS.ProcessEnv): string[] {
  return BROWSER || DISPLAY || WAYLAND_DISPLAY ? ['xdg-open'] : [];
}

function browsersOfPath({ PATH = '' }: NodeJS.ProcessEnv): string[] {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
  const all = [...names, 'microsoft-edge', 'microsoft-edge-stable'];
  return all.flatMap((name) => PATH.split(':').map((folder) => posix.join(folder, name)));
}

function browsersOfMac(): string[] {
  const names = ['Chromium', 'Google Chrome', 'Microsoft Edge'];
  return names.map((name) => `/Applications/${name}.app/Contents/MacOS/${name}`);
}

function browsersOfWindows(env: NodeJS.ProcessEnv): string[] {
  const folders = [env.ProgramFiles, env['ProgramFiles(x86)'], env.LOCALAPPDATA];
  const apps = [
    'Google\\Chrome\\Application\\chrome.exe',
    'Microsoft\\Edge\\Application\\msedge.exe',
  ];
  return folders.flatMap((folder) => apps.map((app) => win32.join(folder ?? '', app)));
}

/** A command that edits a file. An editor may have arguments, such as `code --wait`. */
function editInSh(editor: string, file: string) {
  return { program: '/bin/sh', args: ['-c', `${editor} "$1"`, 'sh', file], options: {} };
}

function editInCmd(editor: string, file: string) {
  return { program: `${editor} "${file}"`, args: [], options: { shell: true } };
}
