import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { callId } from './call-id.ts';
import { callText, commandsFor, joinParts } from './call-text.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const id = await callId(paths, args[0]);
  const call = await askDaemon(paths, 'approval.get', { id });
  if (json) return printJson(call);
  const text = callText(call);
  print(
    joinParts(
      `run    ${oneLine(call.run)}`,
      `tool   ${oneLine(`${call.server}/${call.tool}`)}`,
      `since  ${call.since}`,
      call.until === null ? '' : `until  ${call.until}`,
      call.report === undefined ? '' : `said   ${oneLine(call.report)}`,
      text.target,
      text.description,
      text.changes,
      text.arguments,
    ),
  );
  note(
    call.state === 'lost'
      ? `It was cut off, and may have done its work. Decide: ${commandsFor(call)}`
      : `Decide: ${commandsFor(call)}`,
  );
  return 0;
}
