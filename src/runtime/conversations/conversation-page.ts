import type { ConversationPage, RunPage } from '../../contract/contract.ts';
import { SHORT_CHARACTERS } from '../../store/short-run.ts';

/**
 * The conversations of a page with the newest run of each. Its request has the turns before it, so
 * no other run is read.
 */
export async function conversationPage(
  { runs, next, damaged }: RunPage,
  titleOf: (conversation: string) => Promise<string | null>,
): Promise<ConversationPage> {
  const rows = runs.map(async ({ conversation, ...run }) => {
    const { id, state, provider, model, cloud, created_at, client, messages } = run;
    const asked = messages?.filter(({ role }) => role === 'user') ?? [];
    const [first] = asked.flatMap(({ content }) => content.filter(({ type }) => type === 'text'));
    const prompt = first !== undefined && 'text' in first ? first.text : run.prompt;
    return {
      id: conversation ?? id,
      title: await titleOf(conversation ?? id),
      prompt: prompt.slice(0, SHORT_CHARACTERS),
      turns: Math.max(1, asked.length),
      client,
      run: { id, state, provider, model, cloud, created_at },
    };
  });
  return {
    conversations: await Promise.all(rows),
    next,
    ...(damaged === undefined ? {} : { damaged }),
  };
}
