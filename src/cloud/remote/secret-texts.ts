import type { RunRequest } from '../../contract/messages/parts.ts';
import { filesIn, opaqueOf, textOf } from '../../contract/messages/parts.ts';

/** What no message may repeat of a request. */
export function secretTexts({ messages }: Pick<RunRequest, 'messages'>): string[] {
  return messages.flatMap(({ content }) =>
    content.flatMap((part) => [
      textOf(part),
      opaqueOf(part),
      ...filesIn(part).map(({ data }) => data),
    ]),
  );
}
