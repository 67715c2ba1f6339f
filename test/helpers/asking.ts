import type { RunRequest } from '../../src/contract/messages/parts.ts';
import { shortMessages } from '../../src/contract/messages/parts.ts';

/** A request with the short form of its messages. */
export type Asking = Partial<RunRequest> & { prompt?: string; system?: string | null };

/** `messages`, if there are any, replace the prompt. */
export function asking({
  prompt = '',
  system = null,
  messages = shortMessages(prompt, system),
  ...rest
}: Asking & Omit<RunRequest, 'messages'>): RunRequest {
  return { ...rest, messages };
}
