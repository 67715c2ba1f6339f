import { refuseOpenBind } from '../../../config/address.ts';
import { readCertificate } from '../../../config/certificate.ts';
import { loadConfig } from '../../../config/config.ts';
import type { Context } from '../../terminal/context.ts';
import { secondsFlag } from '../../terminal/parse/flag-values.ts';
import { note } from '../../terminal/print/output.ts';
import { settingFlags } from './serve.ts';
import { printStarted, startOrExplain } from './start.ts';
import { WAIT } from './start-daemon.ts';
import { runsText, stopOptions } from './stop.ts';
import { stopDaemon } from './stop-daemon.ts';

/** Checks the command line and the configuration before it stops the daemon. */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const wait_ms = secondsFlag(flags, 'wait', WAIT) ?? WAIT.default_ms;
  const start = { paths, flags: settingFlags(flags), wait_ms };
  const stop = stopOptions(paths, flags, json);
  const config = loadConfig(paths.config, { flags: start.flags });
  refuseOpenBind(config);
  readCertificate(config);
  const { was_running, pid, runs } = await stopDaemon({ ...stop, keepsStarts: true });
  if (was_running && !json)
    note(`Stopped pid ${pid}${runs === null ? '' : `: ${runsText(runs)}`}.`);
  printStarted(await startOrExplain(start, () => !json), json);
  return 0;
}
