import type { RunRequest } from '../../contract/messages/parts.ts';
import { filesIn, opaqueOf, textOf } from '../../contract/messages/parts.ts';

/** The texts of a request that no message may repeat. */
export function secretTexts({ messages }: Pick<RunRequest, 'messages'>): string[] {
  return messages.flatMap(({ content }) =>
    content.flatMap((part) => [
      textOf(part),
      opaqueOf(part),
      ...filesIn(part).map(({ data }) => data),
    ]),
  );
}
