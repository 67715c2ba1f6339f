import type { RunRequest } from '../../../machines/messages.ts';
import { textOf } from '../../../machines/messages.ts';

/** What no message may repeat of a request. */
export function secretTexts({ messages }: Pick<RunRequest, 'messages'>): string[] {
  return messages.flatMap(({ content }) =>
    content.map((part) => (part.type === 'image' ? part.data : textOf(part))),
  );
}
