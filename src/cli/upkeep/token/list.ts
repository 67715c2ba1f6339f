import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { ago } from '../../terminal/print/format.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';
import { table } from '../../terminal/print/table.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const { tokens } = await askDaemon(paths, 'token.list');
  if (json) printJson({ tokens });
  else if (tokens.length === 0)
    note('No program has its own token. Create one with: svc token create --name <name>');
  else
    print(
      table(
        ['TOKEN', 'SCOPE', 'RATE', 'CONCURRENT', 'CREATED', 'LAST USED'],
        tokens.map(({ name, scope, rate, concurrent, created_at, last_used }) => [
          name,
          scope,
          rate === null ? '-' : `${rate}/min`,
          concurrent === null ? '-' : String(concurrent),
          ago(created_at),
          last_used === null ? 'never' : ago(last_used),
        ]),
      ),
    );
  return 0;
}
