import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { CALLS } from '../src/answer-forms/calls.ts';
import { THOUGHTS } from '../src/answer-forms/thoughts.ts';
import { callsText } from '../src/answer-forms/write.ts';
import { commands, globalFlags } from '../src/cli/terminal/commands.ts';
import { historySpecs } from '../src/config/history.ts';
import type { SettingSpec } from '../src/config/layers.ts';
import { type AdapterSpec, adapters } from '../src/config/providers/adapters.ts';
import { type KnownProvider, knownProviders } from '../src/config/providers/known-providers.ts';
import { providerFields } from '../src/config/providers/provider.ts';
import { settingSpecs } from '../src/config/settings.ts';
import { routes } from '../src/daemon/routes.ts';
import { type ErrorSpec, errors } from '../src/errors.ts';
import { limitSpecs } from '../src/limits.ts';
import { rows } from '../src/operations/operations.ts';
import { ACCESS } from '../src/operations/row.ts';
import { scopeOf } from '../src/transport/http/route.ts';
import { ASKERS, groups } from './e2e/principals.ts';
import { MAN_FILE, manPage } from './man.ts';
import { PROTO, withMessages } from './proto.ts';

/**
 * The tables of the documentation, made from the tables of the code. `npm run docs` writes each
 * between its marks, `<!-- name:begin -->` and `<!-- name:end -->`. A test compares them.
 */

/** A text in one cell. */
function shown(text: string): string {
  return `<code>${text
    .replace(/[&<>|]/g, (letter) => `&#${letter.charCodeAt(0)};`)
    .replace(/`/g, '&#96;')
    .trim()
    .replaceAll('\n', '<br>')}</code>`;
}

/** Which tables each file has. */
export const documents: Record<string, readonly TableName[]> = {
  'SECURITY.md': ['principals'],
  'docs/cli.md': ['commands', 'exit-codes'],
  'docs/http.md': ['routes'],
  'docs/protocol.md': ['methods', 'rpcs'],
  'docs/errors.md': ['errors'],
  'docs/models.md': ['forms', 'reasoning'],
  'docs/operations.md': ['settings', 'limits'],
  'docs/providers.md': ['known-providers', 'adapters', 'provider-settings'],
};

const tables = {
  commands: () =>
    table(
      ['Command', 'What it does'],
      commands.map(({ name, args, summary, alias }) => [
        [
          `\`${['svc', name, args].filter(Boolean).join(' ')}\``,
          ...(alias?.words ?? []).map((word) => `\`svc ${word}\``),
        ].join('<br>'),
        `${summary}${flagsOf(name)}`,
      ]),
    ),
  principals: () =>
    table(
      [
        'What',
        'Without a token',
        '`read`',
        '`run`: its own',
        "`run`: others'",
        '`approve`',
        '`admin`',
        'The home',
      ],
      Object.values(groups).map(({ what, outcomes }) => [
        what,
        ...ASKERS.map((asker) => OUTCOMES[outcomes[asker]]),
      ]),
    ),
  'exit-codes': () => table(['Exit code', 'Cause', 'Errors'], exitCodes()),
  routes: () =>
    table(
      ['Route', 'Answer', 'Who may ask'],
      routes.map(({ summary, ...route }) => [
        `\`${route.method} ${route.path}\``,
        summary,
        route.access === 'token'
          ? `a token with \`${scopeOf(route)}\``
          : ROUTE_ACCESS[route.access],
      ]),
    ),
  methods: () =>
    table(
      ['Method', 'Parameters', 'Result'],
      rows.map(([name, { params, streams, answers, summary = '' }]) => [
        `\`${name}\`${streams ? ' *stream*' : ''}`,
        parametersOf(params, MORE[name]),
        answers ?? summary,
      ]),
    ),
  rpcs: () =>
    table(
      ['Method', 'What it does', 'Answer', 'Scope'],
      rows.flatMap(([, { grpc, summary = '', streams, access = 'admin' }]) =>
        grpc === undefined
          ? []
          : [
              [
                `\`${grpc.rpc}\``,
                grpc.says?.[0] ?? summary,
                `${streams ? 'a stream of ' : ''}\`${grpc.answer}\``,
                `\`${ACCESS[access]}\``,
              ],
            ],
      ),
    ),
  errors: () =>
    table(
      ['Code', 'Meaning', 'What to do', 'HTTP', 'gRPC', 'Exit', 'Try again'],
      Object.entries<ErrorSpec>(errors).map(
        ([code, { meaning, hint, http, grpc, exit, retryable }]) => [
          `<a id="${code}"></a>\`${code}\``,
          meaning,
          hint,
          String(http),
          grpc,
          String(exit),
          retryable ? 'yes' : 'no',
        ],
      ),
    ),
  settings: () =>
    table(
      ['Setting', 'Variable', 'Default', 'Meaning', 'Value', 'A change takes effect'],
      Object.entries<SettingSpec>({ ...settingSpecs, ...prefixed('history.', historySpecs) }).map(
        ([name, spec]) => [
          `\`${name}\``,
          `\`${spec.env}\``,
          `\`${JSON.stringify(spec.default)}\``,
          spec.meaning,
          spec.expects,
          spec.live !== undefined ? 'at once' : 'after a restart',
        ],
      ),
    ),
  forms: () =>
    table(
      ['Models', 'A call'],
      CALLS.map((row) => [
        row.families,
        shown(callsText(row, [{ name: 'weather', arguments: { city: 'Oslo', days: 2 } }])),
      ]),
    ),
  reasoning: () =>
    table(
      ['Models', 'Reasoning', 'Its end, if it is forced'],
      THOUGHTS.flatMap(({ families, reasoning }) =>
        reasoning === null ? [] : [[families, shown(reasoning.begun), shown(reasoning.closing)]],
      ),
    ),
  'known-providers': () =>
    table(
      ['Id', 'Provider', 'Kind', 'Adapter', 'Address', 'Default model', 'Key', 'Keys are made at'],
      Object.entries<KnownProvider>(knownProviders).map(([id, row]) => [
        `\`${id}\``,
        row.name,
        row.kind,
        `\`${row.adapter}\``,
        [row.base_url, ...(row.also_at ?? [])]
          .map((address) => code(address, 'by its options'))
          .join(' or '),
        code(row.model, 'none'),
        code(row.key_env, 'none'),
        row.keys_at ?? '',
      ]),
    ),
  adapters: () =>
    table(
      ['Adapter', 'Package', 'Address', 'Needs', 'Options'],
      Object.entries<AdapterSpec>(adapters).map(([name, spec]) => [
        `\`${name}\``,
        code(spec.package, "svc's own"),
        code(spec.base_url, 'that of the provider'),
        spec.needs.map((names) => names.map((one) => `\`${one}\``).join(' or ')).join(', '),
        Object.entries(spec.options)
          .map(([option, meaning]) => `\`${option}\`: ${meaning}`)
          .join('<br>'),
      ]),
    ),
  'provider-settings': () =>
    table(
      ['Setting', 'Meaning', 'Value'],
      Object.entries(providerFields).map(([name, { meaning, expects }]) => [
        `\`${name}\``,
        meaning,
        name === 'like' ? 'an id of the known providers' : expects,
      ]),
    ),
  limits: () =>
    table(
      ['Limit', 'Default', 'From', 'To', 'What it bounds'],
      Object.entries(limitSpecs).map(([name, { value, min, max, reason }]) => [
        `\`${name}\``,
        inWords(name, value),
        String(min),
        String(max),
        reason,
      ]),
    ),
};

function prefixed(prefix: string, specs: object): Record<string, SettingSpec> {
  return Object.fromEntries(
    Object.entries(specs).map(([name, spec]) => [prefix + name, spec as SettingSpec]),
  );
}

/** The value as code; null as words. */
function code(value: string | null, none: string): string {
  return value === null ? none : `\`${value}\``;
}

export type TableName = keyof typeof tables;

const OUTCOMES = {
  yes: 'yes',
  own: 'only its own',
  part: 'states only',
  401: '401',
  403: '403',
  404: '404',
} as const;

/** What the errors of one exit code have in common. */
const CAUSES: Record<number, string> = {
  0: 'Done.',
  1: 'Unexpected failure. For `svc status`: the daemon died without a clean stop.',
  2: 'Usage: the command line or the request is not valid.',
  3: 'The daemon is not running.',
  4: 'Not ready, or not serving.',
  5: 'Not authorised.',
  6: 'Bad configuration.',
  7: 'Unknown or unconfigured provider or model.',
  8: 'Busy: the queue is full.',
  9: 'The provider failed.',
  10: 'The answer is incomplete.',
  124: 'Timed out.',
  130: 'Cancelled, and the work has stopped.',
};

const ROUTE_ACCESS: Record<'public' | 'probe' | 'summary' | 'monitor', string> = {
  public: 'any client',
  probe: 'any client, under any Host',
  summary: 'any client; the whole with a token',
  monitor: 'a token with `read`, or as `metrics_public` says',
};

/** Parameters that the schema of the method leaves to a later check. */
const MORE: Readonly<Record<string, string>> = {
  'run.start': 'the fields of `POST /v1/runs`',
  'provider.add': 'its settings, as in the configuration',
  'provider.set': 'the settings that change',
};

/** The parameters of a method, from its schema. Optional ones have a question mark. */
function parametersOf(schema: object, more?: string): string {
  const entries = 'entries' in schema ? (schema.entries as Record<string, { type: string }>) : {};
  return [
    ...(more === undefined ? [] : [more]),
    ...Object.entries(entries).map(
      ([name, { type }]) =>
        `\`${name}${/^(optional|nullish|exact_optional)$/.test(type) ? '?' : ''}\``,
    ),
  ].join(', ');
}

/** The file with fresh tables. Throws if a mark is missing or unknown. */
export function filled(file: string, text: string): string {
  const names = documents[file] ?? [];
  const marks = [...text.matchAll(/<!-- ([\w-]+):begin -->/g)].map(([, name]) => name);
  if (marks.join() !== names.join())
    throw new Error(`${file} has the marks ${marks.join(', ')}; expected are ${names.join(', ')}`);
  return names.reduce((filling, name) => fill(filling, name), text);
}

function fill(text: string, name: TableName): string {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const [from, to] = [text.indexOf(begin) + begin.length, text.indexOf(end)];
  if (to < from) throw new Error(`${begin} has no ${end}`);
  return `${text.slice(0, from)}\n${tables[name]()}\n${text.slice(to)}`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** The flags of a command, without those that every command has. */
function flagsOf(name: string): string {
  const own =
    commands
      .find((command) => command.name === name)
      ?.flags.filter((flag) => !globalFlags.some((other) => other.name === flag.name)) ?? [];
  const forms = own.map(
    (flag) =>
      `\`${flag.short === undefined ? '' : `-${flag.short}, `}--${flag.name}${flag.value === undefined ? '' : ` ${flag.value}`}\``,
  );
  return forms.length === 0 ? '' : `<br>${forms.join(' ')}`;
}

function exitCodes(): string[][] {
  const codes = new Map<number, string[]>([[0, []]]);
  for (const [code, { exit }] of Object.entries<ErrorSpec>(errors))
    codes.set(exit, [...(codes.get(exit) ?? []), code]);
  return [...codes]
    .sort(([a], [b]) => a - b)
    .map(([exit, names]) => {
      const cause = CAUSES[exit];
      if (cause === undefined)
        throw new Error(`the exit code ${exit} of ${names.join(', ')} has no cause`);
      return [String(exit), cause, names.map((name) => `\`${name}\``).join(' ')];
    });
}

/** The manual page. */
export function man(): string {
  return manPage(exitCodes().map(([code = '', cause = '']) => [code, cause]));
}

/** A number as the configuration has it, and with its unit. */
function inWords(name: string, value: number): string {
  const units: [number, string][] = name.endsWith('_bytes')
    ? [
        [2 ** 20, 'MiB'],
        [1024, 'KiB'],
      ]
    : name.endsWith('_ms')
      ? [
          [3_600_000, 'h'],
          [60_000, 'min'],
          [1000, 's'],
        ]
      : [];
  const unit = units.find(([size]) => value >= size && value % size === 0);
  return unit === undefined ? String(value) : `${value} (${value / unit[0]} ${unit[1]})`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const file of Object.keys(documents))
    writeFileSync(file, filled(file, readFileSync(file, 'utf8')));
  writeFileSync(MAN_FILE, man());
  writeFileSync(PROTO, withMessages(readFileSync(PROTO, 'utf8')));
}
