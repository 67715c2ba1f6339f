import { shownTarget } from '../../../machines/failover.ts';
import { suggest } from '../../config/suggest.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import { listModels } from '../model/list-models.ts';
import { columns } from '../parse/help.ts';
import { ago, shortened } from '../print/format.ts';
import { turnsText } from '../run/answer.ts';

/** Who answers the next turn of a chat, and what the turn continues. */
export type Next = Results['run.next'];

/** Throws what a run with this request would throw. */
export function nextTurn(request: Record<string, unknown>, paths: Paths): Promise<Next> {
  const { provider, model, cloud, conversation, origin } = request;
  return askDaemon(paths, 'run.next', { provider, model, cloud, conversation, origin });
}

/** One line: who answers, whether the text leaves this machine, and what is continued. */
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
    `conversation ${conversation}`,
    `${turns} ${turns === '1' ? 'turn' : 'turns'}`,
    `last: ${JSON.stringify(shortened(runs[0]?.prompt ?? '', PROMPT_WIDTH))}`,
    ...[turnsText(turns_of)].filter((text) => text !== ''),
  ];
  return oneLine([...who, ...lines].join(' · '));
}

/** The latest conversations: their ids, when they went on, and what they are about. */
export async function conversationsText(paths: Paths): Promise<string> {
  const { conversations } = await askDaemon(paths, 'conversation.list', { limit: LISTED });
  if (conversations.length === 0) return 'There is no conversation yet.';
  const rows = conversations.map(({ id, title, prompt, turns, run }): [string, string] => {
    const count = `${turns} ${turns === 1 ? 'turn' : 'turns'}`;
    const about = JSON.stringify(shortened(title ?? prompt, PROMPT_WIDTH));
    return [oneLine(id), oneLine(`${ago(run.created_at)}, ${count}: ${about}`)];
  });
  return columns(rows);
}

const LISTED = 10;
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
