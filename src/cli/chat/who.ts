import { shownTarget } from '../../../machines/failover.ts';
import { suggest } from '../../config/suggest.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { listModels } from '../model/list-models.ts';
import { turnsText } from '../run/answer.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import { columns } from '../terminal/parse/help.ts';
import { ago, shortenLine } from '../terminal/print/format.ts';

/** The target of the next turn of a chat, and the conversation that it continues. */
export type Next = Results['run.next'];

/** Throws the error of a run with this request. */
export function nextTurn(request: Record<string, unknown>, paths: Paths): Promise<Next> {
  const { provider, model, cloud, conversation, origin } = request;
  return askDaemon(paths, 'run.next', { provider, model, cloud, conversation, origin });
}

/** One line: the target, whether the text leaves this machine, and the conversation. */
export async function nextText(next: Next, paths: Paths): Promise<string> {
  const { cloud, conversation, turns_of } = next;
  const who = [
    shownTarget(next),
    cloud ? 'cloud: what you type leaves this machine' : 'on this machine',
  ];
  if (conversation === undefined) return oneLine([...who, 'a new conversation'].join(' · '));
  const { runs, next: more } = await askDaemon(paths, 'run.list', {
    conversation,
    limit: TURNS_MAX,
    texts: 'short',
  });
  const turns = `${runs.length}${more === null ? '' : ' or more'}`;
  const lines = [
    `continues ${turns} ${turns === '1' ? 'turn' : 'turns'}`,
    ...[turnsText(turns_of)].filter((text) => text !== ''),
    `last: ${shortenLine(runs[0]?.prompt ?? '', PROMPT_WIDTH)}`,
  ];
  return oneLine([...who, ...lines].join(' · '));
}

type Conversation = Results['conversation.list']['conversations'][number];

/**
 * The latest conversations: their ids, the times of their last turns, and their subjects. Then
 * single runs.
 */
export async function conversationsText(paths: Paths): Promise<string> {
  const { conversations } = await askDaemon(paths, 'conversation.list', { limit: READ });
  const isChat = ({ turns, title, client }: Conversation) =>
    turns > 1 || title !== null || isTyped(client);
  const chats = conversations.filter(isChat).slice(0, LISTED);
  const single = conversations.filter((each) => !isChat(each)).slice(0, SINGLE);
  return [
    chats.length === 0 ? 'There is no conversation yet.' : columns(chats.map(conversationRow)),
    ...(single.length === 0 ? [] : ['Asked once:', columns(single.map(conversationRow))]),
  ].join('\n');
}

function conversationRow({ id, title, prompt, turns, run }: Conversation): [string, string] {
  const count = turns > 1 ? `, ${turns} turns` : '';
  const about = shortenLine(title ?? prompt, PROMPT_WIDTH);
  return [oneLine(id), oneLine(`${ago(run.created_at)}${count}: ${about}`)];
}

const LISTED = 10;
const SINGLE = 3;
/** Among them are single runs. */
const READ = 50;

/**
 * The newest conversation of a folder: the first run of it. Null: the newest runs of the folder are
 * single runs, or it has no runs.
 */
export async function lastConversation(paths: Paths, origin: string): Promise<string | null> {
  let before: string | null = null;
  for (let page = 0; page < PAGES; page += 1) {
    const query = { limit: RUNS, texts: 'short', ...(before === null ? {} : { before }) };
    const found: Results['run.list'] = await askDaemon(paths, 'run.list', query);
    const last = found.runs.find(
      (run) => run.origin === origin && (run.continues !== undefined || isTyped(run.client)),
    );
    if (last !== undefined) return last.conversation ?? last.id;
    if (found.next === null) return null;
    before = found.next;
  }
  return null;
}

const RUNS = 100;
const PAGES = 10;

/** Whether a person typed to the client, in a chat. */
function isTyped(client: string): boolean {
  return client.startsWith(CHAT) || client === 'console';
}

/** How `svc chat` names itself, before the number of its shell. */
export const CHAT = 'chat ';
const TURNS_MAX = 100;
const PROMPT_WIDTH = 40;

/**
 * Checks that the model is there. A provider elsewhere may have more models than it lists, so that
 * is only said. Throws model_unknown for the local engine.
 */
export async function checkModel({ provider, model }: Next, paths: Paths): Promise<string | null> {
  const { models } = await listModels(paths);
  const names = models.filter((each) => each.provider === provider).map(({ name }) => name);
  if (names.length === 0 || names.includes(model)) return null;
  const near = suggest(model, names);
  const meant = near === null ? '' : ` Did you mean: ${provider}/${near}?`;
  if (provider !== LOCAL) return `${provider} does not list ${model}.${meant}`;
  // A local file has more names than the one in the list.
  await askDaemon(paths, 'model.show', { id: model }, { timeout_ms: SHOW_MS }).catch(
    (error: unknown) => {
      if (!hasCode(error, 'model_unknown') || near === null) throw error;
      throw new SvcError('model_unknown', error.message, { hint: meant.trim(), param: 'model' });
    },
  );
  return null;
}

const LOCAL = 'local';
/** The header of a file may have to be read first. */
const SHOW_MS = 30_000;
