import { SCOPES } from '../../../contract/words.ts';
import { SvcError } from '../../../errors.ts';
import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context, Flags } from '../../terminal/context.ts';
import { choiceFlag, textFlag, wholeFlag } from '../../terminal/parse/flag-values.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';

/** Prints the token alone on stdout, so that a script can take it. */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const name = textFlag(flags, 'name');
  if (name === undefined)
    throw new SvcError('usage', 'svc token create needs --name.', {
      param: 'name',
      hint: 'For example: svc token create --name editor',
    });
  const created = await askDaemon(paths, 'token.create', {
    name,
    scope: choiceFlag(flags, 'scope', SCOPES) ?? 'run',
    rate: rateFlag(flags),
    concurrent: wholeFlag(flags, 'concurrent', { min: 1, max: MOST }),
  });
  if (json) printJson(created);
  else {
    print(created.token);
    note(`The token ${created.name} (${created.scope}) is printed only this time.`);
  }
  return 0;
}

/** Requests a minute, as `60/min`. */
function rateFlag(flags: Flags): number | undefined {
  const { rate } = flags;
  if (rate === undefined) return undefined;
  const number = Number(/^(\d{1,7})\/min$/.exec(String(rate))?.[1]);
  if (number >= 1 && number <= MOST) return number;
  throw new SvcError(
    'usage',
    `--rate must be a number of requests a minute such as 60/min, not ${JSON.stringify(rate)}.`,
    { param: 'rate' },
  );
}

const MOST = 1_000_000;
