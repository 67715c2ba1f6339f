import { shownTarget } from '../../../machines/failover.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { withRuns } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { wholeFlag } from '../terminal/parse/flag-values.ts';
import { ago } from '../terminal/print/format.ts';
import { note, paint, print, printJson, warn } from '../terminal/print/output.ts';

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 200;

/** Finds finished runs by the words of their prompts and answers. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const limit = wholeFlag(flags, 'limit', { min: 1, max: LIMIT_MAX }) ?? LIMIT_DEFAULT;
  // The shell has removed the quotes around several words.
  const words = args
    .map((word) => (/\s/.test(word) ? `"${word.replaceAll('"', '')}"` : word))
    .join(' ');
  const page = await withRuns(paths, (client) => client.call('run.search', { words, limit }));
  if (json) printJson(page);
  else if (page.runs.length === 0 && page.damaged === undefined)
    note('No finished run has these words.');
  else {
    print(page.runs.map(formatMatch).join('\n\n'));
    if (page.next !== null) note('There are more. Search for more words, or raise --limit.');
  }
  for (const { message } of page.damaged ?? []) warn(`${message} See: svc doctor`);
  if (!json && page.unindexed !== undefined)
    note(`${page.unindexed} older runs are not searched yet: their index is being built.`);
  return page.damaged === undefined ? 0 : 1;
}

type Found = Results['run.search']['runs'][number];

function formatMatch(run: Found): string {
  const { id, state, created_at, snippet, matches } = run;
  const head = [id, state, shownTarget(run), ago(created_at)].map(oneLine).join('  ');
  let text = '';
  let end = 0;
  for (const [from, to] of matches) {
    text += oneLine(snippet.slice(end, from)) + paint('bold', oneLine(snippet.slice(from, to)));
    end = to;
  }
  return `${paint('dim', head)}\n  ${text}${oneLine(snippet.slice(end))}`;
}
