import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { foreignJson, foreignText } from '../print/foreign.ts';
import { note, print, printJson } from '../print/output.ts';

export async function run({ paths, args: [id = ''], json }: Context): Promise<number> {
  const call = await askDaemon(paths, 'approval.get', { id });
  if (json) {
    printJson(call);
    return 0;
  }
  print(
    [
      `run    ${oneLine(call.run)}`,
      `tool   ${oneLine(`${call.server}/${call.tool}`)}`,
      `since  ${call.since}`,
      ...(call.until === null ? [] : [`until  ${call.until}`]),
      ...(call.report === undefined ? [] : [`said   ${oneLine(call.report)}`]),
      ...(call.description === null ? [] : ['says', foreignText(call.description)]),
      'arguments',
      foreignJson(call.arguments),
    ].join('\n'),
  );
  note(
    call.state === 'lost'
      ? `It was cut off, and may have done its work. Decide: svc approvals repeat ${id}, or ` +
          `svc approvals skip ${id}, or svc approvals result ${id} <text>`
      : `Allow it: svc approvals allow ${id}. Or: svc approvals deny ${id}`,
  );
  return 0;
}
