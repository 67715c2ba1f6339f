import { existsSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LOG_FORMAT } from '../../../../machines/events.ts';
import { SvcError } from '../../../errors.ts';
import { build } from '../../../home/build.ts';
import { tryLock } from '../../../home/file-lock.ts';
import type { Paths } from '../../../home/paths.ts';
import { programFile } from '../../../home/program-file.ts';
import {
  type Owner,
  ownerOf,
  type RuntimeFile,
  readRuntimeFile,
} from '../../../home/runtime-file.ts';
import { programVersion } from '../../../home/version.ts';
import { readHeader } from '../../../kernel/store/files/database-file.ts';
import { schemaOf } from '../../../kernel/store/schema.ts';
import type { Context } from '../../terminal/context.ts';
import { type ProgramFailure, runProgram } from '../../terminal/foreign-program.ts';
import { installationOf } from '../../terminal/installed.ts';
import { sharedDatabase } from '../../terminal/offline/database.ts';
import { textFlag } from '../../terminal/parse/flag-values.ts';
import { note, printJson, say } from '../../terminal/print/output.ts';
import { serviceManager } from '../service/managers.ts';
import { withArchive } from './archive.ts';
import { type Candidate, describe, refusalError } from './candidate.ts';
import { type Comparison, compareBuilds } from './compare.ts';

/**
 * Replaces this build by the one of an archive, or by the previous one.
 *
 * 1. The other build folds the log beside the daemon. A state that differs refuses the switch.
 * 2. One rename of a link switches the program.
 * 3. The new daemon is started while the old one runs, and stops it itself. One of them stays,
 *    whenever this command ends.
 * 4. It waits until the other build has folded the last records of the old one, too.
 */
export async function run(context: Context): Promise<number> {
  if (context.flags.fold !== true) return upgrade(context);
  return (await import('./fold.ts')).printStates();
}

async function upgrade({ paths, args, flags, json }: Context): Promise<number> {
  const [given] = args;
  const back = flags.back === true;
  const check = flags.check === true;
  const place = installationOf(programFile());
  if (given === undefined && !back) {
    if (check)
      throw new SvcError('usage', 'svc asks no server for versions, so name an archive.', {
        hint: 'svc upgrade --check <archive>, or the folder that it and SHA256SUMS are in',
      });
    const { installed, words, upgrade: command } = place;
    const program = programFile();
    if (json) printJson({ version: programVersion(), program, installed, command });
    else say(`svc ${programVersion()} is ${words}: ${program}\nUpgrade it with: ${command}`);
    return 0;
  }
  if (place.home === null && !(check && given !== undefined))
    throw refusalError(
      `svc is ${place.words}, so another command upgrades it. Nothing was changed.`,
      `Run: ${place.upgrade}`,
    );
  const use = (candidate: Candidate) =>
    compareAndSwitch(paths, candidate, place.home, { check, back, json });
  if (given !== undefined && !back) return withArchive(given, textFlag(flags, 'sha256'), use);
  const previous = join(place.home ?? '', 'previous');
  if (given !== undefined) throw new SvcError('usage', '--back takes no archive.');
  if (!existsSync(previous))
    throw refusalError(
      `There is no version before ${programVersion()} in ${place.home}.`,
      'svc upgrade keeps the version that it replaces. Another one comes with: ' +
        'svc upgrade <archive>',
    );
  const own = join(place.home ?? '', 'install.sh');
  return use(await describe(previous, `${own} --back && svc restart`));
}

interface Wish {
  check: boolean;
  back: boolean;
  json: boolean;
}

async function compareAndSwitch(
  paths: Paths,
  candidate: Candidate,
  home: string | null,
  { check, back, json }: Wish,
): Promise<number> {
  const { version, root } = candidate;
  const report = json ? () => {} : say;
  const daemon = runningDaemon(paths);
  const isHere = build !== null && candidate.build === build;
  if (isHere && (check || daemon === null || isOfThisProgram(daemon))) {
    if (json) printJson({ version, switched: false, differences: [] });
    else say(`This is svc ${version} already. Nothing was changed.`);
    return 0;
  }
  const started = performance.now();
  const compare = (after_seq: number) =>
    compareBuilds(paths, [process.execPath, programFile()], [join(root, 'bin', 'svc')], after_seq);
  const found = await compare(0);
  refuseDifferences(candidate, found, { paths, json }, 'Nothing was changed.');
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (found !== null)
    report(
      `svc ${version} folds the ${found.events} events of the log to the same states: ` +
        `${found.streams} machines, ${seconds} s.`,
    );
  const wayBack = sayWayBack(candidate);
  report(wayBack);
  const facts = {
    version,
    events: found?.events ?? 0,
    machines: found?.streams ?? 0,
    back: wayBack,
  };
  if (check || home === null) {
    if (json) printJson({ ...facts, switched: false, differences: [] });
    else say('Nothing was changed.');
    return 0;
  }
  const release = daemon === null ? null : await tryLock(paths.upgrade);
  if (daemon !== null && release === null)
    throw refusalError(
      'Another svc upgrade is at work. Nothing was changed.',
      'Wait until it has ended. Then: svc version',
    );
  const compareRest = async () => {
    const rest = await compare(found?.last_seq ?? 0).catch((error: Error) => {
      note(`Events recorded meanwhile were not compared: ${error.message}`);
      return null;
    });
    refuseDifferences(candidate, rest, { paths, json }, `svc ${programVersion()} runs again.`);
    release?.();
  };
  // The prefix of the installation is above lib/svc.
  const install = (script: string, ...words: string[]) =>
    runProgram(script, [...words, '--prefix', dirname(dirname(home))]).catch(
      ({ message }: ProgramFailure) => {
        throw refusalError(
          `${message}. It switches the program last, so svc ${programVersion()} stays in use.`,
          `Check who may write to ${home}, and the space there. Then run the command again.`,
        );
      },
    );
  if (!isHere) await install(join(root, 'install.sh'), ...(back ? ['--back'] : []));
  if (daemon !== null)
    await handOver(home, daemon, json, compareRest).catch(async (cause) => {
      await install(join(home, 'current', 'install.sh'), '--back');
      release?.();
      const again = await runProgram(join(home, 'current', 'bin', 'svc'), ['start']).then(
        () => 'runs again',
        ({ message }: ProgramFailure) => `is in use again, but did not start: ${message}`,
      );
      if (cause instanceof SvcError) throw cause;
      throw refusalError(
        `svc ${version} did not start: ${cause.message}. svc ${programVersion()} ${again}.`,
        'Read why it failed: svc logs --level warn',
      );
    });
  if (json) printJson({ ...facts, switched: true, differences: [] });
  else say(`svc ${version} is in use${daemon === null ? '' : ', and its daemon runs'}.`);
  return 0;
}

/** Throws upgrade_refused for a difference, or for a log that the other build cannot read. */
function refuseDifferences(
  candidate: Candidate,
  found: Comparison | null,
  { paths, json }: Pick<Context, 'paths' | 'json'>,
  outcome: string,
): void {
  const { version, log_format } = candidate;
  const format = Math.max(found?.format ?? 0, formatOnDisk(paths));
  if (format > log_format)
    throw refusalError(
      `svc ${version} cannot read this log any more: its format is ${format}, and svc ${version} ` +
        `reads up to ${log_format}. ${outcome}`,
      'Stay with this version. A newer one is installed with: svc upgrade <archive>',
    );
  if (found === null || found.differing === 0) return;
  const { differences, differing, streams } = found;
  if (!json) for (const sentence of differences) note(sentence);
  throw new SvcError(
    'upgrade_refused',
    `svc ${version} does not see ${differing} of ${streams} machines as this version does. ` +
      `${outcome} The first: ${differences[0]}`,
    { details: { differences } },
  );
}

/** The header may be a little behind the log. It still counts events that were removed. */
function formatOnDisk({ config, database }: Paths): number {
  if (sharedDatabase(config) !== null) return 0;
  try {
    return schemaOf(readHeader(database).user_version);
  } catch {
    return 0;
  }
}

/** Until when `svc upgrade --back` leads from the other build to this one. */
function sayWayBack({ version, log_format, log_kinds }: Candidate): string {
  const here = programVersion();
  if (log_format <= LOG_FORMAT)
    return `svc ${version} writes nothing that svc ${here} cannot read: svc upgrade --back works.`;
  const kinds = Object.entries(log_kinds)
    .filter(([format]) => Number(format) > LOG_FORMAT)
    .flatMap(([, names]) => names.map((name) => (name.includes(' ') ? name : `${name}*`)));
  return (
    `svc upgrade --back works until the log has one of these, which svc ${here} cannot ` +
    `read: ${kinds.join(', ')}`
  );
}

function runningDaemon({ runtime }: Paths): RuntimeFile | null {
  const found = readRuntimeFile(runtime);
  return found.kind === 'present' && ALIVE.includes(ownerOf(found.file)) ? found.file : null;
}

function isOfThisProgram({ program }: RuntimeFile): boolean {
  try {
    return realpathSync(program) === realpathSync(programFile());
  } catch {
    return false;
  }
}

/**
 * The daemon of the program that is in use now takes over. Of a service, its manager starts it.
 * If the new daemon is killed before it has stopped the old one, the old one runs on. If it is
 * killed later, the next start is here.
 */
async function handOver(
  home: string,
  daemon: RuntimeFile,
  json: boolean,
  compareRest: () => Promise<void>,
): Promise<void> {
  const svc = join(home, 'current', 'bin', 'svc');
  const service = await serviceManager().status();
  const isService = service.installed && service.state === 'active';
  const words = isService ? SERVICE : ['start', '--replace', '--wait', TAKEOVER_S];
  const taken = runProgram(svc, words);
  if (!json) note('The new daemon takes over: active runs continue with it.');
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  taken.then(over, over);
  while (!isOver && ALIVE.includes(ownerOf(daemon))) await delay(LOOK_MS);
  await compareRest();
  await taken.catch((error) => {
    if (isService) throw error;
    return runProgram(svc, ['start', '--json']);
  });
}

const ALIVE: readonly Owner[] = ['ours', 'unproven'];
const SERVICE = ['service', 'install', '--json'];
const LOOK_MS = 25;

/** Runs may end first, and the log is opened. */
const TAKEOVER_S = '600';
