import { spellUnseen } from '../../logs/plain.ts';

/**
 * Foreign text that a person judges, such as the description of a tool. Characters that a terminal
 * does not show are written out. Each line is indented, so that none imitates one of ours.
 */
export function foreignText(text: string): string {
  return spellUnseen(text).replace(/^/gm, '  ');
}

/** The same for JSON. A field that is written twice shows once, as the server gets it. */
export function foreignJson(json: string): string {
  let text = json;
  try {
    text = JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    // No JSON.
  }
  return foreignText(text);
}
