import type { DecisionInput } from '../../contract/approvals.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { textFlag } from '../parse/flag-values.ts';
import { print, printJson } from '../print/output.ts';

/** The command of one decision. */
export function decision(decision: DecisionInput['decision'], said: string) {
  return async ({ paths, args: [id = '', ...words], flags, json }: Context): Promise<number> => {
    const reason = textFlag(flags, 'reason');
    const call = await askDaemon(paths, 'approval.decide', {
      id,
      decision,
      ...(reason === undefined ? {} : { reason }),
      ...(flags.always === true ? { always: true } : {}),
      ...(decision === 'result' ? { result: words.join(' ') } : {}),
    });
    if (json) printJson(call);
    else print(oneLine(`${call.server}/${call.tool} ${said}`));
    return 0;
  };
}
