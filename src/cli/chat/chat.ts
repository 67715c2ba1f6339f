import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { readAttachments } from '../run/attached.ts';
import { ensureDaemon } from '../run/ensure-daemon.ts';
import { findPreset } from '../run/preset.ts';
import { configuredBytes, readRunInput } from '../run/run-input.ts';
import { withTargetOfShell } from '../run/target-of-shell.ts';
import { whenNotRunning } from '../terminal/connect/not-running.ts';
import type { Context } from '../terminal/context.ts';
import { listFlag, textFlag } from '../terminal/parse/flag-values.ts';
import { isTerminal, note, paint } from '../terminal/print/output.ts';
import { openStdout } from '../terminal/print/stdout-stream.ts';
import { completeChat } from './complete.ts';
import { ChatHistory } from './history.ts';
import { openMessages } from './lines.ts';
import { Chat, LAST, type Place } from './turns.ts';
import { CHAT, lastConversation } from './who.ts';

/** Answers one message after the other, at a terminal or from a pipe: each line is a turn. */
export async function run(context: Context): Promise<number> {
  const { paths, flags, json } = context;
  if (json)
    throw new SvcError('usage', 'svc chat prints answers as text.', {
      hint: 'For a record of each turn: svc run --json, then svc run -c --json',
    });
  const { conversation, ...input } = readRunInput({ client: `${CHAT}${process.ppid}`, ...flags });
  const preset = textFlag(flags, 'preset') ?? null;
  if (preset !== null) findPreset(preset, paths.config);
  const starts = isTerminal(0) || conversation === LAST;
  if (starts && flags['no-start'] !== true) await ensureDaemon(context);
  const chat = new Chat(context, openStdout(), {
    request: await withTargetOfShell(input, paths),
    place: await placeOf(conversation, input.origin, paths),
    files: await readAttachments(listFlag(flags, 'file') ?? [], await configuredBytes(paths)),
    preset,
  });
  if (isTerminal(0)) await begin(chat);
  const history = isTerminal(0) && (await keepsPrompts(paths)) ? new ChatHistory(paths) : null;
  const messages = openMessages(history, (line) => completeChat(line, paths));
  try {
    while (!chat.ended) {
      const message = await messages.next();
      if (message === null) break;
      if (message.trim() !== '') await chat.take(message);
      if (chat.stopped) messages.drop();
    }
  } finally {
    messages.close();
  }
  return chat.exit;
}

/** Of the runs in this folder, those of a conversation go before a single run. */
async function placeOf(conversation: unknown, origin: unknown, paths: Paths): Promise<Place> {
  if (typeof conversation !== 'string') return {};
  if (conversation !== LAST || typeof origin !== 'string') return { conversation };
  const found = await lastConversation(paths, origin).catch(whenNotRunning(() => null));
  return { conversation: found ?? conversation };
}

/** Says with whom the user talks. */
async function begin(chat: Chat): Promise<void> {
  const next = await chat.whoIsNext();
  if (next !== null) note(paint('dim', oneLine(next), 2));
  note('Type a message. /help lists the commands, and Ctrl-D ends the chat.');
}

/** A user who wants no prompts in the log wants none in another file. */
async function keepsPrompts({ config }: Context['paths']): Promise<boolean> {
  const { loadConfig } = await import('../../config/config.ts');
  try {
    return loadConfig(config).history.prompts === 'keep';
  } catch {
    return false;
  }
}
