import type { DecisionInput } from '../../contract/approvals.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { textFlag } from '../parse/flag-values.ts';
import { print, printJson } from '../print/output.ts';

/** What is printed of a call after each decision. The last word of its command is the decision. */
const OUTCOMES: Readonly<Record<DecisionInput['decision'], string>> = {
  allow: 'is allowed.',
  deny: 'is denied. The model hears it.',
  repeat: 'is carried out again.',
  result: 'has this result.',
  skip: 'has no result. The run goes on.',
};

export async function run({ name, paths, args, flags, json }: Context): Promise<number> {
  const [id = '', ...words] = args;
  const decision = name.split(' ').at(-1) as DecisionInput['decision'];
  const reason = textFlag(flags, 'reason');
  const call = await askDaemon(paths, 'approval.decide', {
    id,
    decision,
    ...(reason === undefined ? {} : { reason }),
    ...(flags.always === true ? { always: true } : {}),
    ...(decision === 'result' ? { result: words.join(' ') } : {}),
  });
  if (json) printJson(call);
  else print(oneLine(`${call.server}/${call.tool} ${OUTCOMES[decision]}`));
  return 0;
}
