import { setTimeout as delay } from 'node:timers/promises';
import { refuseOpenBind } from '../config/address.ts';
import { readCertificate } from '../config/certificate.ts';
import { loadConfig } from '../config/config.ts';
import type { Settings } from '../config/settings.ts';
import { isPostgres } from '../config/store/address.ts';
import { hasCode, SvcError } from '../errors.ts';
import { tryLock } from '../home/file-lock.ts';
import { prepareHome, readSecret } from '../home/home.ts';
import type { Paths } from '../home/paths.ts';
import {
  type Owner,
  originalOf,
  ownerOf,
  type RuntimeFile,
  readRuntimeFile,
} from '../home/runtime-file.ts';
import { forgetStart, noteStart, startEndedError } from '../home/starting.ts';
import { programVersion } from '../home/version.ts';
import { ownsAny } from '../kernel/store/files/ownership.ts';
import { connect } from '../transport/control/client.ts';
import { Boot, toFailure } from './boot.ts';
import { exit, notifyParent } from './exit.ts';
import { refuseUnusable } from './home-files.ts';

export interface ServeOptions {
  paths: Paths;
  flags?: Partial<Record<keyof Settings, unknown>>;
  /** Started by `svc start`: logs go to the files only, and the parent hears how the start went. */
  background: boolean;
  /** Log lines on stdout are JSON, also on a terminal. */
  json?: boolean;
}

/**
 * Runs the daemon. Resolves with its exit code; throws SvcError when it could not start or failed.
 */
export async function serveDaemon(options: ServeOptions): Promise<number> {
  // Only the owner can read the files of this process, under any umask of the caller.
  process.umask(0o077);
  const boot = (rejoins: boolean) =>
    bootDaemon(options, rejoins).catch((error: unknown) => toFailure(error));
  const failure = await bootUntilEnd(boot, (ms) => delay(ms));
  forgetStart(options.paths.runtime);
  // Work that does not end in time must not keep the process.
  const leaving = setTimeout(exit, EXIT_AFTER_MS);
  if (!ownsAny()) leaving.unref();
  if (failure === null) {
    // After ready no parent listens any more.
    notifyParent({ type: 'failed', error: startEndedError().body() });
    return 0;
  }
  notifyParent({ type: 'failed', error: failure.body() });
  throw failure;
}

async function bootDaemon(
  { paths, flags = {}, background, json = false }: ServeOptions,
  rejoins: boolean,
): Promise<SvcError | null> {
  const reload = () => loadConfig(paths.config, { flags });
  const config = reload();
  refuseOpenBind(config);
  readCertificate(config);
  const problems = await refuseUnusable(paths, isPostgres(config.store));
  await prepareHome(paths, process.env.SVC_HOME !== undefined);
  if (!rejoins) await noteStart(paths.runtime);
  if (!rejoins) await ownHome(paths, config.limits.start_ms);
  const secrets = { token: await readSecret(paths.token), digest: await readSecret(paths.secret) };
  const stdout = background ? 'none' : process.stdout.isTTY && !json ? 'pretty' : 'json';
  const version = programVersion();
  const warnings = problems.map(({ message, hint }) => `${message} ${hint}`);
  return new Boot({ paths, config, reload, version, secrets, warnings, stdout, rejoins }).run();
}

const EXIT_AFTER_MS = 2000;

/** Waits so many milliseconds. */
type Wait = (ms: number) => Promise<unknown>;

/**
 * The boots of one process. A boot that lost its lease is followed by another one, always: the
 * waits between them only grow. `rejoins`: the boot before lost its lease. Resolves with the
 * failure of the last boot; null: it stopped.
 */
export async function bootUntilEnd(
  boot: (rejoins: boolean) => Promise<SvcError | null>,
  wait: Wait,
): Promise<SvcError | null> {
  for (let losses = 0; ; ) {
    const began = performance.now();
    const failure = await boot(losses > 0);
    if (failure?.code !== 'lease_lost') return failure;
    losses = performance.now() - began < LASTED_MS ? losses + 1 : 1;
    await waitBetweenBoots(() => wait(Math.min(AGAIN_MAX_MS, AGAIN_MS * 2 ** (losses - 1))));
  }
}

/** No boot handles an error now. The error comes from an ended boot, so nothing depends on it. */
async function waitBetweenBoots(wait: () => Promise<unknown>): Promise<void> {
  const warn = (error: unknown) =>
    process.emitWarning(error instanceof Error ? error : String(error));
  for (const event of UNCAUGHT) process.on(event, warn);
  await wait().finally(() => {
    for (const event of UNCAUGHT) process.off(event, warn);
  });
}

const UNCAUGHT = ['uncaughtException', 'unhandledRejection'] as const;

/** A boot that lasts this long begins the waits again. */
const LASTED_MS = 60_000;
/** The wait after the first loss, and the longest one: as long as a lease. */
const AGAIN_MS = 250;
const AGAIN_MAX_MS = 10_000;

/**
 * Makes this process the owner of the home, until it ends. Everything else of the daemon follows:
 * log, listeners, store, local socket, runtime file.
 *
 * 1. Only the lock says who owns the home. A taken port says nothing about it.
 * 2. An owner that starts or stops is waited for: it soon answers on its socket, or is gone.
 * 3. An owner older than this lock, or whose lock file was removed, is known by its runtime file.
 *
 * Throws daemon_already_running once the owner answers, or after `wait_ms`; home_unusable.
 */
export async function ownHome(paths: Paths, wait_ms: number): Promise<void> {
  for (const deadline = Date.now() + wait_ms; ; ) {
    held ??= await tryLock(paths.lock);
    const isHeld = held !== null;
    const original = isHeld ? null : originalOf(paths.runtime);
    if (original !== null)
      throw new SvcError(
        'home_unusable',
        `The home ${paths.home} shares files with ${original}, whose daemon runs.`,
        { hint: 'Copy that home without hard links, such as with cp -a, and start the copy.' },
      );
    const owner = findOwner(paths, isHeld ? ['ours'] : ['ours', 'unproven']);
    if (isHeld && owner === null) return;
    if (owner !== null && (await isUp(owner, isHeld)))
      throw new SvcError('daemon_already_running', `A daemon runs already, with pid ${owner.pid}.`);
    if (Date.now() >= deadline)
      throw new SvcError(
        'daemon_already_running',
        `Another process owns the home ${paths.home} and does not answer.`,
      );
    await delay(LOOK_MS);
  }
}

/** For as long as the process lives: a lock that nothing refers to is collected and released. */
let held: (() => void) | null = null;

/** Between two looks at the owner. */
const LOOK_MS = 25;
const ANSWER_MS = 3_000;

/** The other process that the runtime file names, if it is one of `kinds`. */
function findOwner({ runtime }: Paths, kinds: readonly Owner[]): RuntimeFile | null {
  const found = readRuntimeFile(runtime);
  if (found.kind !== 'present' || found.file.pid === process.pid) return null;
  return kinds.includes(ownerOf(found.file)) ? found.file : null;
}

/** Whether the daemon answers and is not stopping. `isUnlocked`: it cannot be starting. */
async function isUp({ addresses: { socket } }: RuntimeFile, isUnlocked: boolean): Promise<boolean> {
  if (socket === null) return isUnlocked;
  try {
    const client = await connect(socket, { timeout_ms: ANSWER_MS });
    try {
      const { state } = await client.call('status', {}, { timeout_ms: ANSWER_MS });
      return !ENDS.includes(state);
    } finally {
      client.close();
    }
  } catch (error) {
    // A process that is alive and silent is reported by who asks it next.
    return isUnlocked || hasCode(error, 'timed_out');
  }
}

const ENDS = ['stopping', 'stopped', 'failed'];
