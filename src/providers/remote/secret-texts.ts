import type { RunRequest } from '../../../machines/messages.ts';
import { isMedia, textOf } from '../../../machines/messages.ts';

/** What no message may repeat of a request. */
export function secretTexts({ messages }: Pick<RunRequest, 'messages'>): string[] {
  return messages.flatMap(({ content }) =>
    content.map((part) => (isMedia(part) ? part.data : textOf(part))),
  );
}
