import { loadConfig } from '../config/config.ts';
import { oneLine } from '../logs/plain.ts';
import { knownNames } from './completion/known.ts';
import { fitFrom, modelsToBegin } from './model/fitting.ts';
import type { Context } from './terminal/context.ts';
import { bytes, shortenLine } from './terminal/print/format.ts';
import { paint, print } from './terminal/print/output.ts';
import { beside, columnsOfStdout, fields } from './terminal/print/table.ts';
import { findStatus } from './upkeep/daemon/find-status.ts';
import { additionOf, type Discovered, findServers } from './upkeep/doctor/discover.ts';

/** The state of this machine that the next steps depend on. */
export interface Found {
  /** Of the daemon. */
  state: string;
  /** Names of local models beside the built-in one. */
  models: readonly string[];
  providers: readonly string[];
  /** One of this machine that no provider has. */
  server: Discovered | null;
  /** One with a short name that fits. */
  fitting: { name: string; size_bytes: number } | null;
}

/** A command and its purpose. */
type Step = readonly [command: string, text: string];

/**
 * The state of this machine and the next steps, in ten lines. Starts no daemon, and contacts only
 * this machine.
 */
export async function run({ paths }: Context): Promise<number> {
  const { providers } = loadConfig(paths.config);
  const [{ status }, names, servers] = await Promise.all([
    findStatus(paths),
    knownNames('models', paths),
    findServers(paths),
  ]);
  const models = names
    .filter((name) => name.startsWith('local/') && name !== 'local/svc-mini')
    .map((name) => name.slice('local/'.length));
  // The largest is for those who look at the others too.
  const [largest, fitting = largest] = modelsToBegin(fitFrom(paths.config));
  const found: Found = {
    state: status.state,
    models,
    providers: Object.keys(providers),
    server: servers.find(({ provider }) => provider === null) ?? null,
    fitting: fitting ?? null,
  };
  print(fields(factsOf(found)));
  const steps = stepsOf(found);
  const width = Math.max(...steps.map(([command]) => command.length));
  const rows = steps.map(([command, text]): [string, string] => [
    `  ${paint('bold', oneLine(command).padEnd(width))}  `,
    oneLine(text),
  ]);
  print(beside(rows, width + 4, columnsOfStdout()));
  return 0;
}

export function factsOf({ state, models, providers, server }: Found): [string, string | null][] {
  return [
    ['daemon', state === 'stopped' ? 'stopped; svc run starts it' : state],
    [
      'models',
      models.length === 0 ? 'the built-in one, which knows only svc' : shortenList(models),
    ],
    ['providers', providers.length === 0 ? 'none' : shortenList(providers)],
    ['server', server === null ? null : `${server.name} at ${server.base_url}`],
  ];
}

export function stepsOf({ state, models, providers, server, fitting }: Found): Step[] {
  const [provider] = providers;
  const model = models.find((name) => !/embed|rerank/i.test(name));
  const steps: Step[] = [];
  if (BROKEN.has(state)) steps.push(['svc doctor', 'what is wrong, and what to do about it']);
  if (model !== undefined) steps.push([`svc run "Hello" -m ${model}`, 'an answer of your model']);
  else if (provider !== undefined)
    steps.push([`svc run "Hello" -p ${provider}`, 'an answer of your provider']);
  else steps.push(['svc run "What is svc?"', 'an answer, without a network']);
  if (model === undefined && fitting !== null)
    steps.push([
      `svc model pull ${fitting.name}`,
      `${bytes(fitting.size_bytes)}, fits this machine; others: svc model pull`,
    ]);
  if (server !== null) steps.push([additionOf(server), `the models of ${server.name}`]);
  else if (provider === undefined)
    steps.push(['svc provider add openai', 'a cloud, for the prompts that you send there']);
  steps.push(['svc chat', 'a conversation'], ['svc --help', 'all commands']);
  return steps;
}

const BROKEN: ReadonlySet<string> = new Set(['crashed', 'failed', 'unresponsive']);
const NAMES_MAX = 3;
const NAMES_WIDTH = 60;

function shortenList(names: readonly string[]): string {
  const rest = names.length - NAMES_MAX;
  const more = rest > 0 ? `, and ${rest} more` : '';
  return shortenLine(names.slice(0, NAMES_MAX).join(', '), NAMES_WIDTH) + more;
}
