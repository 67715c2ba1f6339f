import { askAgainCommand } from '../../config/mcp-file.ts';
import type { DecisionInput } from '../../contract/approvals.ts';
import { hasCode } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { callId } from './call-id.ts';
import { commandsFor } from './call-text.ts';

/** The text after each decision. The last word of the command is the decision. */
const OUTCOMES: Readonly<Record<DecisionInput['decision'], string>> = {
  allow: 'is allowed.',
  deny: 'is denied. The model is informed.',
  repeat: 'is carried out again.',
  result: 'has this result.',
  skip: 'has no result. The run continues.',
};

export async function run({ name, paths, args, flags, json }: Context): Promise<number> {
  const [written, ...words] = args;
  const id = await callId(paths, written);
  const decision = name.split(' ').at(-1) as DecisionInput['decision'];
  const reason = textFlag(flags, 'reason');
  const always = flags.always === true;
  const call = await askDaemon(paths, 'approval.decide', {
    id,
    decision,
    ...(reason === undefined ? {} : { reason }),
    ...(always ? { always } : {}),
    ...(decision === 'result' ? { result: words.join(' ') } : {}),
  }).catch(async (error: unknown) => {
    if (!hasCode(error, 'invalid_request') || error.param !== 'decision') throw error;
    const waits = await askDaemon(paths, 'approval.get', { id });
    throw error.with({ hint: `Decide: ${commandsFor(waits)}` });
  });
  if (json) printJson(call);
  else print(oneLine(`${call.server}/${call.tool} ${OUTCOMES[decision]}`));
  if (always && !json) note(alwaysText(call));
  return 0;
}

/** The sentence about future calls that are allowed, and how to end that. */
export function alwaysText(call: { server: string; tool: string; target?: string | null }): string {
  const { server, tool, target } = call;
  const of = target == null ? '' : ` of ${target}`;
  const undo = askAgainCommand(server, tool);
  return oneLine(`${server}/${tool}${of} is allowed from now on. To undo it: ${undo}`);
}
