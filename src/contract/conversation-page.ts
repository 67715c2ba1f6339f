import * as v from 'valibot';
import { orNull } from './records.ts';
import { run } from './run.ts';
import { named, object, pick, text, whole } from './vocabulary.ts';

export const conversationPage = named(
  'ConversationPage',
  object({
    /** The one with the newest run first. */
    conversations: v.array(
      object({
        /** Its first run, or the name that a program has of it. */
        id: text,
        /** The label `title` of its metadata. */
        title: orNull(text),
        /** The beginning of its first question. Empty if the log does not keep it. */
        prompt: text,
        /** Questions, without those that got no answer. */
        turns: whole,
        client: text,
        /** Its newest run. */
        run: object(pick(run.entries, ['id', 'state', 'provider', 'model', 'cloud', 'created_at'])),
      }),
    ),
    /** Pass as `before` for the next page. It is null on the last page. */
    next: orNull(text),
    /** Runs of this page that cannot be read. */
    damaged: v.exactOptional(v.array(object({ id: text, message: text }))),
  }),
);
export type ConversationPage = v.InferOutput<typeof conversationPage>;
