import { historySpecs } from '../../config/history.ts';
import type { SettingSpec } from '../../config/layers.ts';
import { settingSpecs } from '../../config/settings.ts';

/**
 * What an editor gets when there is no configuration yet: each setting in a comment, with its
 * meaning and its default. As it is, it changes nothing.
 */
export function newFileText(): string {
  return `{
  // The settings of svc with their defaults. Remove the // before those that you change.
${inComments(settingSpecs, '  ')}
  // Bounds of queues and waits, such as "queue_runs": 16. svc config show --json lists them.
  "limits": {},

  // What the event log keeps.
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
