import type {
  ConversationListQuery,
  ConversationPage,
  RunRecord,
} from '../../contract/contract.ts';
import type { RunRow } from '../../kernel/store/port.ts';
import { openingOf } from '../../kernel/store/short-run.ts';
import { type PageSources, pageOf } from '../runs/run-page.ts';

interface Reads {
  wholeOf(row: RunRow): Promise<RunRecord>;
  /** Null: it has no title. */
  titleOf(conversation: string): Promise<string | null>;
}

/** The conversations, each with its newest run. The row of that run says how it began. */
export async function conversationPage(
  sources: PageSources,
  query: ConversationListQuery & { asked_by?: string },
  { wholeOf, titleOf }: Reads,
): Promise<ConversationPage> {
  const show = async (record: RunRecord, { opening }: RunRow) => {
    const { id, state, provider, model, cloud, created_at, client, conversation = id } = record;
    const { question, questions } = opening ?? openingOf(record);
    return {
      id: conversation,
      title: await titleOf(conversation),
      prompt: question,
      turns: questions,
      client,
      run: { id, state, provider, model, cloud, created_at },
    };
  };
  const list = { ...query, latest: true, texts: 'short' } as const;
  const { rows, ...page } = await pageOf(sources, list, { wholeOf, show });
  return { conversations: rows, ...page };
}
