import { refuseOpenBind } from '../../../config/address.ts';
import { type Config, loadConfig } from '../../../config/config.ts';
import { outdatedNames } from '../../../config/renamed.ts';
import { readRuntimeFile } from '../../../home/runtime-file.ts';
import { oneLine } from '../../../logs/plain.ts';
import { wrapHanging } from '../../../logs/word-wrap.ts';
import { withDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { toShownError } from '../../terminal/execute.ts';
import { paint, print, printJson } from '../../terminal/print/output.ts';
import { columnsOfStdout } from '../../terminal/print/table.ts';
import { checkCertificate } from './certificate-check.ts';
import { type Check, type DoctorContext, fail, ok, type RunningDaemon, warn } from './check.ts';
import { checkDaemon } from './daemon-check.ts';
import { checkDrafts, checkEngine, checkModel, checkTemplates } from './engine-check.ts';
import { checkDisk, checkFolders, checkToken, checkTokens } from './home-check.ts';
import { checkLastError, checkLogs, checkStderr } from './log-check.ts';
import { checkToolServers } from './mcp-check.ts';
import { checkPlaces } from './place-check.ts';
import { checkExposure, checkPorts } from './port-check.ts';
import { checkNode, checkVersions } from './program-check.ts';
import { checkDefaults, checkProviders, checkServers } from './provider-check.ts';
import { checkStore } from './store-check.ts';

/** Exit 1 if a check fails. */
export async function run({ paths, json }: Context): Promise<number> {
  const report = await examine(paths);
  const { checks } = report;
  if (json) printJson(report);
  else {
    const width = Math.max(...checks.map(({ name }) => oneLine(name).length));
    print(checks.map((check) => line(check, width)).join('\n'));
  }
  return report.ok ? 0 : 1;
}

/** Checks all that can go wrong, with or without a daemon. */
export async function examine(
  paths: DoctorContext['paths'],
): Promise<{ ok: boolean; checks: Check[] }> {
  const { config, check: configured } = readConfig(paths.config);
  const running = await askRunning(paths);
  const context: DoctorContext = {
    paths,
    config,
    inForce: running?.config ?? config,
    running,
    runtime: readRuntimeFile(paths.runtime),
  };
  const results = await Promise.all(
    [
      checkNode,
      checkVersions,
      checkFolders,
      checkPlaces,
      checkToken,
      checkTokens,
      checkDisk,
      checkDaemon,
      checkStore,
      checkPorts,
      checkExposure,
      checkCertificate,
      checkEngine,
      checkModel,
      checkTemplates,
      checkDrafts,
      checkDefaults,
      checkProviders,
      checkServers,
      checkToolServers,
      checkLogs,
      checkLastError,
      checkStderr,
    ].map((check) => runCheck(check, context)),
  );
  const checks = [configured, ...results.flat()];
  return { ok: !checks.some(({ status }) => status === 'fail'), checks };
}

/** A check that throws is a finding; the others continue. */
async function runCheck(
  check: (context: DoctorContext) => Check[] | Promise<Check[]>,
  context: DoctorContext,
): Promise<Check[]> {
  try {
    return await check(context);
  } catch (thrown) {
    const { message, hint } = toShownError(thrown);
    const name = check.name
      .replace(/^check/, '')
      .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
      .toLowerCase();
    return [fail(name, message, hint)];
  }
}

function readConfig(file: string): { config: DoctorContext['config']; check: Check } {
  let config: DoctorContext['config'] = null;
  try {
    config = loadConfig(file);
    refuseOpenBind(config);
    return { config, check: checkNames(config, file) };
  } catch (thrown) {
    const { message, hint } = toShownError(thrown);
    return { config, check: fail('configuration', message, hint) };
  }
}

function checkNames(config: Config, file: string): Check {
  const outdated = outdatedNames(config);
  if (outdated === null) return ok('configuration', file);
  const { detail, hint } = outdated;
  return warn('configuration', `${file} or the environment uses ${detail}.`, hint);
}

async function askRunning(paths: DoctorContext['paths']): Promise<RunningDaemon | null> {
  try {
    return await withDaemon(paths, async (client) => {
      const [status, report, { providers }, running, { models }] = await Promise.all([
        client.call('status'),
        client.call('report'),
        client.call('provider.list'),
        client.call('config'),
        client.call('model.list'),
      ]);
      return { status, report, providers, config: running as Config, models };
    });
  } catch {
    return null;
  }
}

const MARKS = { ok: ['green', 'ok  '], warn: ['yellow', 'warn'], fail: ['red', 'fail'] } as const;

function line({ name, status, detail, hint }: Check, width: number): string {
  const [colour, mark] = MARKS[status];
  const [indent, columns] = [width + 8, columnsOfStdout()];
  const lines = wrapHanging(oneLine(detail), indent, columns);
  const first = `${paint(colour, mark)}  ${oneLine(name).padEnd(width)}  ${lines}`;
  return hint === null
    ? first
    : `${first}\n${' '.repeat(indent)}${paint('dim', '->')} ` +
        wrapHanging(oneLine(hint), indent + 3, columns);
}
