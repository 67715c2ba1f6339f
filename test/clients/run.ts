import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { folderOf, install, runBounded } from './install.ts';
import { type Outcome, outcomeOf, pageWith, pageWithCases, type Row } from './report.ts';
import { openStage } from './stage.ts';
import { CLIENTS } from './table.ts';

/**
 * Runs third-party clients against the built daemon: `npm run clients -- [name…] [--cache folder]
 * [--checkout openresponses=path] [--checkout ollama=path] [--real] [--write] [--failures]`.
 *
 * Each client has a fresh daemon. `--write` puts the rows into docs/clients.md, and
 * the cases of some clients into a page of their subject. `--checkout` gives
 * the suites that no registry has. `--real` asks a small model of `npm run test-models`. The last
 * line is `N passed, N failed`, over all cases. A case that fails for a known reason is named, and
 * does not fail the command.
 */
const { values, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    cache: { type: 'string', default: join(tmpdir(), 'svc-clients') },
    checkout: { type: 'string', multiple: true, default: [] },
    real: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    failures: { type: 'boolean', default: false },
  },
});

const PAGE = resolve('docs/clients.md');
/** A suite of a library of Python takes minutes, longer on a busy machine or with a real model. */
const RUN_MS = values.real ? 3_600_000 : 2_700_000;

const checkouts = Object.fromEntries(values.checkout.map((given) => given.split(/=(.*)/s)));
const unknown = names.filter((name) => !CLIENTS.some((client) => client.name === name));
if (unknown.length > 0) {
  console.error(`There is no client ${unknown.join(', ')}. There are:`);
  for (const { name } of CLIENTS) console.error(`  ${name}`);
  process.exit(2);
}
mkdirSync(values.cache, { recursive: true });
const rows: Row[] = [];
const which = values.real ? 'real' : 'clients';
for (const client of CLIENTS) {
  if (names.length > 0 && !names.includes(client.name)) continue;
  if (values.real && client.real === undefined) continue;
  const outcome = await tried(client);
  if (outcome === null) {
    console.log(`${client.name.padEnd(24)} needs a checkout: --checkout ${folderOf(client)}=path`);
    continue;
  }
  rows.push({ client, outcome });
  print(client.name, outcome);
  if (!values.write) continue;
  writeFileSync(PAGE, pageWith(readFileSync(PAGE, 'utf8'), rows, which));
  if (client.page !== undefined)
    writeFileSync(
      client.page,
      pageWithCases(readFileSync(client.page, 'utf8'), { client, outcome }),
    );
}
const sum = (what: 'passed' | 'failed') =>
  rows.reduce((total, { outcome }) => total + outcome[what].length, 0);
console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
process.exitCode = sum('failed') > 0 || sum('passed') === 0 ? 1 : 0;

async function tried(client: (typeof CLIENTS)[number]): Promise<Outcome | null> {
  try {
    const installed = await install(client, resolve(values.cache), checkouts);
    if (installed === null) return null;
    const stage = await openStage({ open: client.open === true, real: values.real });
    const { command, folder: cwd, env } = installed;
    const options = { cwd, env: { ...env, ...stage.env, HOME: cwd }, bound_ms: RUN_MS };
    const { code, printed } = await runBounded(command, options).finally(() => stage.close());
    const known = values.real ? client.real : client.known;
    return outcomeOf(known, printed, code === 0 ? null : `it ended with ${code}`);
  } catch (thrown) {
    return outcomeOf({}, null, `not installed: ${(thrown as Error).message}`);
  }
}

function print(name: string, { passed, failed, known }: Outcome): void {
  const more = known.length === 0 ? '' : `, ${known.length} known`;
  console.log(`${name.padEnd(24)} ${passed.length} passed, ${failed.length} failed${more}`);
  if (values.failures || failed.length > 0)
    for (const { name: each, why } of [...failed, ...known]) console.log(`  ${each}: ${why}`);
}
