import type { Client } from './table.ts';

interface Case {
  name: string;
  why: string;
}

export interface Outcome {
  passed: readonly Case[];
  /** Without a reason in the table of clients. */
  failed: readonly Case[];
  /** Failed for a reason that the table of clients names. */
  known: readonly Case[];
}

/** The tables of the page: over the scripted model, and over a real one. */
export type Which = 'clients' | 'real';

export interface Row {
  client: Client;
  outcome: Outcome;
}

/** A script prints one line for each case: `CASE {"name": "chat", "ok": true, "why": ""}`. */
export function outcomeOf(
  known: Client['known'],
  printed: string | null,
  trouble: string | null,
): Outcome {
  const lines = (printed ?? '').split('\n').filter((line) => line.startsWith('CASE '));
  const cases = lines.map((line) => JSON.parse(line.slice(5)) as Case & { ok: boolean });
  const reasonOf = ({ name }: Case) =>
    Object.entries(known ?? {}).find(([begin]) => name.startsWith(begin))?.[1];
  const bad = cases.filter(({ ok }) => !ok);
  const failed = bad.filter((each) => reasonOf(each) === undefined);
  // What was not installed, or died, has failed, whatever it printed before.
  const whole = trouble ?? (cases.length === 0 ? 'it had no case' : null);
  const last = (printed ?? '').trim().split('\n').slice(-8).join(' / ');
  return {
    passed: cases.filter(({ ok }) => ok),
    failed:
      whole === null ? failed : [...failed, { name: 'all of it', why: `${whole} ${last}`.trim() }],
    known: bad.flatMap((each) => {
      const why = reasonOf(each);
      return why === undefined ? [] : [{ ...each, why }];
    }),
  };
}

/** The page with a table of the cases of a client, by their kind and their outcome. */
export function pageWithCases(page: string, { client, outcome }: Row): string {
  const { passed, failed, known } = outcome;
  const all = [
    ...passed.map(({ name }) => ({ name, end: 'passes' })),
    ...failed.map(({ name, why }) => ({ name, end: `fails: ${why}` })),
    ...known.map(({ name, why }) => ({ name, end: `not for svc: ${why}` })),
  ].map(({ name, end }) => {
    const [, kind = '', rest = ''] = /^(\S+) (.*)$/.exec(name) ?? [];
    return { kind, rest, end };
  });
  const rows = [...Map.groupBy(all, ({ kind, end }) => `${kind} ${end}`).values()].map((cases) => {
    const [{ kind, end } = { kind: '', end: '' }] = cases;
    const names = cases.map(({ rest }) => `\`${rest}\``).join(', ');
    return `| ${[kind, cases.length, inTable(end), names].join(' | ')} |`;
  });
  const head = `| Version ${versionOf(client)} | Scenarios | Outcome | Which |\n|${' --- |'.repeat(4)}`;
  const [begin, end] = [`<!-- ${client.name} -->`, `<!-- /${client.name} -->`];
  const [before = '', rest = ''] = page.split(begin);
  return `${before}${begin}\n${head}\n${rows.join('\n')}\n${end}${rest.split(end)[1] ?? ''}`;
}

const HEAD = ['Client', 'Version', 'What was run', 'Passed', 'Failed', 'Why'];

/** The page with these rows. A row of a client that was not run stays as it is. */
export function pageWith(page: string, rows: readonly Row[], which: Which = 'clients'): string {
  const [begin, end] = [`<!-- ${which} -->`, `<!-- /${which} -->`];
  const [before = '', rest = ''] = page.split(begin);
  const [table = '', after = ''] = rest.split(end);
  const present = new Map(
    table
      .split('\n')
      .filter((line) => line.startsWith('| `'))
      .map((line) => [line.split('`')[1] ?? '', line]),
  );
  for (const { client, outcome } of rows) present.set(client.name, rowOf(client, outcome));
  const head = `| ${HEAD.join(' | ')} |\n|${' --- |'.repeat(HEAD.length)}`;
  const lines = [...present.values()].join('\n');
  return `${before}${begin}\n${head}\n${lines}\n${end}${after}`;
}

/** The version that is tried. A checkout has the one of its folder. */
export function versionOf({ packages: [first = ''] }: Pick<Client, 'packages'>): string {
  return /(?:@v?|==|:)(\d[\w.]*)$/.exec(first)?.[1] ?? 'checkout';
}

function rowOf({ name, packages, ran }: Client, outcome: Outcome): string {
  const { passed, failed, known } = outcome;
  const reasons = Map.groupBy(known, (each) => each.why);
  const why = [
    ...[...reasons].map(([each, { length }]) => (length === 1 ? each : `${each} (${length})`)),
    ...new Set(failed.map(({ name, why }) => `${name}: ${why}`)),
  ];
  const cells = [
    `\`${name}\``,
    versionOf({ packages }),
    ran,
    passed.length,
    failed.length + known.length,
    why.join('; ').slice(0, 400) || '–',
  ];
  return `| ${cells.map(inTable).join(' | ')} |`;
}

function inTable(cell: string | number): string {
  return String(cell).replace(/[|\n]/g, '/');
}
