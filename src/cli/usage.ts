import { shownName } from '../../machines/failover.ts';
import { SvcError } from '../errors.ts';
import { oneLine } from '../logs/plain.ts';
import { withRuns } from './terminal/connect/home.ts';
import type { Context } from './terminal/context.ts';
import { choiceFlag, textFlag } from './terminal/parse/flag-values.ts';
import { note, print, printJson } from './terminal/print/output.ts';
import { table } from './terminal/print/table.ts';

export async function run({ paths, flags, json }: Context): Promise<number> {
  const by = choiceFlag(flags, 'by', ['model', 'provider', 'client', 'day']) ?? 'model';
  const since = readSince(textFlag(flags, 'since'), Date.now());
  const conversation = textFlag(flags, 'conversation');
  if (conversation !== undefined) return ofConversation(conversation, flags, paths, json);
  const query = { by, ...(since === null ? {} : { since }) };
  const usage = await withRuns(paths, (client) => client.call('usage', query));
  if (json) return printJson(usage);
  const { groups, total, currency, budget } = usage;
  const shown = groups.length === 0 ? [] : [...groups, total];
  // An older daemon does not count them.
  const { embeddings = 0, estimated_embeddings = 0 } = total;
  const rows = shown.map((group) => [
    shownName(group.name),
    String(group.runs),
    ...(embeddings === 0 ? [] : [String(group.embeddings)]),
    String(group.input_tokens),
    String(group.output_tokens),
    group.without_price.length > 0 && group.cost === 0 ? '?' : amount(group.cost),
  ]);
  if (rows.length === 0) note('No run has ended in this time.');
  else {
    const counts = embeddings === 0 ? ['RUNS'] : ['RUNS', 'EMBEDDINGS'];
    print(table([by.toUpperCase(), ...counts, 'IN', 'OUT', currency], rows));
  }
  if (usage.covers_since !== null) note(`Runs are counted since ${usage.covers_since}.`);
  const { cached_tokens = 0, cache_write_tokens = 0 } = total;
  if (cached_tokens + cache_write_tokens > 0)
    note(
      `Of IN, ${cached_tokens} tokens were in the caches of providers, and ` +
        `${cache_write_tokens} were written into them.`,
    );
  const unlisted = total.runs - groups.reduce((sum, { runs }) => sum + runs, 0);
  if (unlisted > 0) note(`Runs without tokens, only in the total: ${unlisted}.`);
  if (total.estimated_runs > 0)
    note(`${total.estimated_runs} runs without numbers of their provider are estimated.`);
  if (estimated_embeddings > 0)
    note(`${estimated_embeddings} requests for embeddings without such numbers are estimated.`);
  const { cost_at_present_prices = 0 } = total;
  if (cost_at_present_prices > 0)
    note(
      `Of the cost, ${amount(cost_at_present_prices)} ${currency} is at the present prices: it ` +
        'was counted without one.',
    );
  if (total.without_price.length > 0)
    note(oneLine(`Without a price in the configuration: ${total.without_price.join(', ')}.`));
  const bounds = [
    budget.per_day === null ? [] : [`${amount(budget.spent)} of ${budget.per_day} ${currency}`],
    budget.tokens_per_day === null
      ? []
      : [`${budget.spent_tokens} of ${budget.tokens_per_day} tokens`],
  ].flat();
  if (bounds.length > 0)
    note(`Used today at cloud providers: ${bounds.join(', ')}. The next day: ${budget.resets_at}.`);
  return 0;
}

/** The sums of one conversation. Throws usage for a flag that does not go with it. */
async function ofConversation(
  id: string,
  flags: Context['flags'],
  paths: Context['paths'],
  json: boolean,
): Promise<number> {
  if (flags.by !== undefined || flags.since !== undefined)
    throw new SvcError('usage', '--conversation sums all its runs: leave out --by and --since.');
  const usage = await withRuns(paths, (client) => client.call('conversation.usage', { id }));
  const { conversation, runs, input_tokens, output_tokens, cached_tokens, unknown } = usage;
  if (json) return printJson(usage);
  const sums = [runs, input_tokens, output_tokens, cached_tokens].map(String);
  print(table(['CONVERSATION', 'RUNS', 'IN', 'OUT', 'CACHED'], [[oneLine(conversation), ...sums]]));
  if (unknown > 0) note(`${unknown} runs without all numbers of their provider.`);
  return 0;
}

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time, or an age such as 7d. Throws usage. */
function readSince(text: string | undefined, now: number): string | null {
  if (text === undefined) return null;
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const at = unit === undefined ? Date.parse(text) : now - Number(count) * (UNITS[unit] ?? 0);
  if (!Number.isNaN(at)) return new Date(at).toISOString();
  throw new SvcError('usage', `--since must be a time or an age such as 7d, not ${text}.`, {
    param: 'since',
  });
}

function amount(cost: number): string {
  return cost === 0 ? '0' : String(Number(cost.toPrecision(4)));
}
