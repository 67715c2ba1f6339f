import { cpSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SvcError } from '../../src/errors.ts';
import type { DamagedRun, RunRow, StoredEvent } from '../../src/kernel/store/port.ts';
import { createSqliteStore } from '../../src/kernel/store/sqlite/sqlite.ts';
import { makePausedHome } from '../helpers/daemon.ts';
import { SMALL_RESERVE } from '../helpers/small-reserve.ts';
import type { Home } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from './daemon.ts';
import { ask } from './http.ts';
import type { Random } from './random.ts';

/**
 * What happened to damaged logs of a killed daemon.
 * `silent` must be 0: a damaged log that was opened and checked as good.
 */
export interface Damages {
  tried: number;
  refused: number;
  reported: number;
  harmless: number;
  silent: number;
  codes: Record<string, number>;
}

/** Damages the log of a killed daemon, with its WAL, again and again: cuts it, or flips one bit. */
export async function damageLog(times: number, draw: Random): Promise<Damages> {
  const home = await makePausedHome();
  try {
    await writeLog(home);
    const saved = join(home.folder, 'saved');
    cpSync(home.paths.data, saved, { recursive: true });
    const truth = JSON.stringify(await readAll(home));
    const damages: Damages = {
      tried: 0,
      refused: 0,
      reported: 0,
      harmless: 0,
      silent: 0,
      codes: {},
    };
    for (let time = 0; time < times; time += 1) {
      rmSync(home.paths.data, { recursive: true });
      cpSync(saved, home.paths.data, { recursive: true });
      harm(home, draw);
      await meet(home, truth, damages);
    }
    return damages;
  } finally {
    await home.close();
  }
}

async function writeLog(home: Awaited<ReturnType<typeof makePausedHome>>): Promise<void> {
  const life = await serve(home);
  for (let run = 0; run < 30; run += 1) {
    await ask(home, '/v1/runs', {
      method: 'POST',
      body: { prompt: `prompt ${run} ${'x'.repeat(run * 100)}` },
    });
    await waitFor('it is asked', () => home.server.streams.size === 1);
    home.server.say(`answer ${run}`);
    home.server.finish();
    await waitFor('it has ended', () => home.server.streams.size === 0);
  }
  await waitFor(
    'all is recorded',
    async () => (await life.ask((client) => client.call('status'))).state === 'ready',
  );
  await life.kill();
}

function harm({ paths }: Home, draw: Random): void {
  if (draw.chance(0.1)) {
    // Cuts the end of the log, and its mark.
    if (draw.chance(0.5)) rmSync(paths.highWater);
    else writeFileSync(paths.highWater, 'x'.repeat(draw.whole(0, 2000)));
    rmSync(`${paths.database}-wal`, { force: true });
    return;
  }
  const files = [
    paths.database,
    `${paths.database}-wal`,
    `${paths.database}-wal`,
    paths.highWater,
  ].filter(existsSync);
  const file = draw.pick(files);
  const bytes = readFileSync(file);
  if (bytes.length === 0) return;
  if (file.endsWith('-wal') && draw.chance(0.5)) {
    truncateSync(file, draw.whole(0, bytes.length - 1));
    return;
  }
  const at = draw.whole(0, bytes.length - 1);
  bytes[at] = (bytes[at] ?? 0) ^ (1 << draw.whole(0, 7));
  writeFileSync(file, bytes);
}

async function meet(home: Home, truth: string, damages: Damages): Promise<void> {
  damages.tried += 1;
  const store = createSqliteStore({
    database: home.paths.database,
    highWater: home.paths.highWater,
    limits: SMALL_RESERVE,
  });
  try {
    await store.open();
    const { ok } = await store.verify();
    if (!ok) damages.reported += 1;
    else if (JSON.stringify(await pages(store)) === truth) damages.harmless += 1;
    else damages.silent += 1;
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    damages.refused += 1;
    damages.codes[error.code] = (damages.codes[error.code] ?? 0) + 1;
  } finally {
    await store.close().catch(() => {});
  }
}

async function readAll({ paths }: Home): Promise<(StoredEvent | RunRow | DamagedRun)[]> {
  const copy = join(dirname(paths.database), '..', 'copy');
  cpSync(dirname(paths.database), copy, { recursive: true });
  const inCopy = (file: string) => join(copy, file.slice(dirname(paths.database).length));
  const store = createSqliteStore({
    database: inCopy(paths.database),
    highWater: inCopy(paths.highWater),
    limits: SMALL_RESERVE,
  });
  await store.open();
  return pages(store).finally(() => store.close());
}

/** All events, and all runs of the list. */
async function pages(
  store: ReturnType<typeof createSqliteStore>,
): Promise<(StoredEvent | RunRow | DamagedRun)[]> {
  const all: StoredEvent[] = [];
  for (
    let page = await store.readAll(1, 1000);
    page.length > 0;
    page = await store.readAll(all.length + 1, 1000)
  )
    all.push(...page);
  return [...all, ...(await store.listRuns({ limit: 1000 }))];
}
