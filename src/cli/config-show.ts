import { type Config, loadConfig } from '../config.ts';
import { askDaemon } from './ask-daemon.ts';
import type { Context } from './context.ts';
import { whenNotRunning } from './not-running.ts';
import { note, paint, print, printJson } from './output.ts';
import { table } from './table.ts';

/** What is in force: of the daemon that runs, else what the next start would use. */
export async function run({ paths, json }: Context): Promise<number> {
  const running = (await askDaemon(paths, 'config').catch(whenNotRunning(() => null))) as Config | null;
  const config = running ?? loadConfig(paths.config);
  const { sources, file, providers, limits, ...settings } = config;
  const valued = (values: object, prefix = '') =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, { value, source: sources[prefix + key] ?? 'default' }]));
  if (json) {
    printJson({
      file,
      daemon_running: running !== null,
      settings: valued(settings),
      limits: valued(limits, 'limits.'),
      providers: valued(providers, 'providers.'),
    });
    return 0;
  }
  const changed = Object.entries(limits).filter(([key]) => (sources[`limits.${key}`] ?? 'default') !== 'default');
  const rows = [
    ...Object.entries(settings).map(([key, value]) => [key, text(value), sources[key] ?? 'default']),
    ...changed.map(([key, value]) => [`limits.${key}`, text(value), sources[`limits.${key}`] ?? 'default']),
    ...Object.entries(providers).map(([key, value]) => [`providers.${key}`, text(value), sources[`providers.${key}`] ?? 'file']),
  ];
  print(`${table(['SETTING', 'VALUE', 'FROM'], rows)}\n\n${paint('dim', `File: ${file}`)}`);
  note(`${Object.keys(limits).length - changed.length} limits have their defaults; all are in: svc config show --json`);
  if (running === null) note('The daemon is not running: this is what its next start uses.');
  return 0;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
