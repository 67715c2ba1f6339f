import { setTimeout as delay } from 'node:timers/promises';
import { refuseOpenBind } from './config/address.ts';
import { readCertificate } from './config/certificate.ts';
import { loadConfig } from './config/config.ts';
import type { Settings } from './config/settings.ts';
import { Boot, toFailure } from './daemon/boot.ts';
import { exit, notifyParent } from './daemon/exit.ts';
import { ownHome } from './daemon/home-lock.ts';
import type { SvcError } from './errors.ts';
import { prepareHome, readSecret } from './home/home.ts';
import type { Paths } from './home/paths.ts';
import { programVersion } from './home/version.ts';
import { ownsAny } from './store/files/ownership.ts';

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
  // Only the owner can read what this process makes, under any umask of the caller.
  process.umask(0o077);
  const boot = (rejoins: boolean) =>
    bootDaemon(options, rejoins).catch((error: unknown) => toFailure(error));
  const failure = await bootUntilEnd(boot, (ms) => delay(ms));
  // Work that does not end in time must not keep the process.
  const leaving = setTimeout(exit, EXIT_AFTER_MS);
  if (!ownsAny()) leaving.unref();
  if (failure === null) return 0;
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
  await prepareHome(paths, process.env.SVC_HOME !== undefined);
  if (!rejoins) await ownHome(paths, config.limits.start_ms);
  const secrets = { token: await readSecret(paths.token), digest: await readSecret(paths.secret) };
  const stdout = background ? 'none' : process.stdout.isTTY && !json ? 'pretty' : 'json';
  const version = programVersion();
  return new Boot({ paths, config, reload, version, secrets, stdout, rejoins }).run();
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
    await betweenBoots(() => wait(Math.min(AGAIN_MAX_MS, AGAIN_MS * 2 ** (losses - 1))));
  }
}

/** No boot hears an error now. It comes from one that has ended, so nothing depends on it. */
async function betweenBoots(wait: () => Promise<unknown>): Promise<void> {
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
