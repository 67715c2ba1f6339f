import { parseArgs } from 'node:util';

/** What each torture does, in the order in which they run. */
const TORTURES = {
  damage: 'Cuts logs, or flips a bit.',
  points: 'Kills a daemon at each n-th write and sync of the log.',
  failover: 'Kills the first of two providers twice, while runs ask for both.',
  owners: 'Many processes want the daemon of one home at once, also after a SIGKILL and a stop.',
  'prompt-cache': 'Kills the engine or the daemon while a computed prompt is written or read.',
  engine:
    'Kills the engine in the middle of answers with a seed, then loads and unloads its model.',
  tools:
    'Kills the daemon, its engine and its tool servers, while models call tools and a person decides.',
  fleet:
    'Kills, stops and cuts off three daemons on one PostgreSQL, sets their clocks, kills the database.',
  kills: 'Kills the built daemon and its engine with SIGKILL at random moments, under load.',
};

/** `value`: the number if the option is absent. */
const OPTIONS = {
  cycles: { value: 1000, what: 'kills, engine and tools: how often' },
  clients: { value: 8, what: 'kills, failover, tools and fleet: clients at one time' },
  stride: { value: 1, what: 'points: from one call to the next one' },
  damages: { value: 500, what: 'damage: how many logs' },
  runs: { value: 1000, what: 'failover: how many runs' },
  rounds: { value: 100, what: 'owners and prompt-cache: how many rounds; engine: how many loads' },
  crowd: { value: 20, what: 'owners: processes at once on a cold home' },
  minutes: {
    value: null,
    what: 'points, owners, prompt-cache, engine, tools, fleet and kills: end after this time',
  },
  seed: {
    value: null,
    what: 'damage, prompt-cache, engine, tools, fleet and kills: repeats the draws, not the moments',
  },
};

export type Torture = keyof typeof TORTURES;
type Option = keyof typeof OPTIONS;
type Numbers = { [name in Option]: number | (typeof OPTIONS)[name]['value'] };

/** Null: the usage is asked for. Throws an error whose message is for the user. */
export function readCommandLine(
  args: readonly string[],
): (Numbers & { tortures: readonly Torture[] }) | null {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      ...Object.fromEntries(names(OPTIONS).map((name) => [name, { type: 'string' as const }])),
    },
  });
  if (values.help !== undefined) return null;
  const known = names(TORTURES);
  const unknown = positionals.find((name) => !known.some((one) => one === name));
  if (unknown !== undefined)
    throw new Error(`There is no torture "${unknown}". There are: ${known.join(', ')}.`);
  const numbers = names(OPTIONS).map((name) => {
    const text = (values as Partial<Record<Option, string>>)[name];
    return [name, text === undefined ? OPTIONS[name].value : numberOf(name, text)];
  });
  return {
    ...(Object.fromEntries(numbers) as Numbers),
    tortures: known.filter((name) => positionals.length === 0 || positionals.includes(name)),
  };
}

function numberOf(name: Option, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new Error(`--${name} is a whole number from 1 to 999999999, not "${text}".`);
  return Number(text);
}

export function usage(): string {
  const rows = [
    ...names(TORTURES).map((name) => [name, TORTURES[name]]),
    ...names(OPTIONS).map((name) => {
      const { value, what } = OPTIONS[name];
      return [`--${name} n`, value === null ? what : `${what} (${value})`];
    }),
  ];
  const lines = rows.map(([name = '', what]) => `  ${name.padEnd(WIDTH)}${what}`);
  return [
    'npm run torture [name…] [-- --option n …]',
    '',
    'Without a name, all of them run. Exit 1 if anything is lost, or if a kind of kill never happens.',
    'The built program is tested: npm run build. The torture fleet needs the programs of PostgreSQL.',
    '',
    ...lines,
  ].join('\n');
}

const WIDTH = 15;

function names<T extends object>(table: T): (keyof T & string)[] {
  return Object.keys(table) as (keyof T & string)[];
}
