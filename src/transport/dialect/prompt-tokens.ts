import { type Message, type Tool, textOf } from '../../../machines/messages.ts';
import type { RunInput } from '../../contract/contract.ts';
import { parseRunInput } from '../../contract/inputs.ts';
import { hasCode } from '../../errors.ts';
import { tokensIn } from '../../runtime/runs/usage-of.ts';
import type { Context } from '../http/route.ts';
import { clientGone } from '../http/run-request.ts';

/** The tokens of a prompt. `estimated`: from the length of its texts. */
export interface PromptTokens {
  input_tokens: number;
  estimated: boolean;
}

/**
 * As the provider counts them, or else an estimate. Throws what `runs.countTokens` throws, but not
 * that the provider cannot count.
 */
export async function promptTokens(
  context: Pick<Context, 'runtime' | 'limits' | 'res' | 'closing'>,
  input: RunInput,
): Promise<PromptTokens> {
  const checked = parseRunInput(input, context.limits);
  try {
    const { runs } = context.runtime;
    return { input_tokens: await runs.countTokens(checked, clientGone(context)), estimated: false };
  } catch (error) {
    if (!hasCode(error, 'capability_missing')) throw error;
    const { messages = [], tools = [] } = checked;
    return { input_tokens: estimatedTokens(messages, tools), estimated: true };
  }
}

/** About the tokens of the texts. Images have none here. */
export function estimatedTokens(messages: readonly Message[], tools: readonly Tool[]): number {
  const lengths = messages.flatMap(({ content }) => content.map((part) => textOf(part).length));
  const length = lengths.reduce((sum, one) => sum + one, 0);
  return tokensIn(length + JSON.stringify(tools).length);
}
