import { randomInt } from 'node:crypto';
import { type RunRequest, shortMessages, type Wishes } from '../../../machines/messages.ts';
import { given } from '../contract/check.ts';
import type { RunInput } from '../contract.ts';
import type { Route } from './route.ts';

/** What the provider of the route is asked. */
export function requestOf(input: RunInput, route: Route): RunRequest {
  return {
    ...route,
    messages: input.messages ?? shortMessages(input.prompt ?? '', input.system ?? null),
    ...wishes(input),
    max_tokens: input.max_tokens ?? null,
    temperature: input.temperature ?? null,
    seed: input.seed ?? randomInt(2 ** 32),
    seed_asked: input.seed != null,
  };
}

/** What the request says beside its messages. */
function wishes(input: RunInput): Wishes {
  const { tools, tool_choice, response_format, stop } = input;
  const { top_p, presence_penalty, frequency_penalty, logprobs } = input;
  return given({
    ...{ tools, tool_choice, response_format, stop },
    ...{ top_p, presence_penalty, frequency_penalty, logprobs },
  });
}
