import { invalidRequest } from '../../../contract/check.ts';
import type { Message, OutputPart, TextPart } from '../../../contract/messages/parts.ts';

/**
 * A compacted conversation: what the model wrote, called and was answered is one summary, which the
 * model writes. What others wrote stays as it is.
 *
 * The summary travels in `encrypted_content`, where clients expect something that only the service
 * reads. It is plain text: nothing in it is secret from who had the conversation.
 */

const BEGIN = 'svc-summary-1:';

/** The form in which clients get a summary. */
export function sealSummary(answer: readonly OutputPart[]): string {
  const texts = answer.map((part) => (part.type === 'text' ? part.text : ''));
  return BEGIN + texts.join('').trim();
}

/**
 * The summary in place of the compacted part, for a message of the user. Throws invalid_request.
 */
export function summaryPart(encrypted_content: string, at: string): TextPart {
  if (!encrypted_content.startsWith(BEGIN))
    throw invalidRequest(
      `${at}.encrypted_content`,
      `${at}.encrypted_content is of another service, which alone can read it. Send the ` +
        'conversation itself.',
    );
  const summary = encrypted_content.slice(BEGIN.length);
  const text = `A summary of the conversation before this:\n\n${summary}`;
  return { type: 'text', text };
}

/** The last message of a run that compacts. */
export const ASK_SUMMARY: Message = {
  role: 'user',
  content: [
    {
      type: 'text',
      text:
        'Summarise this conversation for a reader who continues it and sees only your summary. ' +
        'Keep what was asked, decided and found out, and what is still to be done. Keep names, ' +
        'numbers, paths, commands and code that the next steps need. Say what tools did and what ' +
        'came of it. Write the summary only.',
    },
  ],
};

/** The messages that a compaction keeps. */
export function keptMessages(messages: readonly Message[]): Message[] {
  return messages.filter((message) => isKept(message) && !isAsk(message));
}

function isKept({ role }: Message): boolean {
  return role === 'user' || role === 'system';
}

function isAsk({ content: [part] }: Message): boolean {
  const [question] = ASK_SUMMARY.content;
  return part?.type === 'text' && question?.type === 'text' && part.text === question.text;
}
