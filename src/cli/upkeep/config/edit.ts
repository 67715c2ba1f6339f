import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { historySpecs } from '../../../config/history.ts';
import type { SettingSpec } from '../../../config/layers.ts';
import { settingSpecs } from '../../../config/settings.ts';
import { readUserFile, replaceEdited } from '../../../config/user-file.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import { writeAtomic } from '../../../home/atomic-write.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { isTerminal, note, print, printJson } from '../../terminal/print/output.ts';
import { askYesOrNo } from '../../terminal/print/question.ts';
import { appliedText, applyNow, NOTHING } from './apply.ts';
import { openEditor } from './editor.ts';

/**
 * Opens the configuration file in the editor, checks it, and applies the live settings. The
 * editor has a copy: a text with an error never becomes the file. It stays until the user removes
 * it. Without a configuration the copy has all settings in comments.
 */
export async function run({ paths, json }: Context): Promise<number> {
  const file = paths.config;
  const copy = file.replace(/(\.json)?$/, '.edit.json');
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const before = readUserFile(file);
  const text = before.trim() === '{}' ? newFileText() : before;
  refuseKept(copy, text);
  await writeAtomic(copy, text);
  for (;;) {
    openEditor(copy);
    const after = readFileSync(copy, 'utf8');
    if (after === text) return finish(copy, json, 'Nothing was changed.');
    try {
      await replaceEdited(file, before, after);
      break;
    } catch (error) {
      if (hasCode(error, 'usage')) note(`Your text stays in ${oneLine(copy)}.`);
      if (!hasCode(error, 'config_invalid') || !(await shouldEditAgain(error, copy))) throw error;
    }
  }
  const applied = await applyNow(paths);
  if (json) printJson({ file, ...(applied ?? NOTHING) });
  else {
    print(oneLine(`${file} was changed.`));
    if (applied !== null && applied.applied.length + applied.after_restart.length > 0)
      note(appliedText(applied));
  }
  await rm(copy, { force: true });
  return 0;
}

async function finish(copy: string, json: boolean, text: string): Promise<number> {
  await rm(copy, { force: true });
  if (json) printJson(NOTHING);
  else note(text);
  return 0;
}

/** The configuration may have changed since, so an old text is not edited further. Throws usage. */
function refuseKept(copy: string, text: string): void {
  if (!existsSync(copy) || readFileSync(copy, 'utf8') === text) return;
  throw new SvcError('usage', `An earlier edit left its text in ${copy}.`, {
    hint: 'Take from it what you need, and delete it. Then edit again.',
  });
}

/** Whether the user wants to correct the text. Without a terminal there is no one to ask. */
async function shouldEditAgain(error: SvcError, copy: string): Promise<boolean> {
  if (!isTerminal(0) || !isTerminal(2)) {
    note(`The text stays in ${oneLine(copy)}.`);
    return false;
  }
  note(oneLine(error.message));
  if (await askYesOrNo('Edit it again?')) return true;
  note(`The text stays in ${oneLine(copy)}.`);
  return false;
}

/**
 * The text for an editor when there is no configuration yet: each setting in a comment, with its
 * meaning and its default. As it is, it changes nothing.
 */
function newFileText(): string {
  return `{
  // The settings of svc with their defaults. Remove the // before those that you change.
${inComments(settingSpecs, '  ')}
  // Bounds of queues and waits, such as "queue_runs": 16. svc config show --json lists them.
  "limits": {},

  // Retention of the event log.
  "history": {${inComments(historySpecs, '    ')}  },
}
`;
}

function inComments(specs: Readonly<Record<string, SettingSpec>>, margin: string): string {
  const lines = Object.entries(specs).flatMap(([key, { meaning, default: value }]) => [
    '',
    ...(meaning.match(LINE) ?? []).map((line) => `${margin}// ${line.trimEnd()}`),
    `${margin}// ${JSON.stringify(key)}: ${JSON.stringify(value)},`,
  ]);
  return `${lines.join('\n')}\n`;
}

/** As many words as a line of the file has. */
const LINE = /\S.{0,90}(?=\s|$)/g;
