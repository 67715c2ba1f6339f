import * as v from 'valibot';
import type { Message, OutputPart, Tool } from '../../contract/messages/parts.ts';
import { object, text } from '../../contract/vocabulary.ts';
import { SvcError } from '../../errors.ts';
import type { Runtime } from '../../operations/port.ts';
import { runIdOf } from '../ids.ts';
import { namedTool } from '../mcp-tools.ts';

/**
 * A thread: a request names the message that it follows, and sends only what is new. Every run is
 * kept anyway, so the beginning of a thread needs nothing. A message may be followed twice.
 */
export const threadInput = v.nullish(
  v.variant(
    'type',
    [
      object({ type: v.literal('create') }),
      object({ type: v.literal('continue'), previous_message_id: text }),
    ],
    'must be create or continue.',
  ),
);

/** The thread so far: all messages with their answer, and the tools. */
export interface Thread {
  messages: readonly Message[];
  /** Functions of the client. */
  tools: readonly Tool[];
  /** Tools of servers. */
  servers: string[];
}

/**
 * The thread that a request continues. Null: none. Throws thread_not_found, and the clients then
 * send the whole conversation.
 */
export async function threadOf(
  { runs }: Pick<Runtime, 'runs'>,
  thread: v.InferOutput<typeof threadInput>,
): Promise<Thread | null> {
  if (thread?.type !== 'continue') return null;
  const { previous_message_id: id } = thread;
  try {
    const run_id = runIdOf('msg_', id);
    const { asked_as, state, output, output_parts, turns = [] } = await runs.get(run_id);
    const { messages, tools = [] } = (await runs.readRequest(run_id)).request;
    if (asked_as !== ASKED_AS || state !== 'completed' || messages.length === 0)
      throw new SvcError('run_unknown');
    const content: readonly OutputPart[] = output_parts ?? [{ type: 'text', text: output }];
    return {
      messages: [...messages, ...(turns as Message[]), { role: 'assistant', content }],
      tools: tools.filter(({ server }) => server === undefined),
      servers: tools.flatMap(({ server, tool }) =>
        server === undefined ? [] : namedTool(`${server}/${tool}`),
      ),
    };
  } catch (cause) {
    if (!(cause instanceof SvcError) || cause.code !== 'run_unknown') throw cause;
    const shown = JSON.stringify(id.slice(0, 80));
    throw new SvcError('thread_not_found', `The log has no complete message ${shown}.`, {
      cause,
      param: 'thread.previous_message_id',
    });
  }
}

/** The name of this API in the record of a run. */
export const ASKED_AS = 'anthropic.messages';
