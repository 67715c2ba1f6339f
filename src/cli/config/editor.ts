import { spawnSync } from 'node:child_process';
import { SvcError } from '../../errors.ts';
import { platform } from '../../home/platform.ts';

/** Throws usage if there is no editor, or it fails. */
export function openEditor(file: string): void {
  const { VISUAL, EDITOR } = process.env;
  const editor = VISUAL || EDITOR || platform.editor;
  const { program, args, options } = platform.edit(editor, file);
  const { status, error } = spawnSync(program, args, { ...options, stdio: 'inherit' });
  if (status === 0) return;
  throw new SvcError(
    'usage',
    `The editor ${JSON.stringify(editor)} failed, and nothing was changed.`,
    { hint: 'Choose another with the variable VISUAL or EDITOR.', cause: error },
  );
}
