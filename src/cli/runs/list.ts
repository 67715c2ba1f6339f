import { shownTarget } from '../../../machines/failover.ts';
import { runFilters } from '../../contract/words.ts';
import type { Params, Results } from '../../transport/control/protocol.ts';
import { type HomeClient, withRuns } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { choiceFlag, textFlag, wholeFlag } from '../terminal/parse/flag-values.ts';
import { ago, duration, shortenLine, waitedMs, workedMs } from '../terminal/print/format.ts';
import { note, print, printJson, warn } from '../terminal/print/output.ts';
import { table } from '../terminal/print/table.ts';

type Run = Results['run.get'];

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100_000;
const PAGE = 100;
const PROMPT_WIDTH = 40;

export async function run({ paths, flags, json }: Context): Promise<number> {
  const limit = wholeFlag(flags, 'limit', { min: 1, max: LIMIT_MAX }) ?? LIMIT_DEFAULT;
  const filter = filterOf(flags);
  const page = await withRuns(paths, (client) =>
    readPages(client, { ...filter, ...(json ? { texts: 'whole' } : {}) }, limit),
  );
  if (json) printJson(page);
  else if (page.runs.length === 0 && page.damaged === undefined)
    note('No matching runs. Start one with: svc run "…"');
  else {
    const heading = ['RUN', 'STATE', 'MODEL', 'STARTED', 'TOOK', 'PROMPT'];
    print(table(heading, page.runs.map(row), { spare: ['TOOK', 'MODEL', 'STARTED'] }));
    if (page.next !== null) note(`More runs: svc runs list --limit ${limit * 5}`);
  }
  for (const { message } of page.damaged ?? []) warn(`${message} See: svc doctor`);
  return page.damaged === undefined ? 0 : 1;
}

/** The filters among the flags. */
function filterOf(flags: Context['flags']): Params<'run.list'> {
  const values = runFilters.map(([name, { type, words = [] }]) => {
    if (type === 'flag') return [name, flags[name] === true ? true : undefined];
    return [name, type === 'word' ? choiceFlag(flags, name, words) : textFlag(flags, name)];
  });
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Reads pages up to the limit; the daemon bounds the length of a page. */
async function readPages(
  client: HomeClient,
  filter: Params<'run.list'>,
  limit: number,
): Promise<Results['run.list']> {
  const runs: Run[] = [];
  const damaged: NonNullable<Results['run.list']['damaged']> = [];
  let next: string | null = null;
  do {
    const page: Results['run.list'] = await client.call('run.list', {
      ...filter,
      limit: Math.min(PAGE, limit - runs.length - damaged.length),
      ...(next === null ? {} : { before: next }),
    });
    runs.push(...page.runs);
    damaged.push(...(page.damaged ?? []));
    next = page.runs.length === 0 && page.damaged === undefined ? null : page.next;
  } while (next !== null && runs.length + damaged.length < limit);
  return { runs, next, ...(damaged.length === 0 ? {} : { damaged }) };
}

function row(run: Run): string[] {
  const waited = waitedMs(run);
  const work = duration(workedMs(run));
  const apart = waited === 0 ? '' : ` (and waited ${duration(waited)})`;
  const took = run.started_at === null ? '-' : `${work}${apart}`;
  const state = run.queue_position === null ? run.state : `${run.state} (${run.queue_position})`;
  return [
    run.id,
    state,
    shownTarget(run),
    ago(run.created_at),
    took,
    shortenLine(run.prompt, PROMPT_WIDTH),
  ];
}
