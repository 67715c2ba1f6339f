import { spawnSync } from 'node:child_process';
import { SvcError } from '../../errors.ts';

/** Throws usage if there is no editor, or it fails. */
export function openEditor(file: string): void {
  const windows = process.platform === 'win32';
  const { VISUAL, EDITOR } = process.env;
  const editor = VISUAL || EDITOR || (windows ? 'notepad' : 'vi');
  // An editor may have arguments, such as `code --wait`.
  const { status, error } = windows
    ? spawnSync(editor, [file], { stdio: 'inherit', shell: true })
    : spawnSync('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
  if (status === 0) return;
  throw new SvcError(
    'usage',
    `The editor ${JSON.stringify(editor)} failed, and nothing was changed.`,
    { hint: 'Choose another with the variable VISUAL or EDITOR.', cause: error },
  );
}
